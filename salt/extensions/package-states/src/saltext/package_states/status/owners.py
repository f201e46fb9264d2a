"""Who has a package, and who wants it."""

import difflib

import saltext.package_states.model.item as items
import saltext.package_states.status.page as pages
import saltext.package_states.store.tables as store
from saltext.package_states.compile.fleet import Fleet
from saltext.package_states.model import condition, resolver

CONFLICT = "conflict"


def page(
    opts, key, number=1, size=100, lacking=False, only=None, version=None, group=None
):  # pylint: disable=too-many-arguments
    """Return the minions that have a package or of which it is wanted, or that lack it, or only these,
    and only those that have it in a version that meets a condition
    """
    pages.numbers(number, size)
    asked, bounds = items.make(key, items.UNMANAGED), condition.parse(version)
    with store.reading(opts) as connection:
        fleet = Fleet(opts, connection)
        there = _there(connection, fleet, asked)
        held = fleet.minions(sorted(fleet.collided)) if fleet.collided else {}
        # whatever applies to them
        halted = {name: fleet.halted(minion) for name, minion in held.items()}
        wanted = _wanted(connection, fleet, asked, halted)
        known = set(fleet.registry.minions())
        if group is not None:
            mine = pages.members(fleet, group)
            only = mine if only is None else {*mine} & {*only}
        lists = "SELECT minion_id FROM package_states.package_list"
        sent = {one for (one,) in store.ask(connection, lists)}
        hint = None if there else _hint(connection, asked)
        if bounds:
            platforms = store.platforms(connection)
            only = {
                one
                for one, (versions, *_) in there.items()
                if (only is None or one in only)
                and any(
                    condition.meets(platforms[one], found, bounds) for found in versions
                )
            }
        known &= known if only is None else set(only)
    lack = {one for one in known & sent if not there.get(one, ((),))[0]}
    listed, rows, words = {*there, *wanted} & known, [], []
    for one in sorted(known if only is not None else lack | listed):
        versions, held, others = there.get(one, ((), False, False))
        row = {"minion": one, "installed": ", ".join(versions)}
        if one not in sent:
            row["unknown"] = True
        if held:
            row["held"] = True
        if others:
            row["held_by_others"] = True
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
        **({"hint": hint} if hint else {}),
        **pages.cut([row for row in rows if row["minion"] in chosen], number, size),
    }


def _hint(connection, asked):
    """Return a sentence where no repository has a package, with names like it; None where one has it"""
    begin = (
        "SELECT DISTINCT package FROM package_states.offer WHERE left(package, 2) = %s"
    )
    like = [one for (one,) in store.ask(connection, begin, asked.name[:2])]
    if asked.name in like or asked.key in like:
        return None
    if not like and not store.ask(
        connection, "SELECT FROM package_states.offer LIMIT 1"
    ):
        return "No minion told what its repositories have; run pkgset.refresh '*'."
    near = ", ".join(difflib.get_close_matches(asked.name, like, 5)) or "none"
    return f"No repository that minions told of has {asked.key}; names like it: {near}."


def _mine(fleet, minion, asked):
    """Return how a minion calls a package, which is without its own architecture"""
    if not asked.architecture:
        return asked.key
    return resolver.bare(asked, fleet.architecture(minion)).key


def _there(connection, fleet, asked):
    """Return the versions, whether the package is held or locked, and whether by somebody else, by minion"""
    keys = sorted({asked.key, asked.name})
    rows = store.ask(
        connection,
        "SELECT minion_id, key, packages -> key FROM package_states.package_list,"
        " unnest(%s::text[]) AS key WHERE jsonb_exists(packages, key)",
        keys,
    )
    found = {}
    for minion, key, package in rows:
        words = ("versions", "held", "held_by_others")
        versions, held, others = map(package.get, words)
        if (versions or held) and key == _mine(fleet, minion, asked):
            found[minion] = (versions or (), bool(held), bool(others))
    return found


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
        mine = _mine(fleet, minion, asked)
        for verdict in resolver.resolve(sources, native, conflicts):
            if verdict.item.key == mine:
                item, source = verdict.item, verdict.source.label
                found[minion] = (item.wanted, items.show(item), source)
        if mine in conflicts:
            found[minion] = (CONFLICT, CONFLICT, str(conflicts[mine]))
    return found
