"""
Changes of the entries of a state.
"""

import fnmatch
from typing import NamedTuple

import saltext.package_states.generations as generations
import saltext.package_states.item as items
import saltext.package_states.names as names
import saltext.package_states.refresh as refresh
import saltext.package_states.resolver as resolver
import saltext.package_states.store as store
import saltext.package_states.transfer as transfer
import saltext.package_states.version as versions
from saltext.package_states.errors import InvalidInput, NotThere
from saltext.package_states.fleet import Fleet


class Save(NamedTuple):
    """
    How a change is saved

    author, comment
        Who saves it, and why.

    seen
        The number of the revision that the author saw, None not to check.

    dry_run
        Save nothing, and return what would change.
    """

    author: str
    comment: str = ""
    seen: int = None
    dry_run: bool = False


def keyed(entries):
    """
    Return items by the names of their packages
    """
    return {entry.key: entry for entry in entries}


def put(service, name, packages, save):
    """
    Say what is wanted of packages

    :param Service service: see :class:`saltext.package_states.service.Service`
    :param str name: that of the state, which is made if it is that of a minion
    :param list packages: dictionaries with ``package``, ``wanted`` and maybe ``version``
    :param Save save: how it is saved
    """
    if not isinstance(packages, list):
        raise InvalidInput("Give a list of entries, each with package and wanted.")
    entries = []
    for entry in packages:
        if isinstance(entry, dict):
            entry = {
                key: value for key, value in entry.items() if value not in (None, "")
            }
        entries.append(items.from_dict(entry))
    items.ordered(entries)
    names.state(name)
    with store.reading(service.opts) as connection:
        create = name in Fleet(service.opts, connection).minions([name])

    def change(_, current, __):
        return [*{**keyed(current.items), **keyed(entries)}.values()]

    return service.change(name, change, *save, create)


def take(service, name, package, save):
    """
    Take a package out of a state

    :param Service service: see :class:`saltext.package_states.service.Service`
    :param str name: that of the state
    :param str package: ``name`` or ``name:architecture``
    :param Save save: how it is saved
    """
    names.split(package)

    def change(where, current, _):
        left = keyed(current.items)
        if left.pop(package, None) is None:
            raise NotThere(
                f"{where.name} has no entry {package}; see package_states.show."
            )
        return [*left.values()]

    return service.change(name, change, *save)


def back(service, name, revision, save):
    """
    Save the entries of an old revision as a new one

    :param Service service: see :class:`saltext.package_states.service.Service`
    :param str name: that of the state
    :param revision: its number, 0 for the empty state
    :param Save save: how it is saved
    """

    def change(where, _, connection):
        return store.revision(connection, where, revision).items

    comment = save.comment or f"rollback to revision {revision}"
    parent = int(revision) if str(revision).isdigit() else 0
    return service.change(name, change, *save._replace(comment=comment), parent=parent)


def installed(service, minion, name, packages, save):
    """
    Take what is installed on a minion into a state, as it sent it last

    :param Service service: see :class:`saltext.package_states.service.Service`
    :param str minion: its id
    :param name: that of the state, None for the minion's own one
    :param str packages: a pattern of their names
    :param Save save: how it is saved
    """
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
    return service.change(name or minion, change, *save._replace(comment=comment), True)


def load(service, name, path, save):
    """
    Save what a file holds as a state, instead of what the state had

    :param Service service: see :class:`saltext.package_states.service.Service`
    :param str name: that of the state, which is made if there is none
    :param str path: that of the file, see :mod:`saltext.package_states.transfer`
    :param Save save: how it is saved
    """
    entries = transfer.load(transfer.read(path))
    comment = save.comment or "from a file"
    return service.change(
        name, lambda *_: entries, *save._replace(comment=comment), True
    )


def restore(service, minion, generation, day, save):
    """
    Let the own state of a minion say what was wanted on it at another time

    :param Service service: see :class:`saltext.package_states.service.Service`
    :param str minion: its id
    :param generation: the number of the generation, or None
    :param day: the time, or None
    :param Save save: how it is saved
    """
    with store.reading(service.opts) as connection:
        fleet = Fleet(service.opts, connection)
        found = fleet.minion(minion)
        old = generations.chosen(connection, minion, generation, day)
        stage = fleet.stage(found) if fleet.stages else None

    def change(_, __, connection):
        # what others say is looked at while nobody saves
        return _restored(Fleet(service.opts, connection), minion, old.items)

    comment = save.comment or f"generation {old.number} of {old.created[:19]}"
    told = service.change(minion, change, *save._replace(comment=comment), True)
    if stage not in (None, told.get("stage")):
        told["next"] = (
            f"{minion} is in {stage}, so it has this when it came there; see"
            f" package_states.promote {minion} {stage}."
        )
    return told


def _restored(fleet, minion, old):
    """
    Return the entries with which the own state of a minion says what was wanted on it, and
    nothing of what others say besides

    :param Fleet fleet: the minions
    :param str minion: its id
    :param old: what was wanted on it, an iterable of items
    :raises Unapproved: if nobody knows what others say
    """
    found = fleet.minion(minion)
    halt = fleet.halted(found)
    if halt:
        raise halt
    sources = fleet.sources({minion: found})[minion]
    others = [source for source in sources if source.level != resolver.OWN]
    native = fleet.architecture(minion)
    wanted = keyed(resolver.bare(entry, native) for entry in old)
    for source in others:
        for entry in source.items:
            key = resolver.bare(entry, native).key
            if key not in wanted:
                wanted[key] = items.make(key, items.UNMANAGED)
    return [*wanted.values()]
