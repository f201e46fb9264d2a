"""
The newest versions that the policies of entries permit.
"""

import saltext.package_states.answers as answers
import saltext.package_states.condition as conditions
import saltext.package_states.edit as edit
import saltext.package_states.item as items
import saltext.package_states.names as names
import saltext.package_states.store as store
import saltext.package_states.version as versions
from saltext.package_states.errors import InvalidInput, NotThere
from saltext.package_states.fleet import Fleet


def upgrade(service, name, package, version, save):
    """
    Ask for the newest versions that the policies of entries permit

    :param Service service: see :class:`saltext.package_states.service.Service`
    :param str name: that of the state
    :param package: one of its entries, None for all
    :param version: the version to ask for, None for the newest that all minions can get
    :param Save save: how it is saved
    :return: what is saved, with the ``silent`` minions
    """
    if package:
        names.split(package)
    if version:
        names.version(version)
        if not package:
            raise InvalidInput(
                "A version is one of a package; name the package as well."
            )
    told, silent = ([], []) if version else _told(service.opts, name, package)

    def change(where, current, connection):
        fleet = Fleet(service.opts, connection)
        platform = told[0][0] if told else _platform(fleet.affected(where))
        entries = edit.keyed(current.items)
        if package and package not in entries:
            raise NotThere(
                f"{name} has no entry {package}; see package_states.show {name}."
            )
        for key in [package] if package else entries:
            if entries[key].wanted == items.INSTALLED:
                entries[key] = _upgraded(entries[key], told, version, platform)
        return [*entries.values()]

    comment = save.comment or f"upgrade of {package or 'all'}"
    found = service.change(name, change, *save._replace(comment=comment))
    return {**found, "silent": silent}


def _told(opts, name, package):
    """
    Return what the minions of a state say of the versions that there are, pairs of
    platform and packages, and the ids of those that can't be asked

    What a minion has sent has the packages that are there; it is asked for others.
    """
    with store.reading(opts) as connection:
        where = store.state(connection, name)
        newest = store.newest(connection, [where.id])[where.id]
        keys = [
            entry.key
            for entry in newest.items
            if entry.wanted == items.INSTALLED and package in (None, entry.key)
        ]
        fleet = Fleet(opts, connection)
        minions = fleet.affected(where)
        sent = {one: store.kept(connection, one) or {} for one in minions}
    missing = {
        one: [key for key in keys if key not in there]
        for one, there in sent.items()
        if not set(keys) <= there.keys()
    }
    told = answers.available(opts, missing, keys) if keys and missing else {}
    for one, there in told.items():
        sent[one] = {
            **{key: {"available": versions_} for key, versions_ in there.items()},
            **sent[one],
        }
    silent = sorted(missing.keys() - told.keys())
    found = [(minions[one].platform, there) for one, there in sent.items() if there]
    if not found:
        raise NotThere(
            "No minion of the state has told which versions there are; run package_states.refresh"
            " for them, or give a version."
        )
    return found, silent


def _platform(minions):
    """
    Return the package manager of minions, which decides on the order of versions, or None
    """
    known = (minion.platform for minion in minions.values() if minion.platform)
    return next(known, None)


def _upgraded(entry, told, version, platform):
    """
    Return an entry that asks for the newest version, with the same policy
    """
    exact = len(entry.condition) == 1 and entry.condition[0][0] == "="
    exact = exact and not conditions.is_glob(entry.condition[0][1])
    bounds = () if exact else entry.condition
    if version:
        newest = version if conditions.meets(platform, version, bounds) else ""
    else:
        offers = [
            set(there[entry.key]["available"])
            for _, there in told
            if "available" in there.get(entry.key, ())
        ]
        common = set.intersection(*offers) if offers else set()
        newest = versions.newest(
            platform, (one for one in common if conditions.meets(platform, one, bounds))
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
