"""
Who has a package, and who wants it.
"""

import saltext.package_states.difference as difference
import saltext.package_states.item as items
import saltext.package_states.names as names
import saltext.package_states.page as pages
import saltext.package_states.resolver as resolver
import saltext.package_states.stages as stages
import saltext.package_states.store as store
from saltext.package_states.fleet import Fleet


def page(opts, key, number=1, size=100):
    """
    Return the minions that have a package or of which it is wanted, as plain data

    :param dict opts: the options of the master
    :param str key: ``name`` or ``name:architecture``
    :param int number: that of the page, from 1 on
    :param int size: how many minions a page has
    :raises InvalidInput: if the page or its size is none
    """
    names.split(key)
    pages.numbers(number, size)
    with store.reading(opts) as connection:
        fleet = Fleet(opts, connection)
        there = _there(connection, key)
        wanted = _wanted(connection, fleet, key)
        known = set(fleet.registry.minions())
    rows = [
        {"minion": one, "installed": there.get(one, ""), **wanted.get(one, {})}
        for one in sorted({*there, *wanted} & known)
    ]
    begin = (number - 1) * size
    return {
        "counts": {
            "minions": len(rows),
            "have it": sum(bool(row["installed"]) for row in rows),
            "want it": sum("wanted" in row for row in rows),
        },
        "page": number,
        "pages": max(1, -(-len(rows) // size)),
        "minions": rows[begin : begin + size],
    }


def _there(connection, key):
    """
    Return the versions that minions have, as text by id
    """
    rows = store.ask(
        connection,
        "SELECT minion_id, packages -> %s -> 'versions' FROM package_states.package_list"
        " WHERE jsonb_exists(packages, %s)",
        key,
        key,
    )
    return {minion: ", ".join(found) for minion, found in rows if found}


def _wanted(connection, fleet, key):
    """
    Return what is wanted of a package, and by which state, by the id of the minion
    """
    states = {state.id: state for state in store.states(connection)}
    there = [store.newest(connection, states)]
    there += [stages.in_force(connection, states, one) for one in fleet.stages[1:]]
    minions, asked = {}, items.make(key, items.UNMANAGED)
    for one, where in states.items():
        if any(item.name == asked.name for some in there for item in some[one].items):
            minions.update(fleet.affected(where))
    found = {}
    for minion, sources in fleet.sources(minions).items():
        sources = [
            source._replace(
                items=tuple(i for i in source.items if i.name == asked.name)
            )
            for source in sources
        ]
        native, conflicts = fleet.grains(minion).get("osarch", ""), {}
        mine = resolver.bare(asked, native).key
        for verdict in resolver.resolve(sources, native, conflicts):
            if verdict.item.key == mine:
                found[minion] = {
                    "wanted": difference.show(verdict.item),
                    "source": verdict.source.label,
                }
        if mine in conflicts:
            found[minion] = {"wanted": "conflict", "source": str(conflicts[mine])}
    return found
