"""What is wanted, compiled to files: one for each minion, and one for each state by itself."""

import os

import saltext.package_states.store.tables as store
from saltext.package_states.compile import files, sls
from saltext.package_states.errors import PackageStateError, Unclear, Unwritten
from saltext.package_states.model import item, names, platforms, resolver

# no name of a minion has it
_NAME = "\0"


class Compiler:
    def __init__(self, opts):
        own = opts.get("package_states") or {}
        self.root = own.get("sls_root") or files.root(opts)
        self.protected = platforms.PROTECTED | set(own.get("protected", ()))

    def texts(self, fleet, minions, sources):
        """Return the texts of the files of minions, and what is wrong by id and package"""
        texts, problems, known, gone = {}, {}, {}, fleet.gone()
        for name, minion in minions.items():
            mine = sources.get(name, [])
            try:
                names.state(name)
            except PackageStateError as exc:
                problems[name] = {"": exc}
                continue
            halt = fleet.halted(minion) or self._lost(name, mine, gone)
            if halt:
                # nobody knows what is wanted, so the file stays
                problems[name] = {"": halt}
                continue
            # most minions of a fleet have the same states
            same = (minion.platform, fleet.native(minion, mine), *contents(mine))
            if same not in known:
                known[same] = self._decided(fleet, minion, mine)
            text, trouble = known[same]
            texts[name] = text.replace(_NAME, name, 1)
            if trouble:
                problems[name] = trouble
        return texts, problems

    def _lost(self, name, sources, gone):
        """Return the error of a minion whose file has a state that it lost as a group is gone, or None"""
        if not gone:
            return None
        had = sls.states(files.read(self.root, name))
        lost = sorted((had & gone.keys()) - {source.state for source in sources})
        if not lost:
            return None
        return PackageStateError(
            f"the {gone[lost[0]]} is gone, to which {lost[0]} is assigned, so the file of"
            f" {name} stays as it is; bring it back, or take that away with"
            f" package_states.unassign {lost[0]} {gone[lost[0]]}."
        )

    def _decided(self, fleet, minion, sources):
        """Return the text of the file of a minion with another name, and what is wrong"""
        verdicts, trouble = fleet.possible(minion, sources)
        asked, guarded = resolver.managed(verdicts), self.protected
        said = {key: str(exc) for key, exc in trouble.items()}
        text = sls.render(_NAME, minion.platform, sources, asked, guarded, "", said)
        return text, trouble

    def alone(self, fleet, where):
        """Return the text of the file of a state by itself"""
        name, items = where.name, store.revision(fleet.connection, where).items
        source = resolver.Source(name, item.digest(items), resolver.OWN, "", 0, items)
        verdicts = resolver.managed(resolver.resolve([source]))
        return sls.render(name, None, [source], verdicts, self.protected, name)

    def write(self, texts, failed=()):
        """Write files, all that can be, and return the names of those that changed"""
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

    def refuse(self, before, minions, problems, sources):
        """Raise what is wrong with minions and was not before"""
        troubled = {name: minions[name] for name in problems}
        _, known = self.texts(before, troubled, sources)
        new = {}
        for name, found in problems.items():
            for key, text in found.items():
                if key not in known.get(name, {}) and not isinstance(text, Unclear):
                    new.setdefault(name, []).append(str(text))
        for name, said in new.items():
            more = f" So it is with {len(new) - 1} more." if new.keys() - {name} else ""
            raise PackageStateError(f"minion {name}: {' '.join(said)}{more}")

    def idle(self, name, text):
        """Return whether a minion needs no file; one that had a state needs it, to release its locks"""
        return sls.NOTHING in text and not os.path.exists(files.path(self.root, name))

    def strays(self, known):
        return [name for name in files.names_of(self.root) if name not in known]


def contents(sources):
    """Return what tells sources apart: all but their items, of which they have a digest"""
    return [source[:-1] for source in sources]
