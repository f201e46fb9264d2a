"""Changes of states: their entries, their assignments, their names."""

import fnmatch

import saltext.package_states.compile.files as files
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
        if package is None and current.items:
            raise InvalidInput(f"{name} is there; say which of its packages to set.")
        minions = Fleet(service.opts, connection).affected(where)
        unknown.extend(offers.unknown(connection, minions, entries))
        return [*{**keyed(current.items), **keyed(entries)}.values()]

    found = service.save(name, change, save)
    return {**found, "unknown": unknown} if unknown else found


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
        told, assigned = {"state": name, "unassigned": []}, fleet.assigned(where)
        if current.items or assigned or not current.number:
            store.save(connection, where, current, (), save)
        for entry in assigned:
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
        store.rename(connection, where, new, save)
        return {"state": new}, {where._replace(name=new): current}

    found = service.alter(change, save.dry_run)
    if not save.dry_run:
        files.remove(service.compiler.root, files.alone(name))
    return found


def restore(service, name, revision, day, save):
    """Save the entries of a revision, of its number or a day, as a new one, and assign again what was deleted"""
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
    save, assigned = save._replace(comment=comment), []

    def change(where, current, connection):
        # what was deleted, in one transaction, lost its assignments as well
        before, gone = {}, bool(old.items and not current.items)
        registry = Fleet(service.opts, connection).registry
        there = {(one[0], *one[2:4]) for one in store.assignments(connection)}
        for *_, kind, target, priority, _, _, when in store.changes(
            connection, [where.id] if gone else []
        ):
            if priority is not None:
                before[kind, target] = priority
            elif when == current.created and (kind, target) in before:
                label, again = registry.label(kind, target), before[kind, target]
                if label and (where.id, kind, target) not in there:
                    store.assign(connection, where, kind, target, again, save)
                    assigned.append(f"{kind} {label}")
        return old.items

    found = service.save(name, change, save, parent=old.number)
    return {**found, "assigned": assigned} if assigned else found


def installed(service, minion, name, packages, save):
    """Take what is installed on a minion into a state, by default its own, as it sent it last"""
    if packages is None:
        raise InvalidInput(
            "Each package is frozen at its version; say which, as in packages='nginx*', or"
            " packages='*' for all."
        )
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
        after, unknown = Fleet(service.opts, connection, fleet), set()
        for where in found:
            minions, entries = after.affected(where), newest[where.id].items
            unknown.update(offers.unknown(connection, minions, entries))
        if unknown and not away:
            told["unknown"] = sorted(unknown)
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
