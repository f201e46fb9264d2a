"""Which states apply to which minions, with a few queries however many minions are asked for.

Grains are those that the minions sent last, out of the cache of the master.
"""

import functools
from typing import NamedTuple

import saltext.package_states.compile.registry as registry
import saltext.package_states.store.roster as roster
import saltext.package_states.store.tables as store
from saltext.package_states.errors import Conflict, PackageStateError, Unclear
from saltext.package_states.model import item, names, platforms, resolver
from saltext.package_states.model.item import UNMANAGED
from saltext.package_states.model.resolver import Source

import salt.cache
import salt.utils.data
import salt.version

# Before 3008 a minion has a bank of its own, and its grains are beside its pillar
BANK_FOR_EACH = salt.version.__saltstack_version__.info[0] < 3008


class Minion(NamedTuple):
    id: str  # its id
    platform: str  # its package manager, or None if it is not known


class Assignment(NamedTuple):
    # its id and name
    state: int
    name: str
    level: str  # one of resolver.LEVELS
    value: str  # the id of a minion, group or organization, or a grain match
    target: str  # the same for people
    priority: int  # among states of one level, the higher one wins


class Fleet:
    """The minions, and the states that apply to them; grains and minions may be those of ``before``"""

    def __init__(self, opts, connection, before=None):
        self.connection = connection
        if before:
            self.registry = before.registry
            self._cache, self._grains = before._cache, before._grains
            self._platforms = before._platforms
        else:
            self.registry = registry.get(opts, connection)
            self._cache, self._grains = salt.cache.factory(opts), {}
            self._platforms = None
        self.assignments = [
            Assignment(*row[:4], self.label(*row[2:4]), row[4])
            for row in store.assignments(connection)
        ]
        self.own = {
            state.name: state for state in store.states(connection) if state.own
        }
        # the old ids of minions by the new ones, where nobody knows which state is theirs
        self.collided = roster.collided(connection)

    def grains(self, minion):
        """Return the grains that a minion sent last, empty ones if it never did"""
        if minion not in self._grains:
            try:
                if BANK_FOR_EACH:
                    found = self._cache.fetch(f"minions/{minion}", "data")["grains"]
                else:
                    found = self._cache.fetch("grains", minion)
            except Exception:  # pylint: disable=broad-except
                # whatever a cache module raises: these are the grains of a minion
                # that is not known, and nothing matches it
                found = None
            self._grains[minion] = found if isinstance(found, dict) else {}
        return self._grains[minion]

    def label(self, level, value):
        if level in (resolver.GRAINS, resolver.MINION):
            return value
        return self.registry.label(level, value) or f"{value} (gone)"

    def is_there(self, level, value):
        if level == resolver.MINION:
            return bool(self.registry.minions([value]))
        return level == resolver.GRAINS or self.registry.label(level, value) is not None

    def minions(self, ids=None):
        found, sent = self.registry.minions(ids), self._platforms
        if sent is None:
            sent = store.platforms(self.connection, None if ids is None else found)
        if ids is None:
            self._platforms = sent
        return {
            name: Minion(name, sent.get(name) or platforms.manager(self.grains(name)))
            for name in found
        }

    def minion(self, name):
        # an id that looks like a number is one on the command line
        found = self.minions([name]) if isinstance(name, str) else {}
        if not found:
            raise PackageStateError(
                f"There is no minion {names.shown(name)};"
                f" {self.registry.hint(resolver.MINION)}."
            )
        return found[name]

    def applies(self, assignment, minion):
        if assignment.level == resolver.MINION:
            return assignment.value == minion.id
        if assignment.level == resolver.GRAINS:
            return salt.utils.data.subdict_match(
                self.grains(minion.id), assignment.value
            )
        return self.registry.belongs(minion.id, assignment.level, assignment.value)

    def assigned(self, state):
        return [entry for entry in self.assignments if entry.state == state.id]

    def gone(self):
        """Return the groups and organizations that are gone, kind and id by the name of a state that has one"""
        return {
            entry.name: f"{entry.level} {entry.value}"
            for entry in self.assignments
            if entry.level in (resolver.GROUP, resolver.ORGANIZATION)
            and self.registry.label(entry.level, entry.value) is None
        }

    def affected(self, state):
        if state.own:
            return self.minions([state.name])
        mine = self.assigned(state)
        if not mine:
            return {}
        return {
            name: minion
            for name, minion in self.minions().items()
            if any(self.applies(entry, minion) for entry in mine)
        }

    def halted(self, minion):
        """Return why the file of a minion stays as it is, an error, or None if it does not"""
        old = self.collided.get(minion.id)
        if old is None:
            return self._unclear(minion)
        return Conflict(
            f"{minion.id} was {old}, and there is a state of either name, so nothing of {old} is"
            f" given to {minion.id}; save in {minion.id} what it needs, and empty {old} with"
            f" package_states.restore {old} 0."
        )

    @functools.cached_property
    def _by_grains(self):
        """Whether grains decide to whom any state applies"""
        return any(
            one.level == resolver.GRAINS
            or (one.level == resolver.GROUP and self.registry.by_grains(one.value))
            for one in self.assignments
        )

    def _unclear(self, minion):
        """Return an error if nobody knows which states apply to a minion, as it sent no grains"""
        if not self._by_grains or self.grains(minion.id):
            return None
        return Unclear(
            f"grains not known: {minion.id} sent none, so nobody knows which states apply to it,"
            f" and its file stays as it is; run salt {minion.id} saltutil.refresh_grains."
        )

    def followed(self, minion):
        """Return the assignments to a minion, and one for its own state, a list"""
        found = [entry for entry in self.assignments if self.applies(entry, minion)]
        if minion.id in self.own:
            own = self.own[minion.id]
            found.append(
                Assignment(own.id, minion.id, resolver.OWN, None, minion.id, 0)
            )
        return found

    def sources(self, minions, revisions=None):
        found = {name: self.followed(minion) for name, minion in minions.items()}
        taken = self._taken((one for some in found.values() for one in some), revisions)
        return {
            name: [_source(entry, *taken[entry.state]) for entry in some]
            for name, some in found.items()
        }

    def _taken(self, entries, revisions=None):
        """Return what states bring, pairs of the digest of the contents and the items, by id"""
        ids = {entry.state for entry in entries}
        there = {one: revisions[one] for one in ids & set(revisions or ())}
        there.update(store.newest(self.connection, ids - set(there)))
        return {
            one: (item.digest(revision.items), revision.items)
            for one, revision in there.items()
        }

    def rivals(self, state, revisions):
        """Return lists of sources that would conflict whoever the minions are"""
        groups = {}
        for entry in self.assignments:
            same = (entry.level, entry.value, entry.priority)
            groups.setdefault(same, []).append(entry)
        groups = [
            group
            for group in groups.values()
            if len(group) > 1 and any(one.state == state.id for one in group)
        ]
        taken = self._taken((entry for group in groups for entry in group), revisions)
        return [
            [_source(entry, *taken[entry.state]) for entry in group] for group in groups
        ]

    def possible(self, minion, sources):
        """Return the verdicts for a minion that it can do, and the errors of the others, by package"""
        halt = self.halted(minion)
        if halt:
            return (), {"": halt}
        trouble, verdicts = {}, []
        for verdict in resolver.resolve(sources, self.native(minion, sources), trouble):
            problem = platforms.problem(minion.platform, verdict.item)
            if problem and verdict.item.wanted != UNMANAGED:
                trouble[verdict.item.key] = PackageStateError(
                    f"{problem.rstrip('.')} (from {verdict.source.label})."
                )
            else:
                verdicts.append(verdict)
        return tuple(verdicts), trouble

    def native(self, minion, sources):
        """Return the architecture of a minion if anything asks for it, or an empty string"""
        if any(item.architecture for source in sources for item in source.items):
            return self.architecture(minion.id)
        return ""

    def architecture(self, minion):
        found = self.grains(minion).get("osarch")
        # a minion sends what it likes
        return found if isinstance(found, str) else ""


def _source(entry, contents, items):
    return Source(
        entry.name, contents, entry.level, entry.target, entry.priority, items
    )
