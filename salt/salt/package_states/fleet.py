"""
Which states apply to which minions.

Everything is read with a few queries, however many minions are asked for. Grains
are those that the minions sent last, out of the cache of the master.
"""

from typing import NamedTuple

import salt.cache
import salt.package_states.platforms as platforms
import salt.package_states.resolver as resolver
import salt.package_states.store as store
import salt.utils.data
from salt.package_states.errors import NotThere, PackageStateError
from salt.package_states.resolver import Source

_MINIONS = """
    SELECT m.minion_id, s.id, s.org_id, c.name, l.platform,
      ARRAY(SELECT g.server_group_id FROM rhnServerGroupMembers AS g WHERE g.server_id = s.id)
    FROM suseMinionInfo AS m JOIN rhnServer AS s ON s.id = m.server_id
    JOIN web_customer AS c ON c.id = s.org_id
    LEFT JOIN susePackageList AS l ON l.server_id = s.id
"""
_ASSIGNMENTS = """
    SELECT a.state_id, t.name, a.server_id, a.group_id, a.org_id, a.grain_match, a.priority,
      COALESCE(m.minion_id, g.name, c.name, a.grain_match)
    FROM susePackageStateAssignment AS a JOIN susePackageState AS t ON t.id = a.state_id
    LEFT JOIN suseMinionInfo AS m ON m.server_id = a.server_id
    LEFT JOIN rhnServerGroup AS g ON g.id = a.group_id
    LEFT JOIN web_customer AS c ON c.id = a.org_id
    ORDER BY a.id
"""


class Minion(NamedTuple):
    """
    A minion, as the tables of Uyuni have it

    id
        Its id.

    server
        The id of its server.

    organization, groups
        The ids of these.

    platform
        Its package manager, or None if it is not known.
    """

    id: str
    server: int
    organization: int
    groups: frozenset
    platform: str


class Assignment(NamedTuple):
    """
    To whom a state applies

    state, name
        Its id and name.

    level
        One of :data:`salt.package_states.resolver.LEVELS`.

    value
        The id of the minion's server, group or organization, or a grain match.

    target
        The same for people.

    priority
        Among states of one level, the higher one wins.
    """

    state: int
    name: str
    level: str
    value: object
    target: str
    priority: int


class Fleet:
    """
    The minions, and the states that apply to them

    opts
        The options of the master.

    connection
        See :func:`salt.package_states.store.reading`.
    """

    def __init__(self, opts, connection):
        self.connection = connection
        self._cache = salt.cache.factory(opts)
        self._grains = {}
        rows = store.ask(connection, _ASSIGNMENTS)
        self.assignments = [_assignment(row) for row in rows]
        self.own = {
            state.name: state for state in store.states(connection) if state.own
        }

    def grains(self, minion):
        """
        Return the grains that a minion sent last, empty ones if it never did

        :param str minion: its id
        """
        if minion not in self._grains:
            try:
                found = self._cache.fetch("grains", minion)
            except Exception:  # pylint: disable=broad-except
                # whatever a cache module raises: these are the grains of a minion
                # that is not known, and nothing matches it
                found = None
            self._grains[minion] = found if isinstance(found, dict) else {}
        return self._grains[minion]

    def minions(self, ids=None):
        """
        Return minions by id, those of the tables of Uyuni

        :param ids: an iterable of their ids, None for all
        """
        if ids is None:
            rows = store.ask(self.connection, _MINIONS)
        else:
            rows = store.ask(
                self.connection, f"{_MINIONS} WHERE m.minion_id = ANY(%s)", list(ids)
            )
        found = {}
        for name, server, organization, _, platform, groups in rows:
            platform = platform or platforms.manager(self.grains(name))
            found[name] = Minion(
                name, server, organization, frozenset(groups), platform
            )
        return found

    def minion(self, name):
        """
        Return one minion

        :raises NotThere: if the tables of Uyuni lack it
        """
        # an id that looks like a number is one on the command line
        found = self.minions([name]) if isinstance(name, str) else {}
        if not found:
            raise NotThere(
                f"There is no minion {name!r} in the tables of Uyuni; register it first."
            )
        return found[name]

    def applies(self, assignment, minion):
        """
        Return whether an assignment is one to this minion
        """
        if assignment.level == resolver.ORGANIZATION:
            return assignment.value == minion.organization
        if assignment.level == resolver.GROUP:
            return assignment.value in minion.groups
        if assignment.level == resolver.MINION:
            return assignment.value == minion.server
        return salt.utils.data.subdict_match(self.grains(minion.id), assignment.value)

    def affected(self, state):
        """
        Return the minions to which a state applies, by id

        :param State state: the state
        """
        if state.own:
            return self.minions([state.name])
        mine = [entry for entry in self.assignments if entry.state == state.id]
        if not mine:
            return {}
        return {
            name: minion
            for name, minion in self.minions().items()
            if any(self.applies(entry, minion) for entry in mine)
        }

    def sources(self, minions, revisions=None):
        """
        Return the sources of minions, a dictionary of lists by id

        :param dict minions: minions by id
        :param dict revisions: revisions by the id of their state, to take instead of
            the newest
        """
        found = {}
        for name, minion in minions.items():
            found[name] = [
                entry for entry in self.assignments if self.applies(entry, minion)
            ]
            if name in self.own:
                own = self.own[name]
                found[name].append(
                    Assignment(own.id, name, resolver.OWN, None, name, 0)
                )
        needed = {entry.state for entries in found.values() for entry in entries}
        revisions = dict(revisions or {})
        revisions.update(store.newest(self.connection, needed - set(revisions)))
        return {
            name: [_source(entry, revisions[entry.state]) for entry in entries]
            for name, entries in found.items()
        }

    def rivals(self, state, revisions):
        """
        Return the groups of sources that would conflict whoever the minions are

        :param State state: one of each group is that of this state
        :param dict revisions: as for :meth:`sources`
        :return: a list of lists
        """
        mine = [entry for entry in self.assignments if entry.state == state.id]
        groups = [
            [
                entry
                for entry in self.assignments
                if entry[2:4] + entry[5:] == one[2:4] + one[5:]
            ]
            for one in mine
        ]
        groups = [group for group in groups if len(group) > 1]
        needed = {entry.state for group in groups for entry in group} - set(revisions)
        revisions = {**revisions, **store.newest(self.connection, needed)}
        return [
            [_source(entry, revisions[entry.state]) for entry in group]
            for group in groups
        ]

    def verdicts(self, minion, sources):
        """
        Return the verdicts for a minion, after a check that it can do what is wanted

        :param Minion minion: the minion
        :param sources: those that apply to it
        :raises PackageStateError: names the minion and what is wrong
        """
        native = ""
        if any(item.architecture for source in sources for item in source.items):
            native = self.grains(minion.id).get("osarch", "")
        try:
            found = resolver.resolve(sources, native)
            platforms.check(
                minion.platform, (verdict.item for verdict in found), frozenset()
            )
        except PackageStateError as exc:
            raise type(exc)(f"minion {minion.id}: {exc}") from exc
        return found


def _assignment(row):
    state, name, server, group, organization, grains, priority, target = row
    for level, value in (
        (resolver.MINION, server),
        (resolver.GROUP, group),
        (resolver.ORGANIZATION, organization),
        (resolver.GRAINS, grains),
    ):
        if value is not None:
            return Assignment(state, name, level, value, target or "", priority)
    raise PackageStateError(f"An assignment of {name} has no target; unassign it.")


def _source(entry, revision):
    return Source(
        entry.name,
        revision.contents,
        entry.level,
        entry.target,
        entry.priority,
        revision.items,
    )
