"""
The minions that belong to the last stage, or did and were not released.

One that belonged to it stays in it until another person approves that it leaves, whatever
becomes of its group or its grains: it is held then, and nothing new is written for it.
"""

import saltext.package_states.store as store


def listed(connection):
    """
    Return the ids of minions that belong to the last stage, or did and were not released
    """
    rows = store.ask(connection, "SELECT minion_id FROM package_states.final_minion")
    return frozenset(row[0] for row in rows)


def stay(connection, ids):
    """
    Write down that minions belong to the last stage

    :param ids: their ids
    """
    store.ask(
        connection,
        "INSERT INTO package_states.final_minion (minion_id) SELECT unnest(%s::text[])"
        " ON CONFLICT DO NOTHING RETURNING minion_id",
        list(ids),
    )


def release(connection, ids):
    """
    Let minions leave the last stage, in the transaction in which that is approved

    :param ids: their ids
    """
    store.ask(
        connection,
        "DELETE FROM package_states.final_minion WHERE minion_id = ANY(%s)"
        " RETURNING minion_id",
        list(ids),
    )


def hold(fleet, minions):
    """
    Write down which minions belong to the last stage, and return the ids of all that
    did and are held, a sorted list

    :param Fleet fleet: the minions
    :param dict minions: those that are looked at, by id
    """
    if not fleet.stages:
        return []
    last = {name for name in minions if fleet.is_last(minions[name])}
    if last - fleet.final:
        stay(fleet.connection, sorted(last - fleet.final))
    there = fleet.minions(sorted(fleet.final)) if fleet.final else {}
    return sorted(name for name in there if fleet.held(there[name]))


def left(old, new, minions):
    """
    Return the ids of minions that belonged to the last stage before a change and do not
    after it, which is approved then, a list

    :param Fleet old: the minions before it
    :param Fleet new: the minions after it
    :param dict minions: those that are looked at, by id
    """
    return [
        name
        for name, minion in minions.items()
        if name in new.final and old.is_last(minion) and not new.is_last(minion)
    ]
