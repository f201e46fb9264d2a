"""Who is and was a minion, in the database, and what is theirs under another id."""

import saltext.package_states.store.tables as store

# whether the state "o" asks for something
_ASKS = (
    "EXISTS (SELECT FROM package_states.revision AS r WHERE r.state_id = o.id"
    " AND jsonb_array_length(r.items) > 0 AND r.number = (SELECT max(number)"
    " FROM package_states.revision WHERE state_id = o.id))"
)
# whether the state "s" is nobody's
_UNASSIGNED = (
    "NOT own AND NOT EXISTS"
    " (SELECT FROM package_states.assignment AS a WHERE a.state_id = s.id)"
)


def adopt(connection, ids):
    """Let states that nothing is assigned be the own ones of minions, and return their names"""
    rows = store.ask(
        connection,
        "UPDATE package_states.state AS s SET own = TRUE WHERE name = ANY(%s)"
        f" AND {_UNASSIGNED} RETURNING name",
        list(ids),
    )
    return [row[0] for row in rows]


def strangers(connection):
    """Return the names of states that may be the own ones of minions to come, a list"""
    rows = store.ask(
        connection, f"SELECT name FROM package_states.state AS s WHERE {_UNASSIGNED}"
    )
    return [row[0] for row in rows]


def known_minions(connection):
    """Return all that were minions once, by id: pairs of identity and whether it is gone"""
    rows = store.ask(
        connection, "SELECT minion_id, identity, gone FROM package_states.known_minion"
    )
    return {row[0]: row[1:] for row in rows}


def know(connection, joined, gone):
    if joined:
        store.ask(
            connection,
            "INSERT INTO package_states.known_minion (minion_id, identity)"
            " SELECT * FROM unnest(%s::text[], %s::text[]) ON CONFLICT (minion_id) DO UPDATE"
            " SET identity = EXCLUDED.identity, gone = FALSE, seen = now()",
            list(joined),
            list(joined.values()),
        )
    if gone:
        store.ask(
            connection,
            "UPDATE package_states.known_minion SET gone = TRUE, seen = now()"
            " WHERE minion_id = ANY(%s)",
            list(gone),
        )


def collided(connection):
    """Return the old ids of minions by the new ones, where there is a state with the name of either, so
    that the one of the old id, which asks for something, can't be that of the new one
    """
    rows = store.ask(
        connection,
        "SELECT new.minion_id, min(old.minion_id) FROM package_states.known_minion AS old"
        " JOIN package_states.known_minion AS new USING (identity)"
        " JOIN package_states.state AS o ON o.own AND o.name = old.minion_id"
        " JOIN package_states.state AS n ON n.name = new.minion_id"
        " WHERE old.identity <> '' AND new.identity <> '' AND old.gone AND NOT new.gone"
        # the index has no empty ones
        " AND (SELECT count(*) FROM package_states.known_minion AS k WHERE k.identity <> ''"
        f" AND k.identity = old.identity AND NOT k.gone) = 1 AND {_ASKS}"
        " GROUP BY new.minion_id",
    )
    return dict(rows)


def unsettled(connection, heirs):
    """Return the old ids under which there is something that :func:`rename` would move, or that collides"""
    here = "EXISTS (SELECT FROM package_states.{} AS x WHERE x.minion_id = p.{})"
    moves = [
        "EXISTS (SELECT FROM package_states.state AS o WHERE o.own AND o.name = p.old AND"
        " (NOT EXISTS (SELECT FROM package_states.state AS n WHERE n.name = p.new)"
        f" OR {_ASKS}))",
        "EXISTS (SELECT FROM package_states.assignment AS a WHERE a.kind = 'minion'"
        " AND a.target = p.old)",
        f"{here.format('package_list', 'old')} AND NOT {here.format('package_list', 'new')}",
    ]
    rows = store.ask(
        connection,
        "SELECT p.old FROM unnest(%s::text[], %s::text[]) AS p (old, new)"
        f" WHERE {' OR '.join(moves)}",
        list(heirs),
        list(heirs.values()),
    )
    return {row[0] for row in rows}


def rename(connection, old, new, how):
    """Give what is a minion's (own state, assignments, packages) to the id that it has now, and return
    whether there was anything; what is there under the new id stays
    """
    moved = store.ask(
        connection,
        "UPDATE package_states.state SET name = %s WHERE own AND name = %s AND NOT EXISTS"
        " (SELECT FROM package_states.state WHERE name = %s) RETURNING id",
        new,
        old,
        new,
    )
    rows = store.ask(
        connection,
        "UPDATE package_states.assignment AS a SET target = %s WHERE kind = 'minion'"
        " AND target = %s AND NOT EXISTS (SELECT FROM package_states.assignment AS b"
        " WHERE b.state_id = a.state_id AND b.kind = 'minion' AND b.target = %s)"
        " RETURNING state_id, priority",
        new,
        old,
        new,
    )
    for state_id, priority in rows:
        store.note(connection, state_id, "minion", old, None, how)
        store.note(connection, state_id, "minion", new, priority, how)
    sent = store.ask(
        connection,
        "UPDATE package_states.package_list SET minion_id = %s WHERE minion_id = %s AND"
        " NOT EXISTS (SELECT FROM package_states.package_list WHERE minion_id = %s)"
        " RETURNING minion_id",
        new,
        old,
        new,
    )
    return bool(moved or rows or sent)
