"""
Who has a package, and who wants it.
"""

import saltext.package_states.difference as difference
import saltext.package_states.generations as generations
import saltext.package_states.item as items
import saltext.package_states.page as pages
import saltext.package_states.resolver as resolver
import saltext.package_states.stages as stages
import saltext.package_states.store as store
from saltext.package_states.fleet import Fleet

# what it is called to want a package
PRESENT = (items.INSTALLED, items.LATEST, items.KEPT)
CONFLICT = "conflict"


def page(opts, key, number=1, size=100):
    """
    Return the minions that have a package or of which it is wanted, as plain data

    :param dict opts: the options of the master
    :param str key: ``name`` or ``name:architecture``
    :param int number: that of the page, from 1 on
    :param int size: how many minions a page has
    :raises InvalidInput: if the page or its size is none
    """
    pages.numbers(number, size)
    asked = items.make(key, items.UNMANAGED)
    with store.reading(opts) as connection:
        fleet = Fleet(opts, connection)
        there = _there(connection, fleet, asked)
        halted = _halted(fleet)
        wanted = _wanted(connection, fleet, asked, halted)
        wanted.update(_kept(connection, fleet, asked, halted))
        known = set(fleet.registry.minions())
    rows, words = [], []
    for one in sorted({*there, *wanted} & known):
        row = {"minion": one, "installed": there.get(one, "")}
        if one in wanted:
            word, row["wanted"], row["source"] = wanted[one]
            words.append(word)
        if one in halted:
            row["held"] = str(halted[one])
        rows.append(row)
    begin = (number - 1) * size
    return {
        "counts": {
            "minions": len(rows),
            "have it": sum(bool(row["installed"]) for row in rows),
            "want it": sum(word in PRESENT for word in words),
            "want it gone": sum(word in items.ABSENT for word in words),
            "in conflict": words.count(CONFLICT),
            "held": sum("held" in row for row in rows),
        },
        "page": number,
        "pages": max(1, -(-len(rows) // size)),
        "minions": rows[begin : begin + size],
    }


def _mine(fleet, minion, asked):
    """
    Return how a minion calls a package, which is without its own architecture
    """
    if not asked.architecture:
        return asked.key
    return resolver.bare(asked, fleet.architecture(minion)).key


def _there(connection, fleet, asked):
    """
    Return the versions that minions have, as text by id
    """
    keys = sorted({asked.key, asked.name})
    rows = store.ask(
        connection,
        "SELECT minion_id, key, packages -> key -> 'versions'"
        " FROM package_states.package_list, unnest(%s::text[]) AS key"
        " WHERE jsonb_exists(packages, key)",
        keys,
    )
    return {
        minion: ", ".join(found)
        for minion, key, found in rows
        if found and key == _mine(fleet, minion, asked)
    }


def _halted(fleet):
    """
    Return the minions whose files stay as they are, whatever applies to them: why, by id
    """
    ids = {*fleet.final, *fleet.collided}
    found = fleet.minions(sorted(ids)) if ids else {}
    halts = {name: fleet.halted(minion) for name, minion in found.items()}
    return {name: halt for name, halt in halts.items() if halt}


def _kept(connection, fleet, asked, halted):
    """
    Return what the files of minions that are held want of a package, see :func:`_wanted`

    It is what was wanted when somebody was last allowed to write them.
    """
    found = {}
    for minion, one in generations.newest(connection, halted).items():
        mine = _mine(fleet, minion, asked)
        for item in one.items:
            if item.key == mine:
                source = f"generation {one.number}"
                found[minion] = (item.wanted, difference.show(item), source)
    return found


def _wanted(connection, fleet, asked, halted):
    """
    Return what is wanted of a package, as a word and as text, and by which state, by the id
    of the minion
    """
    states = {state.id: state for state in store.states(connection)}
    there = [store.newest(connection, states)]
    there += [stages.in_force(connection, states, one) for one in fleet.stages[1:]]
    minions = {}
    for one, where in states.items():
        if any(item.name == asked.name for some in there for item in some[one].items):
            minions.update(fleet.affected(where))
    minions = {name: minions[name] for name in minions if name not in halted}
    found = {}
    for minion, sources in fleet.sources(minions).items():
        sources = [
            source._replace(
                items=tuple(i for i in source.items if i.name == asked.name)
            )
            for source in sources
        ]
        native, conflicts = fleet.architecture(minion), {}
        mine = resolver.bare(asked, native).key
        for verdict in resolver.resolve(sources, native, conflicts):
            if verdict.item.key == mine:
                item, source = verdict.item, verdict.source.label
                found[minion] = (item.wanted, difference.show(item), source)
        if mine in conflicts:
            found[minion] = (CONFLICT, CONFLICT, str(conflicts[mine]))
    return found
