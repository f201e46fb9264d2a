"""
Save and assign package states: what the runner does.

A state is saved in one transaction, after a look at each minion to which it
applies. The files are written once it is committed, before anybody else can save:
if that fails, the states are right and ``package_states.compile`` makes up for it.
"""

import saltext.package_states.difference as difference
import saltext.package_states.files as files
import saltext.package_states.final as final
import saltext.package_states.generations as generations
import saltext.package_states.item as item
import saltext.package_states.names as names
import saltext.package_states.platforms as platforms
import saltext.package_states.requests as requests
import saltext.package_states.resolver as resolver
import saltext.package_states.sls as sls
import saltext.package_states.stages as stages
import saltext.package_states.standing as standing
import saltext.package_states.store as store
import saltext.package_states.sweep as sweeps
from saltext.package_states.compiler import Compiler, contents
from saltext.package_states.errors import Conflict, InvalidInput, NotThere
from saltext.package_states.fleet import Fleet

#: the stage that an assignment follows already
KEPT = ""
# so many states are looked at one by one
FEW = 10


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
        self.compiler = Compiler(opts)

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
                written.extend(self.compiler.write(texts))

        with store.writing(self.opts, commit=not dry_run, after=write) as connection:
            if create and not store.known(connection, name):
                own = name in Fleet(self.opts, connection).minions([name])
                store.create(connection, name, own)
            where = store.state(connection, name)
            current = store.check(connection, where, seen)
            items = item.ordered(change(where, current, connection))
            platforms.guard(items, self.compiler.protected)
            changes = difference.between(current.items, items)
            result = {"state": name, "revision": current.number, "changes": changes}
            revision = current
            if changes or not current.number or parent is not None:
                revision = store.save(
                    connection, where, current, items, author, comment, parent
                )
            fleet = Fleet(self.opts, connection)
            # also with nothing to save: a file that could not be written is now
            minions, found, wanted = self._checked(
                fleet, where, {where.id: revision}, old={where.id: current}
            )
            texts.update(found)
            if changes:
                standing.drop(connection, minions)
            why = _why(f"{name} revision {revision.number}", comment)
            generations.keep(connection, wanted, author, why)
            held = final.hold(fleet, fleet.minions(minions))
            if held:
                result["held"] = held
            result.update(revision=revision.number, minions=minions)
            if fleet.stages:
                result["stage"] = fleet.stages[0]
        if dry_run:
            return {**result, "dry_run": True}
        return {**result, "files": written}

    def assign(
        self,
        name,
        kind,
        target,
        priority,
        author,
        away=False,
        comment="",
        stage=KEPT,
    ):  # pylint: disable=too-many-arguments
        """
        Assign a state, or take an assignment away

        :param str name: that of the state
        :param str kind: ``organization``, ``group``, ``grains`` or ``minion``
        :param str target: its name or id, or a grain match
        :param int priority: among assignments of one kind, the higher one wins; None to
            leave it as it is, 0 at first
        :param str author: who does it
        :param bool away: take it away
        :param str comment: why
        :param stage: the name of the stage that it follows, None for the first one,
            :data:`KEPT` to leave it as it is, the first one at first
        :return: who is concerned; or the number of a ``request``, if it concerns the last
            stage
        :raises PackageStateError: says what is wrong; nothing is changed then
        """
        texts, written = {}, []
        with store.writing(
            self.opts, after=lambda: written.extend(self.compiler.write(texts))
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
            else:
                value = fleet.registry.target(kind, target)
            there = _there(fleet, where, kind, value)
            if priority is None:
                priority = there.priority if there else 0
            if stage == KEPT:
                place = there.stage if there else 0
            else:
                place = stages.place(fleet.stages, stage)
            last, stage = len(fleet.stages) - 1, fleet.stages[place] if place else None
            asked = requests.Request(
                None,
                where.id,
                name,
                requests.UNASSIGN if away else requests.ASSIGN,
                None if away else stage,
                None,
                kind,
                value,
                None if away else priority,
                author,
                comment,
            )
            if last > 0 and last in (place, there.stage if there else 0):
                if kind == resolver.GRAINS:
                    raise InvalidInput(
                        "Minions choose their grains, so no grain can be assigned to the last"
                        " stage; use a group."
                    )
                number = requests.ask(connection, asked)
                return {"state": name, "request": number, "waits for": "approval"}
            self.assigned(connection, asked)
            old, fleet = fleet, Fleet(self.opts, connection)
            minions, found, wanted = self._checked(fleet, where, {}, before, old=old)
            texts.update(found)
            standing.drop(connection, minions)
            generations.keep(connection, wanted, author, _why(asked.label, comment))
            held = final.hold(fleet, fleet.minions(minions))
        return {
            "state": name,
            kind: target,
            "minions": minions,
            **({"held": held} if held else {}),
            "files": written,
        }

    @staticmethod
    def assigned(connection, asked):
        """
        Let an assignment be as a request asks for

        :param connection: see :func:`saltext.package_states.store.writing`
        :param Request asked: the request, see :mod:`saltext.package_states.requests`
        """
        where = store.State(asked.state, asked.name, False)
        if asked.action == requests.UNASSIGN:
            store.unassign(
                connection, where, asked.kind, asked.target, asked.author, asked.comment
            )
        else:
            store.assign(
                connection,
                where,
                asked.kind,
                asked.target,
                asked.priority,
                asked.author,
                asked.comment,
                asked.stage,
            )

    def alter(self, change, author, comment="", dry_run=False):
        """
        Do a change that may concern any minion, in one transaction

        :param change: a function that takes a connection and the fleet before the change,
            and returns plain data and the states whose own files change
        :param str author: who does it
        :param str comment: why
        :param bool dry_run: do it, and roll it back
        :return: the plain data, with the ``minions`` of which something else is wanted, the
            ``files`` that changed, and the states whose entries are ``dropped``: they
            applied to a minion before, and now no revision of them does
        :raises PackageStateError: if a minion is in trouble that it was not in before
        """
        texts, written = {}, []

        def write():
            if not dry_run:
                written.extend(self.compiler.write(texts))

        with store.writing(self.opts, commit=not dry_run, after=write) as connection:
            old = Fleet(self.opts, connection)
            before = old.sources(old.minions())
            known = _conflicts(connection, old)
            told, states = change(connection, old)
            new = Fleet(self.opts, connection, old)
            minions = new.minions()
            left = final.left(old, new, minions)
            if left:
                final.release(connection, left)
                new = Fleet(self.opts, connection, old)
            after = new.sources(minions)
            touched = {
                name: minion
                for name, minion in minions.items()
                if contents(before.get(name, ())) != contents(after[name])
                or (old.held(minion) and not new.held(minion))
            }
            conflicts = _conflicts(connection, new) - known
            if conflicts:
                raise Conflict(" ".join(sorted(conflicts)))
            found, problems, wanted = self.compiler.texts(new, touched)
            self.compiler.refuse(old, touched, problems, sources=before)
            if new.stages != old.stages:
                # which of its revisions a state has by itself is another one
                states = store.states(connection)
            if not dry_run:
                # also where nothing is different: a file that could not be written is now
                again, _, _ = self.compiler.texts(new, _concerned(new, states, minions))
                texts.update(
                    (name, text)
                    for name, text in again.items()
                    if not self.compiler.idle(name, text)
                )
            texts.update(found)
            for where in states:
                if where.name not in new.own:
                    texts[files.alone(where.name)] = self.compiler.alone(new, where, {})
            held = final.hold(new, minions)
            standing.drop(connection, touched)
            generations.keep(connection, wanted, author, comment)
        dropped = {
            source
            for name in touched
            for source in _filled(before.get(name, ())) - _filled(after[name])
        }
        result = {**told, "minions": sorted(touched), "dropped": sorted(dropped)}
        if held:
            result["held"] = held
        return {**result, "dry_run": True} if dry_run else {**result, "files": written}

    def _checked(self, fleet, where, revisions, more=None, old=None):
        """
        Return the ids of the minions to which a state applies, the texts of the files that
        depend on it, by name, and what is wanted of the minions, see
        :func:`saltext.package_states.generations.keep`

        :param Fleet fleet: the minions
        :param State where: the state
        :param dict revisions: revisions to take instead of the newest
        :param dict more: further minions, by id
        :param old: what there was before: revisions, or a fleet
        :raises PackageStateError: if one of them is in trouble that it was not in before
        """
        for sources in fleet.rivals(where, revisions):
            resolver.resolve(sources)
        minions = {**fleet.affected(where), **(more or {})}
        texts, problems, wanted = self.compiler.texts(fleet, minions, revisions)
        if problems:
            self.compiler.refuse(
                old if isinstance(old, Fleet) else fleet,
                minions,
                problems,
                old if isinstance(old, dict) else {},
            )
        if not where.own:
            texts[files.alone(where.name)] = self.compiler.alone(
                fleet, where, revisions
            )
        return sorted(minions), texts, wanted

    def sweep(self, ids=None):
        """
        Bring all files up to date with who there is, see
        :func:`saltext.package_states.sweep.sweep`

        :param ids: the ids of minions that may have changed, None for all
        """
        return sweeps.sweep(self.opts, self.compiler, ids)

    def compile(self, minion=None):
        """
        Write the file of one minion, or of all minions and states

        :param str minion: its id, None for all
        :return: as :meth:`sweep`
        """
        if minion is None:
            return self.sweep()
        with store.reading(self.opts) as connection:
            Fleet(self.opts, connection).minion(minion)
        return self.sweep([minion])

    def current(self, minion):
        """
        Return the text that the file of a minion should have, and the one that it has

        :param str minion: its id
        """
        with store.reading(self.opts) as connection:
            fleet = Fleet(self.opts, connection)
            found, _, _ = self.compiler.texts(fleet, {minion: fleet.minion(minion)})
        text = files.read(self.compiler.root, minion)
        if not text and sls.NOTHING in found.get(minion, ""):
            return "", ""
        return found.get(minion, ""), text

    def verdicts(self, minion):
        """
        Return a minion and its verdicts

        :param str minion: its id
        """
        with store.reading(self.opts) as connection:
            fleet = Fleet(self.opts, connection)
            found = fleet.minion(minion)
            return found, fleet.verdicts(found, fleet.sources({minion: found})[minion])


def _conflicts(connection, fleet):
    """
    Return what equal assignments to the same contradict each other in, a set of sentences
    """
    found = set()
    for where in store.states(connection):
        for sources in fleet.rivals(where, {}):
            try:
                resolver.resolve(sources)
            except Conflict as exc:
                found.add(str(exc))
    return found


def _concerned(fleet, states, minions):
    """
    Return the minions to which any of some states applies, by id; all where there are many
    states, as that costs less

    :param Fleet fleet: the minions
    :param states: the states
    :param dict minions: all minions by id
    """
    if len(states) > FEW:
        return minions
    found = {}
    for where in states:
        found.update(fleet.affected(where))
    return found


def _filled(sources):
    """
    Return the names of the states that have entries, a set
    """
    return {source.state for source in sources if source.items}


def _why(what, comment):
    """
    Return what was done and why, for the generations
    """
    return f"{what}: {comment}"[:1000] if comment else what


def _there(fleet, where, kind, value):
    """
    Return the assignment that there is already, or None
    """
    for entry in fleet.assignments:
        if (entry.state, entry.level, entry.value) == (where.id, kind, value):
            return entry
    return None


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
