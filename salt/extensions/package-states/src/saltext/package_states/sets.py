"""
The whole set of a site: read out of the database, and brought into it.

See :mod:`saltext.package_states.document` for what it looks like.
"""

import saltext.package_states.difference as difference
import saltext.package_states.document as documents
import saltext.package_states.platforms as platforms
import saltext.package_states.requests as requests
import saltext.package_states.resolver as resolver
import saltext.package_states.stages as stages
import saltext.package_states.store as store
import saltext.package_states.transfer as transfer
from saltext.package_states.errors import InvalidInput, PackageStateError
from saltext.package_states.fleet import Fleet


def export(opts, path=None):
    """
    Return the whole set as text, or write it to a file

    :param dict opts: the options of the master
    :param str path: that of the file, None to return the text
    """
    with store.reading(opts) as connection:
        document = _document(connection, Fleet(opts, connection))
    text = documents.dump(document)
    if path is None:
        return text
    transfer.write(path, text)
    return {"path": path, "states": len(document.states)}


def _document(connection, fleet):
    """
    Return the set that there is
    """
    known = store.states(connection)
    ids = [where.id for where in known]
    newest = store.newest(connection, ids)
    staged = {
        stage: stages.in_force(connection, ids, stage) for stage in fleet.stages[1:]
    }
    found = {}
    for where in known:
        force = {
            stage: there[where.id].items
            for stage, there in staged.items()
            if there[where.id].number
        }
        assigned = tuple(
            documents.Assigned(
                entry.level,
                _target(fleet, entry),
                entry.priority,
                fleet.stages[entry.stage] if entry.stage else None,
            )
            for entry in fleet.assignments
            if entry.state == where.id
        )
        if newest[where.id].items or force or assigned:
            found[where.name] = documents.Entry(
                newest[where.id].items, force or None, None if where.own else assigned
            )
    return documents.Document(fleet.stages or None, found)


def _target(fleet, entry):
    """
    Return what a state is assigned to, by its name if that tells it
    """
    if entry.level in (resolver.GRAINS, resolver.MINION):
        return entry.value
    label = fleet.registry.label(entry.level, entry.value)
    alone = label and fleet.registry.found(entry.level, label) == [entry.value]
    return label if alone else entry.value


def apply(service, text, save, prune=False):
    """
    Bring a set into the database, in one transaction

    :param Service service: see :class:`saltext.package_states.service.Service`
    :param str text: see :func:`saltext.package_states.document.load`
    :param Save save: how it is saved
    :param bool prune: also empty and unassign the states that the text does not have
    :return: what is different, by state, and the numbers of the ``requests`` that wait for
        another person
    """
    wanted = documents.load(text)
    save = save._replace(comment=save.comment or "the whole set")

    def change(connection, fleet):
        return _Change(service, connection, fleet, save).do(wanted, prune)

    return service.alter(change, save.author, save.comment, save.dry_run)


class _Change:
    """
    The way from the set that there is to another one
    """

    def __init__(self, service, connection, fleet, save):
        self.service = service
        self.connection = connection
        self.fleet = fleet
        self.save = save
        self.stages = fleet.stages
        self.told = {"states": {}, "requests": []}

    def do(self, wanted, prune):
        """
        Do it, and return what :meth:`Service.alter` wants
        """
        if wanted.stages is not None and wanted.stages != self.stages:
            stages.write(
                self.connection, wanted.stages, self.save.author, self.save.comment
            )
            self.told["stages"] = {"old": self.stages, "new": wanted.stages}
            self.stages = wanted.stages
        entries = dict(wanted.states)
        known = {where.name: where for where in store.states(self.connection)}
        if prune:
            for name, where in known.items():
                entries.setdefault(name, self._gone(where))
        minions, named = self.fleet.minions(entries), []
        for name in sorted(entries):
            where = known.get(name)
            told = {} if where else {"new": True}
            if where is None:
                where = store.create(self.connection, name, name in minions)
            try:
                self._contents(where, entries[name], told)
                self._assigned(where, entries[name], told)
            except PackageStateError as exc:
                # of a thousand states, which one
                raise type(exc)(f"state {name}: {exc}") from exc
            named.append(where)
            if told:
                self.told["states"][name] = told
        return self.told, named

    def _gone(self, where):
        """
        Return what is wanted of a state that the text does not have: nothing, in no stage
        """
        force = {
            stage: stages.in_force(self.connection, [where.id], stage)[where.id]
            for stage in self.stages[1:]
        }
        staged = {stage: () for stage, there in force.items() if there.items}
        return documents.Entry((), staged, None if where.own else ())

    def _saved(self, where, items, current):
        """
        Save a revision if it says something else than the newest one, and return it
        """
        if items == current.items and (current.number or not items):
            return current
        platforms.guard(items, self.service.compiler.protected)
        return store.save(
            self.connection, where, current, items, self.save.author, self.save.comment
        )

    def _contents(self, where, entry, told):
        """
        Bring the entries of a state into all its stages
        """
        newest = store.chosen(self.connection, where)
        packages = newest.items if entry.packages is None else entry.packages
        before, missing = newest.items, {}
        # the last stage first, so that the newest revision is that of the first one
        for stage in reversed(list(entry.stages or ())):
            if not stages.place(self.stages, stage):
                raise InvalidInput(
                    f"The first stage of {where.name} has its packages; leave {stage} out of"
                    " its stages."
                )
        for stage in reversed(self.stages[1:]):
            items = (entry.stages or {}).get(stage)
            force = stages.in_force(self.connection, [where.id], stage)[where.id]
            if items is None and missing and not force.number:
                # a revision that only comes through here leaves nothing
                items = ()
            if items is None or (force.number and force.items == items):
                continue
            if not (items or force.number or missing):
                continue
            if items != force.items:
                told.setdefault("stages", {})[stage] = difference.between(
                    force.items, items
                )
            number = store.contents(self.connection, where, items)
            if number is None:
                newest = self._saved(where, items, newest)
                number = newest.number
            missing[stage] = number
        if packages != newest.items:
            newest = self._saved(where, packages, newest)
        if packages != before:
            told["changes"] = difference.between(before, packages)
        for stage, number in missing.items():
            self._promoted(where, stage, number)

    def _promoted(self, where, stage, number):
        """
        Let a revision come into a stage through those before it, without a change of these
        """
        place = self.stages.index(stage)
        for before in self.stages[1:place]:
            if not stages.was_there(self.connection, where, before, number):
                force = stages.in_force(self.connection, [where.id], before)[where.id]
                self._promote(where, before, number)
                if force.number:
                    self._promote(where, before, force.number)
        if place < len(self.stages) - 1 or stages.was_there(
            self.connection, where, stage, number
        ):
            self._promote(where, stage, number)
            return
        self._ask(
            requests.Request(
                None, where.id, where.name, requests.PROMOTE, stage, number
            )
        )

    def _promote(self, where, stage, number):
        stages.promote(
            self.connection, where, stage, number, self.save.author, self.save.comment
        )

    def _ask(self, asked):
        asked = asked._replace(author=self.save.author, comment=self.save.comment)
        number = requests.ask(self.connection, asked)
        told = {} if self.save.dry_run else {"request": number}
        self.told["requests"].append({**told, "asks": asked.label})

    def _assigned(self, where, entry, told):
        """
        Let a state apply to what the text says, and to nothing else
        """
        if entry.assigned is None:
            return
        if where.own and entry.assigned:
            raise InvalidInput(
                f"{where.name} is the own state of a minion and applies to that alone; take"
                " its assignments out."
            )
        there = {
            (old.level, old.value): old
            for old in self.fleet.assignments
            if old.state == where.id
        }
        labels = {(old.level, _target(self.fleet, old)): old for old in there.values()}
        left = dict(there)
        for one in entry.assigned:
            old = there.get(one[:2]) or labels.get(one[:2])
            value = old.value if old else self.fleet.registry.target(*one[:2])
            left.pop((one.kind, value), None)
            place = stages.place(self.stages, one.stage)
            stage = self.stages[place] if place else None
            before = self._stage(old)
            if old and (old.priority, before) == (one.priority, stage):
                continue
            told.setdefault("assigned", []).append(documents.shown(one))
            self._change(
                requests.Request(
                    None,
                    where.id,
                    where.name,
                    requests.ASSIGN,
                    stage,
                    kind=one.kind,
                    target=value,
                    priority=one.priority,
                ),
                before,
            )
        for kind, value in left:
            old = left[kind, value]
            told.setdefault("unassigned", []).append(f"{kind} {old.target}")
            self._change(
                requests.Request(
                    None,
                    where.id,
                    where.name,
                    requests.UNASSIGN,
                    None,
                    kind=kind,
                    target=value,
                ),
                self._stage(old),
            )

    def _stage(self, old):
        """
        Return the name of the stage that an assignment follows, None for the first one
        """
        return self.fleet.stages[old.stage] if old and old.stage else None

    def _change(self, asked, before):
        """
        Change an assignment, or ask for it if it concerns the last stage
        """
        last = self.stages[-1] if self.stages else None
        if last and last in (asked.stage, before):
            if asked.kind == resolver.GRAINS:
                raise InvalidInput(
                    "Minions choose their grains, so no grain can be assigned to the last"
                    " stage; use a group."
                )
            self._ask(asked)
            return
        asked = asked._replace(author=self.save.author, comment=self.save.comment)
        self.service.assigned(self.connection, asked)
