"""Who has a package, and who wants it."""

import saltext.package_states.model.item as items
import saltext.package_states.model.resolver as resolver
import saltext.package_states.status.page as pages
import saltext.package_states.store.tables as store
from saltext.package_states.compile.fleet import Fleet

CONFLICT = "conflict"


def page(
    opts, key, number=1, size=100, lacking=False, only=None
):  # pylint: disable=too-many-arguments
    """Return the minions that have a package or of which it is wanted, or that lack it, or only these"""
    pages.numbers(number, size)
    asked = items.make(key, items.UNMANAGED)
    with store.reading(opts) as connection:
        fleet = Fleet(opts, connection)
        there = _there(connection, fleet, asked)
        held = fleet.minions(sorted(fleet.collided)) if fleet.collided else {}
        # whatever applies to them
        halted = {name: fleet.halted(minion) for name, minion in held.items()}
        wanted = _wanted(connection, fleet, asked, halted)
        known = set(fleet.registry.minions())
        known &= known if only is None else set(only)
        lists = "SELECT minion_id FROM package_states.package_list"
        sent = {one for (one,) in store.ask(connection, lists)}
    lack = {one for one in known & sent if not there.get(one, ("",))[0]}
    listed, rows, words = {*there, *wanted} & known, [], []
    for one in sorted(known if only is not None else lack | listed):
        versions, held = there.get(one, ("", False))
        row = {"minion": one, "installed": versions}
        if one not in sent:
            row["unknown"] = True
        if held:
            row["held"] = True
        if one in wanted:
            word, row["wanted"], row["source"] = wanted[one]
            words.append(word)
        if one in halted:
            row["halted"] = str(halted[one])
        rows.append(row)
    chosen = lack if lacking else listed if only is None else known
    return {
        "counts": {
            "minions": len(listed),
            "have it": sum(bool(row["installed"]) for row in rows),
            "lack it": len(lack),
            "not known": len(known - sent),
            "want it": sum(word in items.THERE for word in words),
            "want it gone": sum(word in items.ABSENT for word in words),
            "in conflict": words.count(CONFLICT),
            "halted": sum(one in halted for one in listed),
        },
        **pages.cut(
            [row for row in rows if row["minion"] in chosen],
            number,
            size,
        ),
    }


def _mine(fleet, minion, asked):
    """Return how a minion calls a package, which is without its own architecture"""
    if not asked.architecture:
        return asked.key
    return resolver.bare(asked, fleet.architecture(minion)).key


def _there(connection, fleet, asked):
    """Return the versions, as text, and whether the package is held or locked, by minion"""
    keys = sorted({asked.key, asked.name})
    rows = store.ask(
        connection,
        "SELECT minion_id, key, packages -> key -> 'versions', packages -> key -> 'held'"
        " FROM package_states.package_list, unnest(%s::text[]) AS key"
        " WHERE jsonb_exists(packages, key)",
        keys,
    )
    return {
        minion: (", ".join(found or ()), bool(held))
        for minion, key, found, held in rows
        if (found or held) and key == _mine(fleet, minion, asked)
    }


def _wanted(connection, fleet, asked, halted):
    """Return what is wanted of a package, as word and text, and by which state, by minion"""
    states = {state.id: state for state in store.states(connection)}
    minions = {}
    for one, revision in store.newest(connection, states).items():
        if any(item.name == asked.name for item in revision.items):
            minions.update(fleet.affected(states[one]))
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
                found[minion] = (item.wanted, items.show(item), source)
        if mine in conflicts:
            found[minion] = (CONFLICT, CONFLICT, str(conflicts[mine]))
    return found
