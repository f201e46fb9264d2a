"""Whether minions are as they should be, in the database: worked out when a minion sends its packages
or when somebody asks, and kept until something else is wanted.
"""

import saltext.package_states.store.tables as store


def keep(connection, rows):
    """Keep what came out of a comparison with what is wanted, but of a minion that has sent others since

    :param rows: tuples of the id of a minion, when it sent its packages, how many are managed, how
        many are not as they should be, and what can't be decided
    """
    if rows:
        store.ask(
            connection,
            "INSERT INTO package_states.minion_status (minion_id, managed, drifted, error)"
            " SELECT n.minion_id, n.managed, n.drifted, n.error"
            " FROM unnest(%s::text[], %s::text[], %s::int[], %s::int[], %s::text[])"
            " AS n (minion_id, refreshed, managed, drifted, error)"
            " JOIN package_states.package_list AS l"
            " ON l.minion_id = n.minion_id AND l.refreshed::text = n.refreshed"
            " ON CONFLICT (minion_id) DO UPDATE SET managed = EXCLUDED.managed,"
            " drifted = EXCLUDED.drifted, error = EXCLUDED.error, checked = now()",
            *(list(column) for column in zip(*rows)),
        )


def drop(connection, ids):
    """Forget whether minions are as they should be, as something else is wanted of them"""
    store.ask(
        connection,
        "DELETE FROM package_states.minion_status WHERE minion_id = ANY(%s)",
        list(ids),
    )


def stale(connection, ids, most):
    """Return minions, of some ids or all, that are to be compared: when they sent packages, by id"""
    rows = store.ask(
        connection,
        "SELECT l.minion_id, l.refreshed::text FROM package_states.package_list AS l"
        " LEFT JOIN package_states.minion_status AS s USING (minion_id)"
        " WHERE s.minion_id IS NULL AND (%s OR l.minion_id = ANY(%s))"
        " ORDER BY l.minion_id LIMIT %s",
        ids is None,
        list(ids or ()),
        most,
    )
    return dict(rows)


def statuses(connection, ids):
    """Return rows of id, time and seconds since it was heard, how many packages are managed, how many are
    not right, what can't be decided, how many lack a security update, and why that is outdated
    """
    return store.ask(
        connection,
        "SELECT i.minion_id, l.refreshed::text, EXTRACT(epoch FROM now() - l.refreshed)::float,"
        " s.managed, s.drifted, s.error,"
        " (SELECT count(*)::int FROM jsonb_object_keys(l.security)), l.behind"
        " FROM unnest(%s::text[]) WITH ORDINALITY AS i (minion_id, number)"
        " LEFT JOIN package_states.package_list AS l USING (minion_id)"
        " LEFT JOIN package_states.minion_status AS s USING (minion_id) ORDER BY i.number",
        list(ids),
    )
