"""Try the topics on other releases of Salt: whether the same code is there, and the patch for it if it applies.

git takes each topic over, after all that it requires, as it does for a bump; nothing of the project is changed. A topic
that is kept for the release (see ``kept``) is taken from there. That a patch applies does not prove that it works: its
tests do, see ``prove``, and names of Salt's that it uses and that the release lacks are told.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from patches import sdist
from patches.branch import Commits, commit
from patches.errors import ConflictError
from patches.git import decode, list_paths
from patches.kept import read_kept
from patches.layout import write_atomically
from patches.ready import current
from patches.stock import ensure_base

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from patches.git import Git
    from patches.kept import Kept
    from patches.patch import Patch
    from patches.repository import Repository
    from patches.series import Series
    from patches.state import State

# parts of a topic that no user of the code needs
BESIDE = ("doc/", "tests/")
NAME = re.compile(r"\bsalt(?:\.[A-Za-z_]\w*)+")


@dataclass(frozen=True)
class Fit:
    """One topic on one release: `there` is how much of the lines in and around its changes the release has too.

    `conflicts` are files of code in which git can't take it over, of whichever topic in `stopped`, it or one that it
    requires. `left_out` are files that the release does not have, and conflicts in docs and in upstream's tests: the
    topic goes without them. `lacking` are names of Salt's that it uses and that are not there. `written` is the patch,
    complete with the topic's new files, "" if it does not apply. `merged` says that only a merge of three versions
    could apply it, `kept` that it is of the series for the release, `commit` is the result.
    """

    topic: str
    release: str
    there: float
    requires: tuple[str, ...] = ()
    stopped: str = ""
    conflicts: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    written: str = ""
    merged: bool = False
    kept: bool = False
    commit: str = ""

    @property
    def verdict(self) -> str:
        """Whether it fits, in words."""
        if self.stopped and not self.conflicts:
            return "not there"
        if self.stopped:
            what = "" if self.stopped == self.topic else f"{self.stopped}, which it requires: "
            return f"conflicts: {what}{', '.join(self.conflicts)}"
        how = "kept" if self.kept else "applies three-way" if self.merged else "applies"
        without = f" without {', '.join(self.left_out)}" if self.left_out else ""
        return f"{how}{without}{', and lacks ' if self.lacking else ''}{', '.join(self.lacking)}"


def fits(repository: Repository, releases: Sequence[str], topics: Sequence[str], output: Path) -> tuple[Fit, ...]:
    """Try topics (all if none is named) on releases; write what applies to a folder each; the caller holds the lock.

    :raises UsageError: when there is no such topic, or when the tree is not what the patches say.
    :raises FetchError: when a release can't be downloaded.
    """
    layout = repository.layout
    _, series, state = current(repository)
    for topic in topics:
        series.get(topic)
    found = []
    for release in releases:
        onto = ensure_base(repository, sdist.learn(layout, release))
        folder = output / release
        shutil.rmtree(folder, ignore_errors=True)
        kept = read_kept(layout, release)
        with repository.scratch(onto) as git:
            trial = _Trial(repository, series, state, git, onto, frozenset(repository.files(onto)), kept)
            found += [trial.of(topic, release, folder) for topic in topics or series.topics]
    return tuple(found)


def table(found: Iterable[Fit]) -> list[str]:
    """Return what was found as lines of a table in Markdown: a row for each topic, a column for each release."""
    rows: dict[str, dict[str, Fit]] = {}
    for fit in found:
        rows.setdefault(fit.topic, {})[fit.release] = fit
    releases = list(dict.fromkeys(release for row in rows.values() for release in row))
    lines = [f"| topic | {' | '.join(releases)} |", f"|---|{'---|' * len(releases)}"]
    for topic, row in rows.items():
        cells = [f"{row[name].there:.0%}: {row[name].verdict}" for name in releases]
        lines.append(f"| `{topic}` | {' | '.join(cells)} |")
    return lines


@dataclass(frozen=True)
class _Trial:
    """A work tree with a release, in which topics are tried."""

    repository: Repository
    series: Series
    state: State
    git: Git
    onto: str
    known: frozenset[str]
    kept: Kept | None

    def of(self, topic: str, release: str, folder: Path) -> Fit:
        """Try a topic on the release as it was published, and write the patch if it applies."""
        if self.kept is not None and topic in self.kept.series.topics:
            return self._kept(self.kept, topic, folder)
        self.git.run("reset", "--quiet", "--hard", self.onto)
        self.git.run("clean", "--quiet", "-ffdx")
        patches = self.series.closure(topic)
        requires = tuple(patch.topic for patch in patches[:-1])
        there = self._there(topic)
        left_out: tuple[str, ...] = ()
        merged = False
        for patch in patches:
            merged = self.git.attempt("apply", "--cached", "--check", feed=patch.data).code != 0 and not patch.is_new
            left_out, conflicts = self._take(patch)
            if conflicts or self._is_without_code(patch.topic, left_out):
                return Fit(topic, release, there, requires, patch.topic, conflicts)
        path, made = folder / f"{topic}.patch", self.git.text("rev-parse", "HEAD")
        write_atomically(path, self.repository.export(made))
        found = Fit(topic, release, there, requires, left_out=left_out, lacking=self._lacking(topic), written=str(path))
        return replace(found, merged=merged, commit=made)

    def _kept(self, kept: Kept, topic: str, folder: Path) -> Fit:
        """Try a topic of the series that is kept for the release."""
        patches, release = kept.series.closure(topic), kept.base.version
        requires = tuple(patch.topic for patch in patches[:-1])
        self.git.run("reset", "--quiet", "--hard", self.onto)
        self.git.run("clean", "--quiet", "-ffdx")
        there = self._there(topic)
        try:
            made = commit(self.repository, patches, Commits(self.onto))
        except ConflictError as error:
            return Fit(topic, release, there, requires, topic, (str(error),), kept=True)
        self.git.run("reset", "--quiet", "--hard", made)
        path = folder / f"{topic}.patch"
        write_atomically(path, self.repository.export(made))
        return Fit(
            topic, release, there, requires, lacking=self._lacking(topic), written=str(path), kept=True, commit=made
        )

    def _is_without_code(self, topic: str, left_out: Iterable[str]) -> bool:
        """Return whether all the code that a topic changes is left out."""
        commit = self._commit(topic)
        code = {path for path in self.repository.changed(f"{commit}^", commit) if not path.startswith(BESIDE)}
        return bool(code) and code <= set(left_out)

    def _take(self, patch: Patch) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Commit a topic with its new files; return what is left out, and the files in which git can't."""
        result = self.git.attempt("cherry-pick", "--allow-empty", "--keep-redundant-commits", self._commit(patch.topic))
        left_out: tuple[str, ...] = ()
        if result.code:
            stuck = self.git.paths("diff", "-z", "--name-only", "--diff-filter=U")
            left_out = tuple(path for path in stuck if path not in self.known or path.startswith(BESIDE))
            if not stuck or left_out != stuck:
                self.git.attempt("cherry-pick", "--abort")
                return (), tuple(path for path in stuck if path not in left_out) or (patch.topic,)
            for path in left_out:
                if path in self.known:
                    self.git.run("checkout", "--quiet", "HEAD", "--", path)
                else:
                    self.git.run("rm", "--quiet", "--force", "--", path)
            self.git.run("commit", "--quiet", "--no-edit", "--allow-empty")
        for name in patch.files:
            target = self.git.work_tree / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(self.repository.layout.salt / name, target)
        self.git.run("update-index", "--add", "-z", "--stdin", feed=list_paths(patch.files))
        self.git.run("commit", "--quiet", "--amend", "--no-edit", "--allow-empty")
        return left_out, ()

    def _commit(self, topic: str) -> str:
        (commit,) = (one.commit for one in self.state.applied if one.topic == topic)
        return commit

    def _lines(self, topic: str, signs: str) -> Iterable[tuple[str, str]]:
        """Yield path and text of the lines of a topic's changes to upstream's files that begin with one of `signs`."""
        commit, path = self._commit(topic), ""
        diff = self.repository.git.run("diff", "--no-color", "--no-ext-diff", f"{commit}^", commit).out
        for line in decode(diff).splitlines():
            if line.startswith("+++ "):
                path = line[4:].partition("\t")[0].removeprefix("b/")
            elif not line.startswith(("--- ", "diff ", "index ", "@@")) and line[:1] in signs and line[1:].strip():
                yield path, line[1:]

    def _there(self, topic: str) -> float:
        """Return the share of the lines around and in a topic's changes that the release has in the same files."""
        held: dict[str, Counter[str]] = {}
        asked, found = 0, 0
        for path, text in self._lines(topic, " -"):
            if path not in held:
                file = self.git.work_tree / path
                held[path] = Counter(file.read_text(errors="replace").splitlines() if file.is_file() else ())
            asked += 1
            found += held[path][text] > 0
        return found / asked if asked else 1.0

    def _lacking(self, topic: str) -> tuple[str, ...]:
        """Return the names of Salt's that a topic adds to upstream's Python files and that are nowhere defined."""
        used = {
            name
            for path, text in self._lines(topic, "+")
            if path.endswith(".py")
            for name in NAME.findall(text.partition("#")[0])
        }
        return tuple(sorted(name for name in used if not self._defines(name)))

    def _defines(self, dotted: str) -> bool:
        """Return whether the tree has a module of this name, or one that defines the first name after the module's."""
        parts = dotted.split(".")
        for size in range(len(parts), 0, -1):
            place = self.git.work_tree.joinpath(*parts[:size])
            file = place.with_suffix(".py") if not place.is_dir() else place / "__init__.py"
            if place.is_dir() and size == len(parts):
                return True
            if file.is_file():
                if size == len(parts):
                    return True
                name = re.escape(parts[size])
                defined = rf"\b(?:def|class) {name}\b|^\s*{name}\b.*=|import .*\b{name}\b"
                return re.search(defined, file.read_text(errors="replace"), re.MULTILINE) is not None
        return False
