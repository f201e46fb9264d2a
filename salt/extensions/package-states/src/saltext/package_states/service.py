"""
Save, assign and compile package states: what the runner does.

A state is saved in one transaction, after a look at each minion to which it
applies. The files are written once it is committed, before anybody else can save:
if that fails, the states are right and ``package_states.compile`` makes up for it.
"""

import os

import saltext.package_states.difference as difference
import saltext.package_states.files as files
import saltext.package_states.item as item
import saltext.package_states.names as names
import saltext.package_states.platforms as platforms
import saltext.package_states.resolver as resolver
import saltext.package_states.sls as sls
import saltext.package_states.store as store
from saltext.package_states.errors import InvalidInput, NotThere, PackageStateError
from saltext.package_states.fleet import Fleet


class Service:
    """
    The package states of a master

    opts
        The options of the master. Under ``package_states``, ``sls_root`` is the root
        below which the files are written, by default the first one of the environment
        ``base``, and ``protected`` a list of the names of further packages that must
        not be removed.
    """

    def __init__(self, opts):
        self.opts = opts
        own = opts.get("package_states") or {}
        self.root = own.get("sls_root") or files.root(opts)
        self.protected = platforms.PROTECTED | set(own.get("protected", ()))

    def create(self, name):
        """
        Make an empty state; one that has the id of a minion is that minion's own

        :param str name: its name
        """
        names.state(name)
        with store.writing(self.opts) as connection:
            own = name in Fleet(self.opts, connection).minions([name])
            store.create(connection, name, own)
        return {"state": name, "revision": 0, "own": own}

    def change(
        self,
        name,
        change,
        author,
        comment="",
        seen=None,
        dry_run=False,
        create=False,
        parent=None,
    ):
        """
        Save a state with changed entries

        :param str name: that of the state
        :param change: a function that takes the state and its newest revision, a
            connection, and returns the entries
        :param str author: who saves it
        :param str comment: why
        :param seen: the number of the revision that the author saw, None not to check
        :param bool dry_run: save nothing
        :param bool create: make the state if there is none
        :param parent: a function that returns the revision that a rollback brings back
        :raises PackageStateError: says what is wrong; nothing is saved then
        """
        texts, written = {}, []

        def write():
            if not dry_run:
                written.extend(self._write(texts))

        with store.writing(self.opts, commit=not dry_run, after=write) as connection:
            if create and not store.known(connection, name):
                own = name in Fleet(self.opts, connection).minions([name])
                store.create(connection, name, own)
            where = store.state(connection, name)
            current = store.check(connection, where, seen)
            items = item.ordered(change(where, current, connection))
            platforms.guard(items, self.protected)
            changes = difference.between(current.items, items)
            result = {"state": name, "revision": current.number, "changes": changes}
            if not changes and current.number and parent is None:
                return {**result, "minions": [], "files": []}
            revision = store.save(
                connection, where, current, items, author, comment, parent
            )
            fleet = Fleet(self.opts, connection)
            minions, found = self._checked(fleet, where, {where.id: revision})
            texts.update(found)
            result.update(revision=revision.number, minions=minions)
        if dry_run:
            return {**result, "dry_run": True}
        return {**result, "files": written}

    def assign(self, name, kind, target, priority, author, away=False):
        """
        Assign a state, or take an assignment away

        :param str name: that of the state
        :param str kind: ``organization``, ``group``, ``grains`` or ``minion``
        :param str target: its name or id, or a grain match
        :param int priority: among assignments of one kind, the higher one wins
        :param str author: who does it
        :param bool away: take it away
        :raises PackageStateError: says what is wrong; nothing is changed then
        """
        texts, written = {}, []
        with store.writing(
            self.opts, after=lambda: written.extend(self._write(texts))
        ) as connection:
            where = store.state(connection, name)
            if where.own:
                raise InvalidInput(
                    f"{name} is the own state of a minion and applies to that alone; make"
                    " another state to assign."
                )
            fleet = Fleet(self.opts, connection)
            before = fleet.affected(where)
            if away:
                value = _assigned(fleet, where, kind, target)
                store.unassign(connection, where, kind, value)
            else:
                value = fleet.registry.target(kind, target)
                store.assign(connection, where, kind, value, priority, author)
            fleet = Fleet(self.opts, connection)
            minions, found = self._checked(fleet, where, {}, before)
            texts.update(found)
        return {
            "state": name,
            kind: target,
            "minions": minions,
            "files": written,
        }

    def _checked(self, fleet, where, revisions, more=None):
        """
        Return the ids of the minions to which a state applies, and the texts of the
        files that depend on it, by name

        :param Fleet fleet: the minions
        :param State where: the state
        :param dict revisions: revisions to take instead of the newest
        :param dict more: further minions, by id
        :raises PackageStateError: if one of them is in trouble
        """
        for sources in fleet.rivals(where, revisions):
            resolver.resolve(sources)
        minions = {**fleet.affected(where), **(more or {})}
        texts, problems = self._texts(fleet, minions, revisions)
        if problems:
            raise next(iter(problems.values()))
        # a minion that was registered after the state was made may have its name: the
        # file is the minion's then, whether the state applies to it or not
        if not where.own and not fleet.minions([where.name]):
            texts[where.name] = self._alone(fleet, where, revisions)
        return sorted(minions), texts

    def _texts(self, fleet, minions, revisions=None):
        """
        Return the texts of the files of minions, and the errors, each by id
        """
        texts, problems = {}, {}
        for name, sources in fleet.sources(minions, revisions).items():
            try:
                verdicts = resolver.managed(fleet.verdicts(minions[name], sources))
                names.state(name)
                texts[name] = sls.render(
                    name, minions[name].platform, sources, verdicts, self.protected
                )
            except PackageStateError as exc:
                problems[name] = exc
        return texts, problems

    def _alone(self, fleet, where, revisions):
        """
        Return the text of the file of a state by itself
        """
        revision = (
            revisions.get(where.id)
            or store.newest(fleet.connection, [where.id])[where.id]
        )
        source = resolver.Source(
            where.name, revision.contents, resolver.OWN, where.name, 0, revision.items
        )
        verdicts = resolver.managed(resolver.resolve([source]))
        return sls.render(where.name, None, [source], verdicts, self.protected)

    def _write(self, texts):
        """
        Write files and return the names of those that changed
        """
        changed = [
            name for name in sorted(texts) if files.write(self.root, name, texts[name])
        ]
        if changed:
            files.ship(self.root)
        return changed

    def compile(self, minion=None):
        """
        Write the file of one minion, or of all minions and states

        :param str minion: its id, None for all
        :return: ``files`` that changed, and ``errors`` by minion
        """
        texts, written = {}, []
        # nothing is saved here, but a state must not be saved meanwhile
        with store.writing(
            self.opts, after=lambda: written.extend(self._write(texts))
        ) as connection:
            fleet = Fleet(self.opts, connection)
            minions = {minion: fleet.minion(minion)} if minion else fleet.minions()
            found, problems = self._texts(fleet, minions)
            texts.update(found)
            if not minion:
                for where in store.states(connection):
                    if not where.own and where.name not in minions:
                        texts[where.name] = self._alone(fleet, where, {})
            for name in found:
                # no file for a minion that never had a state; an empty one for a
                # minion that had, so that its locks are released
                if "\n# revision: none\n" in texts[name] and not os.path.exists(
                    files.path(self.root, name)
                ):
                    del texts[name]
        return {
            "compiled": len(texts),
            "files": written,
            "errors": {name: str(exc) for name, exc in sorted(problems.items())},
        }

    def verdicts(self, minion):
        """
        Return a minion and its verdicts

        :param str minion: its id
        """
        with store.reading(self.opts) as connection:
            fleet = Fleet(self.opts, connection)
            found = fleet.minion(minion)
            return found, fleet.verdicts(found, fleet.sources({minion: found})[minion])


def _assigned(fleet, where, kind, target):
    """
    Return the id of what a state is assigned to, which may be gone
    """
    found = [
        entry.value
        for entry in fleet.assignments
        if entry.state == where.id
        and entry.level == kind
        and target in (entry.value, entry.target)
    ]
    if len(found) != 1:
        raise NotThere(
            f"{where.name} is not assigned to {kind} {target}; see package_states.show."
        )
    return found[0]
