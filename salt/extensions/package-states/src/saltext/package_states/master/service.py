"""Save and assign package states: what the runner does.

A change is one transaction, with a look at each minion to which its states apply. The files are
written once it is committed: if that fails, ``package_states.refresh`` makes up for it.
"""

import saltext.package_states.compile.sweep as sweeps
import saltext.package_states.status.page as pages
import saltext.package_states.store.refresh as refresh
import saltext.package_states.store.tables as store
from saltext.package_states.compile import files, sls
from saltext.package_states.compile.compiler import Compiler, contents
from saltext.package_states.compile.fleet import Fleet
from saltext.package_states.errors import Conflict, PackageStateError
from saltext.package_states.model import item, platforms, resolver

# so many states are looked at one by one
FEW = 10


class Service:
    def __init__(self, opts):
        self.opts = opts
        self.compiler = Compiler(opts)

    def save(self, name, change, save, create=True, parent=None, again=False):
        """Save a state with the entries that ``change`` returns, for the state, its newest revision and a
        connection; ``again`` lets it have a name that another one had before
        """

        def alter(connection, fleet):
            if create and not store.find(connection, name):
                own = name in fleet.minions([name])
                new = None if own or again else store.renamed(connection, name)
                if new:
                    raise PackageStateError(
                        f"{name} is {new} now; say {new}, or make another {name} first, with"
                        f" package_states.set {name}."
                    )
                store.create(connection, name, own)
            where = store.state(connection, name)
            current = store.check(connection, where, save.seen)
            items = item.ordered(change(where, current, connection))
            platforms.guard(items, self.compiler.protected)
            changes = item.between(current.items, items)
            revision = current
            # an empty state needs no revision
            if changes or parent is not None:
                revision = store.save(connection, where, current, items, save, parent)
            told = {"state": name, "revision": revision.number, "changes": changes}
            return told, {where: current}

        return self.alter(alter, save.dry_run)

    def alter(self, change, dry_run=False):
        """Do a change of states, in one transaction

        :param change: a function that takes a connection and the fleet before the change, and returns
            plain data, and the newest revisions before the change by the states that it changes
        :return: the plain data, with the ``minions`` of which something else is wanted, and the
            ``files`` that changed
        :raises PackageStateError: if a minion is in trouble that it was not in before
        """
        texts, written = {}, []

        def write():
            if not dry_run:
                written.extend(self.compiler.write(texts))

        with store.writing(self.opts, commit=not dry_run, after=write) as connection:
            old = Fleet(self.opts, connection)
            told, states = change(connection, old)
            new = Fleet(self.opts, connection, old)
            minions = {**_concerned(old, states), **_concerned(new, states)}
            revisions = {where.id: revision for where, revision in states.items()}
            before, after = old.sources(minions, revisions), new.sources(minions)
            conflicts = _conflicts(new, states, {}) - _conflicts(old, states, revisions)
            if conflicts:
                raise Conflict(" ".join(sorted(conflicts)))
            found, problems = self.compiler.texts(new, minions, after)
            touched = [
                name
                for name in minions
                if contents(before[name]) != contents(after[name])
            ]
            self.compiler.refuse(
                old,
                {name: minions[name] for name in touched},
                {name: problems[name] for name in touched if name in problems},
                before,
            )
            # also where nothing is different: a file that could not be written is now
            texts.update(
                (name, text)
                for name, text in found.items()
                if name in touched or not self.compiler.idle(name, text)
            )
            for where in states:
                if where.name not in new.own:
                    texts[files.alone(where.name)] = self.compiler.alone(new, where)
            refresh.drop(connection, touched)
        result = {**told, "minions": sorted(touched)}
        if not dry_run:
            counts = {"minions": len(touched), "files": len(written)}
            others = sorted({*written} - {*touched})
            return {**result, "counts": counts, "files": others}
        some = {name: minions[name] for name in touched}
        most = pages.SHOWN if dry_run is True else dry_run
        due = pages.due(self.opts, new, some, before, after, most)
        return {**result, **due, "dry_run": True}

    def sweep(self, ids=None):
        return sweeps.sweep(self.opts, self.compiler, ids)

    def is_current(self, fleet, minion):
        """Return whether the file of a minion says what is wanted, and what is wrong, by package"""
        minions = {minion.id: minion}
        texts, problems = self.compiler.texts(fleet, minions, fleet.sources(minions))
        wanted = texts.get(minion.id, "")
        text = files.read(self.compiler.root, minion.id)
        current = text == wanted or (not text and sls.NOTHING in wanted)
        return current, problems.get(minion.id, {})


def _conflicts(fleet, states, revisions):
    """Return what equal assignments to the same contradict each other in, a set of sentences"""
    found = set()
    for where in states:
        for sources in fleet.rivals(where, revisions):
            try:
                resolver.resolve(sources)
            except Conflict as exc:
                found.add(str(exc))
    return found


def _concerned(fleet, states):
    """Return the minions to which any of some states applies, by id; all where the states are many,
    or are assigned to what is gone
    """
    if len(states) > FEW or fleet.gone().keys() & {where.name for where in states}:
        return fleet.minions()
    found = {}
    for where in states:
        found.update(fleet.affected(where))
    return found
