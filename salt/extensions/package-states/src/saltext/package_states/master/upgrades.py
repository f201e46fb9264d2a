"""The newest versions that the policies of entries permit."""

import saltext.package_states.master.edit as edit
import saltext.package_states.model.condition as conditions
import saltext.package_states.model.item as items
import saltext.package_states.model.names as names
import saltext.package_states.model.version as versions
from saltext.package_states.compile.fleet import Fleet
from saltext.package_states.errors import InvalidInput, NotThere
from saltext.package_states.store import offers, refresh


def upgrade(service, name, package, version, save):
    """Ask for a version, or the newest versions that all minions can get and the entries permit

    Returns what is saved, with the ``silent`` minions, and under ``not_shared`` why entries stay as
    they are, by package; :class:`NotThere` if that is so with one that is named.
    """
    chosen = None if package == "*" else edit.listed(package, "package")
    for one in chosen or ():
        names.split(one)
    if version:
        names.version(version)
        if not chosen:
            raise InvalidInput(
                "A version is one of a package; name the package as well."
            )
    missed, silent = {}, []

    def change(where, current, connection):
        fleet, told = Fleet(service.opts, connection), []
        if not version:
            told, never = _told(connection, fleet, where)
            silent.extend(never)
        # it decides on the order of versions
        known = (minion.platform for minion in fleet.affected(where).values())
        platform = told[0][0] if told else next(filter(None, known), None)
        entries = edit.keyed(current.items)
        for key in chosen or ():
            if key not in entries:
                raise NotThere(
                    f"{name} has no entry {key}; see package_states.show {name}."
                )
        for key in chosen or entries:
            if entries[key].wanted == items.INSTALLED:
                entries[key] = _upgraded(entries[key], told, version, platform, missed)
        if chosen and missed:
            raise NotThere(" ".join(missed.values()))
        return [*entries.values()]

    comment = save.comment or f"upgrade of {', '.join(chosen or ['all'])}"
    found = service.save(name, change, save._replace(comment=comment), create=False)
    return {**found, "silent": silent, "not_shared": missed}


def _told(connection, fleet, where):
    """Return the platform and the versions that each minion of a state told of, and who never did"""
    minions, found, silent = fleet.affected(where), [], []
    known = offers.versions(connection, list(minions))
    for one, minion in sorted(minions.items()):
        there = dict(known.get(one, ()))
        for key, package in refresh.sent(connection, one).packages.items():
            there.setdefault(key, package.get("available", ()))
        if there:
            found.append((minion.platform, there))
        else:
            silent.append(one)
    if not found:
        raise NotThere(
            "No minion of the state has told which versions there are; run package_states.refresh"
            " for them, or give a version."
        )
    return found, silent


def _upgraded(entry, told, version, platform, missed):
    """Return an entry that asks for the newest version, with the same policy"""
    exact = len(entry.condition) == 1 and entry.condition[0][0] == "="
    exact = exact and not conditions.is_glob(entry.condition[0][1])
    bounds = () if exact else entry.condition
    if version:
        newest = version if conditions.meets(platform, version, bounds) else ""
    else:
        some = [set(there[entry.key]) for _, there in told if entry.key in there]
        common = set.intersection(*some) if some else set()
        newest = versions.newest(
            platform, (one for one in common if conditions.meets(platform, one, bounds))
        )
        if not newest and any(some):
            missed[entry.key] = (
                f"The minions of the state share no version of {entry.key} that is"
                f" {conditions.show(bounds) or 'newer'}; give a version, or make a state for"
                " each distribution."
            )
    current = entry.condition[0][1] if exact else entry.floor
    if version and not newest:
        raise InvalidInput(
            f"{entry.key} {version} is not {entry.version}; change the entry."
        )
    order = versions.compare(platform, newest, current) if newest and current else 1
    if version and order < 0:
        raise InvalidInput(
            f"{entry.key} {version} is older than {current}, which is wanted; use"
            " package_states.set for that."
        )
    if not newest or order <= 0:
        return entry
    if exact:
        return items.make(entry.key, entry.wanted, f"={newest}")
    return items.make(entry.key, entry.wanted, entry.version, newest)
