"""Changes of states: their entries, the versions that these permit, their assignments, their names."""

import fnmatch

import saltext.package_states.compile.files as files
import saltext.package_states.model.condition as conditions
import saltext.package_states.model.item as items
import saltext.package_states.model.names as names
import saltext.package_states.model.version as versions
import saltext.package_states.store.tables as store
from saltext.package_states.compile.fleet import Fleet
from saltext.package_states.errors import InvalidInput, PackageStateError
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


def check_entries(where, entries, keys):
    """Return the keys of packages that somebody names, or raise that a state has no such entry"""
    for key in keys:
        if key not in entries:
            raise PackageStateError(
                f"{where.name} has no entry {key}; see package_states.show {where.name}."
            )
    return keys


def put(service, name, package, wanted, version, save):
    """Say what is wanted of packages: names, or a list of dictionaries with ``package``, ``wanted`` and
    maybe ``version``; None makes an empty state
    """
    names.state(name)
    if isinstance(package, list) and all(isinstance(one, dict) for one in package):
        entries = [items.from_dict(one) for one in package]
    elif package is None:
        entries = []
    else:
        entries = [
            items.make(one, wanted, version) for one in listed(package, "package")
        ]
    items.ordered(entries)
    told = {}

    def change(where, current, connection):
        if package is None and current.items:
            raise InvalidInput(f"{name} is there; say which of its packages to set.")
        fleet = Fleet(service.opts, connection)
        minions = fleet.affected(where) or fleet.minions()
        if not (where.own or fleet.assigned(where)):
            new = "" if current.number else "a new state, "
            told["hint"] = f"{name} is {new}assigned to nothing."
        unknown = offers.unknown(connection, minions, entries)
        if unknown:
            told["unknown"] = unknown
        return [*{**keyed(current.items), **keyed(entries)}.values()]

    return {**service.save(name, change, save, again=package is None), **told}


def take(service, name, package, save):
    gone = listed(package, "package")
    for one in gone:
        names.split(one)

    def change(where, current, _):
        left = keyed(current.items)
        for one in check_entries(where, left, gone):
            left.pop(one, None)
        return [*left.values()]

    return service.save(name, change, save, create=False)


def delete(service, name, save):
    """Let a state ask for nothing and apply to nothing, so that it is not shown any more"""

    def change(connection, fleet):
        where = store.state(connection, name)
        current = store.check(connection, where, save.seen)
        told, assigned = {"state": name, "unassigned": []}, fleet.assigned(where)
        if current.items or assigned or not current.number:
            why = f"deleted: {save.comment}" if save.comment else "deleted"
            store.save(connection, where, current, (), save._replace(comment=why))
        for entry in assigned:
            store.unassign(connection, where, entry.level, entry.value, save)
            told["unassigned"].append(f"{entry.level} {entry.target}")
        return told, {where: current}

    return service.alter(change, save.dry_run)


def rename(service, name, new, save):
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
    save, told = save._replace(comment=comment), {}

    def change(where, current, connection):
        if old.items and not current.items:
            fleet = Fleet(service.opts, connection)
            there = {(entry.level, entry.value) for entry in fleet.assigned(where)}
            lost = _lost(store.changes(connection, [where.id]), current.created)
            for kind, target in sorted(lost.keys() - there):
                word = "assigned" if fleet.is_there(kind, target) else "gone"
                if word == "assigned":
                    again = lost[kind, target]
                    store.assign(connection, where, kind, target, again, save)
                told.setdefault(word, []).append(f"{kind} {fleet.label(kind, target)}")
        return old.items

    return {**service.save(name, change, save, parent=old.number), **told}


def _lost(changes, when):
    """Return the assignments that a state lost in one transaction, priorities by kind and target"""
    before, lost = {}, {}
    for *_, kind, target, priority, _, _, created in changes:
        if priority is not None:
            before[kind, target] = priority
        elif created == when and (kind, target) in before:
            lost[kind, target] = before[kind, target]
    return lost


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
        raise PackageStateError(
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
        found, values = [store.state(connection, one) for one in states], set()
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
                values.add((kind, value))
                there = {(old.level, old.value): old for old in fleet.assigned(where)}
                old = there.get((kind, value))
                chosen = priority
                if chosen is None:
                    chosen = old.priority if old else 0
                store.assign(connection, where, kind, value, chosen, save)
        told = {"state": ", ".join(states), kind: ", ".join(targets)}
        newest = store.newest(connection, [where.id for where in found])
        after, unknown = Fleet(service.opts, connection, fleet), set()
        asked = [one for one in after.assigned(found[0]) if one[2:4] in values]
        for where in found:
            minions, entries = after.affected(where), newest[where.id].items
            unknown.update(offers.unknown(connection, minions, entries))
        if unknown and not away:
            told["unknown"] = sorted(unknown)
        if not away and not any(
            after.applies(one, minion)
            for minion in after.minions().values()
            for one in asked
        ):
            told["hint"] = f"{kind} {', '.join(targets)} matches no minion by now."
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
        raise PackageStateError(
            f"{where.name} is not assigned to {kind} {target}; see package_states.show"
            f" {where.name}."
        )
    return found[0]


def upgrade(service, name, package, save):
    """Ask for the newest versions that all minions can get and the entries permit

    Returns what is saved, with the ``silent`` minions, and under ``not_shared`` why entries stay as
    they are, by package; an error if that is so with one that is named.
    """
    chosen = None if package == "*" else listed(package, "package")
    for one in chosen or ():
        names.split(one)
    missed, frozen = {}, []
    # before anybody else has to wait until this is saved
    keys, told, silent = _versions(service.opts, name, chosen)

    def change(where, current, _):
        entries = keyed(current.items)
        for key in check_entries(where, entries, chosen or [*entries]):
            if entries[key].wanted == items.INSTALLED and key in keys:
                frozen.append(key)
                entries[key] = _upgraded(entries[key], told, missed)
        if chosen and missed:
            raise PackageStateError(" ".join(missed.values()))
        return [*entries.values()]

    comment = save.comment or f"upgrade of {', '.join(chosen or ['all'])}"
    found = service.save(name, change, save._replace(comment=comment), create=False)
    if not (found["changes"] or missed):
        found["hint"] = "No minion was offered a newer version that the entries permit."
    if not (found["changes"] or frozen):
        found["hint"] = "None of them is installed; present and latest follow updates."
    return {**found, "silent": silent, "not_shared": missed}


def _versions(opts, name, chosen):
    """Return the packages that may be upgraded, the platform and the versions of these that minions of a
    state told of (once for all that have the same repositories), and the minions that never told
    """
    with store.reading(opts) as connection:
        where = store.state(connection, name)
        entries = store.revision(connection, where).items
        keys = chosen or [one.key for one in entries if one.wanted == items.INSTALLED]
        minions = Fleet(opts, connection).affected(where)
        sent = store.platforms(connection, minions)
        digests, there = offers.versions(connection, [*sent], keys)
        same, told = {}, []
        for one, platform in sent.items():
            same.setdefault((platform, digests.get(one, frozenset())), []).append(one)
        for (platform, some), ids in same.items():
            known = offers.merged(there, some)
            told.append((platform, known))
            left = [key for key in keys if key not in known]
            # an orphan, or what a minion of before told
            lists = store.packages(connection, ids, left) if left else {}
            for mine in lists.values():
                here = {
                    key: mine[key].get("available", ()) for key in left if key in mine
                }
                told.append((platform, here))
    if not told:
        raise PackageStateError(
            "No minion of the state has told which versions there are; run package_states.refresh"
            " for them."
        )
    return keys, told, sorted(minions.keys() - sent.keys())


def _upgraded(entry, told, missed):
    """Return an entry that asks for the newest version, with the same policy"""
    # it decides on the order of versions
    platform = told[0][0]
    exact = len(entry.condition) == 1 and entry.condition[0][0] == "="
    exact = exact and not conditions.is_glob(entry.condition[0][1])
    bounds = () if exact else entry.condition
    some = [set(there[entry.key]) for _, there in told if entry.key in there]
    common = set.intersection(*some) if some else set()
    newest = versions.newest(
        platform, (one for one in common if conditions.meets(platform, one, bounds))
    )
    if not newest and any(some):
        missed[entry.key] = (
            f"The minions of the state share no version of {entry.key} that is"
            f" {conditions.show(bounds) or 'newer'}; make a state for each distribution."
        )
    current = entry.condition[0][1] if exact else entry.floor
    if not newest or (current and versions.compare(platform, newest, current) <= 0):
        return entry
    if exact:
        return items.make(entry.key, entry.wanted, f"={newest}")
    return items.make(entry.key, entry.wanted, entry.version, newest)
