"""The newest versions that the policies of entries permit."""

import saltext.package_states.master.edit as edit
import saltext.package_states.model.condition as conditions
import saltext.package_states.model.item as items
import saltext.package_states.model.names as names
import saltext.package_states.model.version as versions
from saltext.package_states.compile.fleet import Fleet
from saltext.package_states.errors import NotThere
from saltext.package_states.store import offers, refresh


def upgrade(service, name, package, save):
    """Ask for the newest versions that all minions can get and the entries permit

    Returns what is saved, with the ``silent`` minions, and under ``not_shared`` why entries stay as
    they are, by package; :class:`NotThere` if that is so with one that is named.
    """
    chosen = None if package == "*" else edit.listed(package, "package")
    for one in chosen or ():
        names.split(one)
    missed, silent = {}, []

    def change(where, current, connection):
        told, never = _told(connection, Fleet(service.opts, connection), where)
        silent.extend(never)
        entries = edit.keyed(current.items)
        for key in chosen or ():
            if key not in entries:
                raise NotThere(
                    f"{name} has no entry {key}; see package_states.show {name}."
                )
        for key in chosen or entries:
            if entries[key].wanted == items.INSTALLED:
                entries[key] = _upgraded(entries[key], told, missed)
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
            " for them."
        )
    return found, silent


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
