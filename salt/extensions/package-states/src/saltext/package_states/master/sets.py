"""The whole set of a site: read out of the database, and brought into it; see :mod:`.document`."""

import contextlib
import os
from typing import NamedTuple

import saltext.package_states.master.document as documents
import saltext.package_states.minion.replace as replace
import saltext.package_states.model.item as items
import saltext.package_states.model.names as names
import saltext.package_states.store.offers as offers
import saltext.package_states.store.tables as store
from saltext.package_states.compile.fleet import Fleet
from saltext.package_states.errors import InvalidInput, PackageStateError
from saltext.package_states.model import platforms, resolver

import salt.utils.files


def export(opts, path=None, name=None):
    """Return the whole set or one state as text, or write it to a file"""
    with store.reading(opts) as connection:
        states = _states(connection, Fleet(opts, connection))
        if name is not None:
            store.state(connection, name)
            states = {name: states.get(name, documents.Entry((), None))}
    text = documents.dump(states)
    if path is None:
        return text
    write(path, text)
    return {"path": path, "states": len(states)}


def _states(connection, fleet):
    known = store.states(connection)
    newest = store.newest(connection, [where.id for where in known])
    found = {}
    for where in known:
        assigned = tuple(
            documents.Assigned(entry.level, _target(fleet, entry), entry.priority)
            for entry in fleet.assigned(where)
        )
        items = newest[where.id].items
        if items or assigned:
            found[where.name] = documents.Entry(items, None if where.own else assigned)
    return found


def _target(fleet, entry):
    """Return what a state is assigned to, by its name if that tells it"""
    if entry.level in (resolver.GRAINS, resolver.MINION):
        return entry.value
    label = fleet.registry.label(entry.level, entry.value)
    alone = label and fleet.registry.found(entry.level, label) == [entry.value]
    return label if alone else entry.value


def apply(service, text, save, prune=False, seen=None):
    """Bring a set into the database, in one transaction, and return what is different, by state

    :param bool prune: also empty and unassign the states that the text does not have
    :param str seen: what was exported before; an error if others changed that since
    """
    wanted = documents.load(text)
    before = None if seen is None else documents.load(seen)
    save = save._replace(comment=save.comment or "the whole set")

    def change(connection, fleet):
        if before is not None:
            _check(before, _states(connection, fleet), wanted, prune)
        return _Change(service, connection, fleet, save).do(wanted, prune)

    return service.alter(change, save.dry_run)


def _parts(entry):
    """Return what an entry says, by what may be changed by itself; None for nothing"""
    entry = entry or documents.Entry()
    assigned = frozenset(entry.assigned or ())
    return {"packages": entry.packages or None, "assigned": assigned or None}


def _check(before, now, wanted, prune):
    """Check that nobody changed since what is about to be changed or emptied"""
    since = []
    for name in sorted({*wanted, *(now if prune else ())}):
        old, there, new = (_parts(one.get(name)) for one in (before, now, wanted))
        asked = wanted.get(name, documents.Entry((), ()))
        for part in new:
            if getattr(asked, part) is not None and there[part] not in (
                old[part],
                new[part],
            ):
                since.append(name)
                break
    if since:
        some = ", ".join(since[:10]) + (" and more" if since[10:] else "")
        raise PackageStateError(
            f"Somebody changed {some} since; see package_states.history, export again, and bring"
            " your changes into that."
        )


class _Change(NamedTuple):
    service: object
    connection: object
    fleet: Fleet
    save: store.Save

    def do(self, wanted, prune):
        entries = dict(wanted)
        known = {where.name: where for where in store.states(self.connection)}
        if prune:
            for name, where in known.items():
                nothing = documents.Entry((), None if where.own else ())
                entries.setdefault(name, nothing)
        minions, named, states, new = self.fleet.minions(entries), {}, {}, []
        for name in sorted(entries):
            where = known.get(name)
            told = {} if where else {"new": True}
            if where is None:
                where = store.create(self.connection, name, name in minions)
            named[where] = store.revision(self.connection, where)
            try:
                self._contents(where, named[where], entries[name], told)
                self._assigned(where, entries[name], told)
            except PackageStateError as exc:
                # of a thousand states, which one
                raise type(exc)(f"state {name}: {exc}") from exc
            if told:
                states[name] = told
            if "changes" in told:
                new += {*entries[name].packages} - {*named[where].items}
        unknown = offers.unknown(self.connection, self.fleet.minions(), new)
        result = {"states": states}
        if unknown:
            result["unknown"] = sorted(set(unknown))
        return result, named

    def _contents(self, where, current, entry, told):
        if entry.packages is None or entry.packages == current.items:
            return
        platforms.guard(entry.packages, self.service.compiler.protected)
        store.save(self.connection, where, current, entry.packages, self.save)
        told["changes"] = items.between(current.items, entry.packages)

    def _assigned(self, where, entry, told):
        """Let a state apply to what the text says, and to nothing else"""
        if entry.assigned is None:
            return
        if where.own and entry.assigned:
            raise InvalidInput(
                f"{where.name} is the own state of a minion and applies to that alone; take"
                " its assignments out."
            )
        left = {(old.level, old.value): old for old in self.fleet.assigned(where)}
        labels = {(old.level, _target(self.fleet, old)): old for old in left.values()}
        for one in entry.assigned:
            old = left.get(one[:2]) or labels.get(one[:2])
            value = old.value if old else self.fleet.registry.target(*one[:2])
            left.pop((one.kind, value), None)
            if old is None or old.priority != one.priority:
                told.setdefault("assigned", []).append(
                    f"{one.kind} {one.target} (priority {one.priority})"
                )
                store.assign(
                    self.connection, where, one.kind, value, one.priority, self.save
                )
        for (kind, value), old in left.items():
            told.setdefault("unassigned", []).append(f"{kind} {old.target}")
            store.unassign(self.connection, where, kind, value, self.save)


def read(path):
    with _told(path, "read"), salt.utils.files.fopen(path, encoding="utf-8") as handle:
        # a device has no end; whoever reads the text says that it is too long
        return handle.read(documents.MOST + 1)


def write(path, text):
    """Write a file, which may be a pipe or a device; what a file had stays if that fails"""
    with _told(path, "written"):
        if os.path.islink(path) and os.lstat(path).st_uid not in (0, os.geteuid()):
            raise InvalidInput(
                f"{names.shown(path)} is a link of another user; give the path of a file of your own."
            )
        if os.path.exists(path) and not os.path.isfile(path):
            opened = salt.utils.files.fopen(path, "w", encoding="utf-8")
        else:
            place = os.path.realpath(path)
            mode = os.stat(place).st_mode & 0o777 if os.path.exists(place) else 0o600
            opened = replace.replaced(place, mode)
        with opened as handle:
            handle.write(text)


@contextlib.contextmanager
def _told(path, can):
    if not isinstance(path, str):
        raise InvalidInput(
            f"{names.shown(path)} is no path; give that of a file of the master."
        )
    try:
        yield
    except (OSError, ValueError) as exc:
        why = getattr(exc, "strerror", None) or "it is not what can be opened"
        raise InvalidInput(
            f"{names.shown(path)} can't be {can}: {why}; give the path of a file of the"
            " master."
        ) from exc
