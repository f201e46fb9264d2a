"""Changes of states: their entries, their assignments, their names."""

import fnmatch

import saltext.package_states.compile.files as files
import saltext.package_states.model.condition as conditions
import saltext.package_states.model.item as items
import saltext.package_states.model.names as names
import saltext.package_states.model.version as versions
import saltext.package_states.store.tables as store
from saltext.package_states.compile.fleet import Fleet
from saltext.package_states.errors import InvalidInput, NotThere
from saltext.package_states.store import offers, refresh

#: what people call the kinds of assignments who come from elsewhere
KINDS = {"nodegroup": "group", "grain": "grains", "org": "organization"}


def keyed(entries):
    return {entry.key: entry for entry in entries}


def listed(value, kind):
    """Return a text with commas, or a list, as a list of texts"""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    good = isinstance(value, list) and all(isinstance(one, str) for one in value)
    if not (good and value):
        raise InvalidInput(f"Give a {kind}, or several with commas between them.")
    return value


def put(service, name, package, wanted, version, save):
    """Say what is wanted of packages: names, or a list of dictionaries with ``package``, ``wanted`` and
    maybe ``version``; None makes an empty state
    """
    names.state(name)
    if isinstance(package, list) and all(isinstance(one, dict) for one in package):
        entries = [
            items.from_dict(
                {key: one[key] for key in one if one[key] not in (None, "")}
            )
            for one in package
        ]
    elif package is None:
        entries = []
    else:
        entries = [
            items.make(one, wanted, version) for one in listed(package, "package")
        ]
    items.ordered(entries)
    unknown = []

    def change(where, current, connection):
        minions = Fleet(service.opts, connection).affected(where)
        unknown.extend(_unknown(connection, minions, entries))
        return [*{**keyed(current.items), **keyed(entries)}.values()]

    found = service.save(name, change, save)
    return {**found, "unknown": unknown} if unknown else found


def _unknown(connection, minions, entries):
    """Return the packages of which no minion has a version that is wanted, or can get one"""
    wanted = [one for one in entries if one.wanted in items.THERE]
    keys = [entry.key for entry in wanted]
    there = offers.offered(connection, list(minions), keys) if keys else None
    if there is None:
        return []
    managers = {minion.platform for minion in minions.values()}
    return [
        entry.key
        for entry in wanted
        if not any(
            conditions.meets(manager, version, entry.bounds)
            for manager in managers
            for version in there.get(entry.key, ())
        )
    ]


def take(service, name, package, save):
    """Take packages out of a state"""
    gone = listed(package, "package")
    for one in gone:
        names.split(one)

    def change(where, current, _):
        left = keyed(current.items)
        for one in gone:
            if left.pop(one, None) is None:
                raise NotThere(
                    f"{where.name} has no entry {one}; see package_states.show {where.name}."
                )
        return [*left.values()]

    return service.save(name, change, save, create=False)


def delete(service, name, save):
    """Let a state ask for nothing and apply to nothing, so that it is not shown any more"""

    def change(connection, fleet):
        where = store.state(connection, name)
        current = store.check(connection, where, save.seen)
        told = {"state": name, "unassigned": []}
        if current.items or not current.number:
            store.save(connection, where, current, (), save)
        for entry in fleet.assigned(where):
            store.unassign(connection, where, entry.level, entry.value, save)
            told["unassigned"].append(f"{entry.level} {entry.target}")
        return told, {where: current}

    return service.alter(change, save.dry_run)


def rename(service, name, new, save):
    """Give a state that is no minion's own another name"""
    names.state(new)

    def change(connection, fleet):
        where = store.state(connection, name)
        current = store.check(connection, where, save.seen)
        if where.own or fleet.minions([new]):
            raise InvalidInput(
                f"{name if where.own else new} is the name of a minion, whose own state has"
                " it; take another name."
            )
        store.rename(connection, where, new)
        return {"state": new}, {where._replace(name=new): current}

    found = service.alter(change, save.dry_run)
    if not save.dry_run:
        files.remove(service.compiler.root, files.alone(name))
    return found


def restore(service, name, revision, day, save):
    """Save the entries of a revision, of its number (0 for the empty state) or a day, as a new one"""
    with store.reading(service.opts) as connection:
        where = store.state(connection, name)
        if (revision is None) == (day is None):
            raise InvalidInput(
                f"Give either revision or day; see package_states.history {name}."
            )
        if revision is None:
            old = store.revision_at(connection, where, str(day))
        else:
            old = store.revision(connection, where, revision)
    comment = save.comment or f"revision {old.number} is restored"
    save = save._replace(comment=comment)
    return service.save(name, lambda *_: old.items, save, parent=old.number)


def installed(service, minion, name, packages, save):
    """Take what is installed on a minion into a state, by default its own, as it sent it last"""
    with store.reading(service.opts) as connection:
        fleet = Fleet(service.opts, connection)
        found = fleet.minion(minion)
        there = refresh.packages(connection, found)
    entries = []
    for key, package in sorted(there.items()):
        if package.get("versions") and fnmatch.fnmatchcase(key, str(packages)):
            wanted = items.KEPT if package.get("orphan") else items.INSTALLED
            newest = versions.newest(found.platform, package["versions"])
            entries.append(items.make(key, wanted, f"={newest}"))
    if not entries:
        raise NotThere(
            f"{minion} has no packages like {packages}; run package_states.refresh {minion}."
        )

    def change(_, current, __):
        return [*{**keyed(current.items), **keyed(entries)}.values()]

    comment = save.comment or f"what is installed on {minion}"
    return service.save(name or minion, change, save._replace(comment=comment))


def assign(service, name, kind, target, priority, save, away=False):
    """Assign states, or take assignments away; a priority of None stays as it is, and is 0 at first"""
    kind = KINDS.get(kind, kind) if isinstance(kind, str) else kind
    states = listed(name, "state")
    # the command line may have taken a name for a number, and a grain may have commas
    target = target if isinstance(target, (str, list)) else str(target)
    targets = [str(target)] if kind == "grains" else listed(target, "target")

    def change(connection, fleet):
        found = [store.state(connection, one) for one in states]
        for where in found:
            if where.own:
                raise InvalidInput(
                    f"{where.name} is the own state of a minion and applies to that alone;"
                    " make another state to assign."
                )
            for one in targets:
                if away:
                    value = _assigned(fleet, where, kind, one)
                    store.unassign(connection, where, kind, value, save)
                    continue
                value = fleet.registry.target(kind, one)
                there = {(old.level, old.value): old for old in fleet.assigned(where)}
                old = there.get((kind, value))
                chosen = priority
                if chosen is None:
                    chosen = old.priority if old else 0
                store.assign(connection, where, kind, value, chosen, save)
        told = {"state": ", ".join(states), kind: ", ".join(targets)}
        newest = store.newest(connection, [where.id for where in found])
        return told, {where: newest[where.id] for where in found}

    return service.alter(change, save.dry_run)


def _assigned(fleet, where, kind, target):
    """Return the id of what a state is assigned to, which may be gone"""
    found = [
        entry.value
        for entry in fleet.assigned(where)
        if entry.level == kind and target in (entry.value, entry.target)
    ]
    if len(found) != 1:
        raise NotThere(
            f"{where.name} is not assigned to {kind} {target}; see package_states.show"
            f" {where.name}."
        )
    return found[0]
