"""
Who is and was a minion, in the database, and what is theirs under another id.
"""

import saltext.package_states.store as store


def adopt(connection, ids):
    """
    Let states that are assigned to nothing be the own ones of the minions of their name,
    and return their names

    :param ids: the ids of minions
    """
    rows = store.ask(
        connection,
        "UPDATE package_states.state AS s SET own = TRUE WHERE NOT own AND name = ANY(%s)"
        " AND NOT EXISTS (SELECT FROM package_states.assignment AS a WHERE a.state_id = s.id)"
        " RETURNING name",
        list(ids),
    )
    return [row[0] for row in rows]


def strangers(connection):
    """
    Return the names of states that may be the own ones of minions to come, a list
    """
    rows = store.ask(
        connection,
        "SELECT name FROM package_states.state AS s WHERE NOT own AND NOT EXISTS"
        " (SELECT FROM package_states.assignment AS a WHERE a.state_id = s.id)",
    )
    return [row[0] for row in rows]


def known_minions(connection):
    """
    Return all that were minions once, by id: pairs of identity and whether it is gone
    """
    rows = store.ask(
        connection, "SELECT minion_id, identity, gone FROM package_states.known_minion"
    )
    return {row[0]: row[1:] for row in rows}


def know(connection, joined, gone):
    """
    Write down who is a minion and who is none any more

    :param dict joined: the identities of minions by id
    :param gone: the ids of those that are gone
    """
    if joined:
        store.ask(
            connection,
            "INSERT INTO package_states.known_minion (minion_id, identity)"
            " SELECT * FROM unnest(%s::text[], %s::text[]) ON CONFLICT (minion_id) DO UPDATE"
            " SET identity = EXCLUDED.identity, gone = FALSE, seen = now() RETURNING minion_id",
            list(joined),
            list(joined.values()),
        )
    if gone:
        store.ask(
            connection,
            "UPDATE package_states.known_minion SET gone = TRUE, seen = now()"
            " WHERE minion_id = ANY(%s) RETURNING minion_id",
            list(gone),
        )


def rename(connection, old, new, author):
    """
    Give what is a minion's to the id that it has now, and return whether there was
    anything: its own state, assignments to it, and the packages that it sent

    What is there under the new id stays.

    :param str old: the id that it had
    :param str new: the id that it has
    :param str author: who notices it
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
        " RETURNING state_id, priority, stage",
        new,
        old,
        new,
    )
    for state_id, priority, stage in rows:
        where, why = store.State(state_id, "", False), f"{old} is {new} now"
        store.note(connection, where, "minion", old, None, author, why)
        store.note(connection, where, "minion", new, priority, author, why, stage)
    sent = store.ask(
        connection,
        "UPDATE package_states.package_list SET minion_id = %s WHERE minion_id = %s AND"
        " NOT EXISTS (SELECT FROM package_states.package_list WHERE minion_id = %s)"
        " RETURNING minion_id",
        new,
        old,
        new,
    )
    store.ask(
        connection,
        "UPDATE package_states.generation SET minion_id = %s WHERE minion_id = %s RETURNING id",
        new,
        old,
    )
    return bool(moved or rows or sent)
