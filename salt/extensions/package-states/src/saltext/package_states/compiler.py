"""
What is wanted, compiled to files: one for each minion, and one for each state by itself.
"""

import os

import saltext.package_states.files as files
import saltext.package_states.generations as generations
import saltext.package_states.item as item
import saltext.package_states.names as names
import saltext.package_states.platforms as platforms
import saltext.package_states.resolver as resolver
import saltext.package_states.sls as sls
import saltext.package_states.stages as stages
import saltext.package_states.store as store
from saltext.package_states.errors import PackageStateError, Unwritten

# no name of a minion has it
_NAME = "\0"


class Compiler:
    """
    Makes the texts of files, and writes them

    opts
        The options of the master, see :class:`saltext.package_states.service.Service`.
    """

    def __init__(self, opts):
        own = opts.get("package_states") or {}
        self.root = own.get("sls_root") or files.root(opts)
        self.protected = platforms.PROTECTED | set(own.get("protected", ()))

    def texts(self, fleet, minions, revisions=None, known=None):
        """
        Return the texts of the files of minions, what is wrong by id and package, and what
        is wanted by id, see :func:`saltext.package_states.generations.keep`

        :param Fleet fleet: the minions
        :param dict minions: those to compile, by id
        :param dict revisions: revisions by the id of their state, to take instead of the
            newest
        :param dict known: their sources, if they are known already
        """
        texts, problems, wanted = {}, {}, {}
        if known is None:
            found = fleet.sources(minions, revisions)
        else:
            found = {name: known.get(name, []) for name in minions}
        known = {}
        for name, sources in found.items():
            try:
                names.state(name)
            except PackageStateError as exc:
                problems[name] = {"": exc}
                continue
            minion = minions[name]
            halt = fleet.halted(minion)
            if halt:
                # the file that it has is what was approved
                problems[name] = {"": halt}
                continue
            # most minions of a fleet have the same states
            same = (minion.platform, fleet.native(minion, sources), *contents(sources))
            if same not in known:
                known[same] = self._decided(fleet, minion, sources)
            text, trouble, items = known[same]
            texts[name] = text.replace(_NAME, name, 1)
            wanted[name] = items
            if trouble:
                problems[name] = trouble
        return texts, problems, wanted

    def _decided(self, fleet, minion, sources):
        """
        Return the text of the file of a minion with another name, what is wrong, and what is
        wanted
        """
        verdicts, trouble = fleet.possible(minion, sources)
        verdicts = resolver.managed(verdicts)
        text = sls.render(
            _NAME,
            minion.platform,
            sources,
            verdicts,
            self.protected,
            trouble={key: str(exc) for key, exc in trouble.items()},
        )
        items = tuple(verdict.item for verdict in verdicts)
        return text, trouble, (generations.digest(items), items)

    def alone(self, fleet, where, revisions):
        """
        Return the text of the file of a state by itself

        Whoever may apply it may do so on any minion, so with stages it has what is approved.

        :param Fleet fleet: the minions
        :param State where: the state
        :param dict revisions: as for :meth:`texts`
        """
        if fleet.stages:
            there = stages.in_force(fleet.connection, [where.id], fleet.stages[-1])
        else:
            there = {**store.newest(fleet.connection, [where.id]), **revisions}
        revision = there[where.id]
        source = resolver.Source(
            where.name,
            item.digest(revision.items),
            resolver.OWN,
            where.name,
            0,
            revision.items,
        )
        verdicts = resolver.managed(resolver.resolve([source]))
        return sls.render(
            where.name, None, [source], verdicts, self.protected, where.name
        )

    def write(self, texts, failed=()):
        """
        Write files and return the names of those that changed

        :param dict texts: what they hold, by name, see :mod:`saltext.package_states.files`
        :param failed: errors of before, which are raised with those of here
        :raises Unwritten: if some can't be written; all others are
        """
        changed, failed = [], list(failed)
        for name, text in texts.items():
            try:
                if files.write(self.root, name, text):
                    changed.append(name)
            except PackageStateError as exc:
                failed.append(exc)
        if texts:
            # also if it could not be written the last time
            try:
                files.ship(self.root)
            except PackageStateError as exc:
                failed.append(exc)
        if failed:
            more = f" So it is with {len(failed) - 1} more." if failed[1:] else ""
            raise Unwritten(f"{failed[0]}{more}")
        return sorted(map(files.shown, changed))

    def refuse(self, before, minions, problems, revisions=None, sources=None):
        """
        Raise what is wrong with minions and was not before

        :param Fleet before: the minions as they were
        :param dict minions: minions by id
        :param dict problems: what is wrong with them, see :meth:`texts`
        :param dict revisions: as for :meth:`texts`, before
        :param dict sources: their sources before, if they are known already
        """
        troubled = {name: minions[name] for name in problems}
        _, known, _ = self.texts(before, troubled, revisions, sources)
        for name, found in problems.items():
            new = {
                key: text
                for key, text in found.items()
                if key not in known.get(name, {})
            }
            if new:
                raise _error(name, new)

    def idle(self, name, text):
        """
        Return whether a minion needs no file: there is none for one that never had a state,
        and an empty one for one that had, so that its locks are released

        :param str name: its id
        :param str text: what the file would hold
        """
        return sls.NOTHING in text and not os.path.exists(files.path(self.root, name))

    def strays(self, known):
        """
        Return the names of files that belong to nobody, a list

        :param known: the names of those that do
        """
        return [name for name in files.names_of(self.root) if name not in known]


def _error(name, trouble):
    """
    Return the error of what is wrong with a minion
    """
    kinds = {type(exc) for exc in trouble.values()}
    kind = kinds.pop() if len(kinds) == 1 else PackageStateError
    return kind(f"minion {name}: {' '.join(map(str, trouble.values()))}")


def contents(sources):
    """
    Return what tells sources apart: all but their items, of which they have a digest

    :param sources: those of a minion, a list
    """
    return [source[:-1] for source in sources]
