"""Series that are kept for other releases than the base: fixes, and what most fleets wait for.

``patches/releases/RELEASE/series`` names topics in their order, ``base.txt`` pins the release. A topic has a patch of
its own there only if the one for the base does not make what it should on the release; nothing is kept twice.

git takes each topic over, after all that it requires, as it does for a bump; nothing of the project is changed. A topic
that is kept for the release (see ``kept``) is taken from there. That a patch applies does not prove that it works: its
tests do, see ``prove``.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patches import base, branch
from patches.apply import current, ensure_base, ready
from patches.base import Base, learn, parse_base
from patches.branch import Commits, commit
from patches.carry import Carrier, Carry, remove
from patches.errors import ConflictError, UsageError
from patches.git import list_paths
from patches.layout import write_atomically
from patches.patch import Patch
from patches.series import Series, read_series
from patches.state import Applied

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from patches.git import Git
    from patches.layout import Layout
    from patches.repository import Repository
    from patches.state import State


@dataclass(frozen=True)
class Kept:
    """A release with the topics that are kept for it, and those that have a patch of their own there."""

    base: Base
    series: Series
    own: tuple[str, ...]


def releases(layout: Layout) -> tuple[str, ...]:
    """Return the releases that a series is kept for."""
    return tuple(sorted(path.parent.name for path in layout.releases.glob("*/series")))


def read_kept(layout: Layout, release: str) -> Kept | None:
    """Read the series that is kept for a release; None when there is none.

    :raises UsageError: when a topic is none of the base's, or when a patch is on disk without being listed.
    """
    folder = layout.releases / release
    if not (folder / "series").is_file():
        return None
    topics = [line.strip() for line in (folder / "series").read_text(encoding="utf-8").splitlines() if line.strip()]
    shared = read_series(layout)
    own = tuple(path.stem for path in sorted(folder.glob("*.patch")))
    for topic in {*own} - {*topics}:
        raise UsageError(
            f"{folder / topic}.patch is not listed: add '{topic}' to {folder / 'series'}, or delete the file."
        )
    patches = (
        Patch(topic, (folder / f"{topic}.patch").read_bytes()) if topic in own else shared.get(topic)
        for topic in topics
    )
    return Kept(parse_base(folder / "base.txt"), Series(tuple(patches)), own)


def write_kept(layout: Layout, kept: Kept) -> None:
    """Write a series with its pin, and the patches that are the release's own."""
    folder = layout.releases / kept.base.version
    write_atomically(folder / "base.txt", f"{kept.base.requirement}\n".encode())
    write_atomically(folder / "series", "".join(f"{topic}\n" for topic in kept.series.topics).encode())
    for patch in kept.series:
        if patch.topic in kept.own:
            write_atomically(folder / f"{patch.topic}.patch", patch.data)
    for path in folder.glob("*.patch"):
        if path.stem not in kept.own:
            path.unlink()


def keep(repository: Repository, release: str, topics: Sequence[str]) -> Kept:
    """Carry topics, with what they require, to a release, on top of what is kept there; the caller holds the lock.

    :raises ConflictError: when git needs help: the work tree is left in ``build/keep``.
    """
    layout = repository.layout
    _, series, state = ready(repository)
    if (layout.keeping / ".git").exists():
        raise UsageError("An earlier one waits in build/keep: end it with 'keep --continue' or 'keep --abort'.")
    base = learn(layout, release)
    onto = ensure_base(repository, base)
    before = read_kept(layout, release)
    stay = [patch for patch in (before.series if before else ()) if patch.topic not in topics]
    wanted = {patch.topic for topic in topics for patch in series.closure(topic)} - {patch.topic for patch in stay}
    ground = branch.commit(repository, stay, branch.Commits(onto)) if stay else onto
    names = [patch.topic for patch in series if patch.topic in wanted]
    more = (ground, ",".join(names), ",".join(patch.topic for patch in stay))
    Carry.begin(repository, layout.keeping, ground, base, state.head, *more)
    return _go_on(repository, state)


def resume(repository: Repository) -> Kept:
    """Go on with a release once the conflict in ``build/keep`` is resolved.

    :raises ConflictError: when the next topic conflicts as well, or when a file still has conflict markers.
    """
    _, _, state = ready(repository)
    return _go_on(repository, state, resolved=True)


def abandon(repository: Repository) -> None:
    """Give up what waits in ``build/keep``; what was resolved is known to the next try."""
    repository.prepare()
    waiting, ground, _, _ = _waiting(repository)
    Carrier(waiting.git, ground, (), repository.layout.discarded).remember()
    remove(repository, repository.layout.keeping)


def _waiting(repository: Repository) -> tuple[Carry, str, list[str], list[str]]:
    """Return what is being carried, on which commit, which topics, and those that are kept already."""
    found = Carry.find(repository.layout.keeping, 3)
    if found is None:
        raise UsageError("Nothing waits in build/keep: start with 'keep RELEASE TOPIC'.")
    ground, topics, stay = found.more
    return found, ground, list(filter(None, topics.split(","))), list(filter(None, stay.split(",")))


def _go_on(repository: Repository, state: State, *, resolved: bool = False) -> Kept:
    layout, (waiting, ground, topics, stay) = repository.layout, _waiting(repository)
    if waiting.head != state.head:
        raise UsageError("The patches changed since: give it up with 'keep --abort' and begin again.")
    series = read_series(layout)
    patches = [series.get(topic) for topic in topics]
    everything = [patch for patch in series if patch.topic in {p.topic for t in topics for p in series.closure(t)}]
    last = branch.commit(repository, everything, branch.Commits(state.base_commit))
    listed = repository.git.text("rev-list", "--reverse", f"{state.base_commit}..{last}").split()
    commits = dict(zip((patch.topic for patch in everything), listed, strict=True))
    applied = [Applied(patch.topic, patch.sha256, commits[patch.topic]) for patch in patches]
    copies = layout.discarded / f"keep-{waiting.base.version}"
    carrier = Carrier(waiting.git, ground, applied, copies)
    if resolved:
        carrier.end_conflict(f"edit the files in {layout.keeping}, then 'keep --continue' again")
    conflict = carrier.go_on()
    if conflict is not None:
        raise ConflictError(
            f"Salt {waiting.base.version} conflicts with {conflict}: edit the files in {layout.keeping}, then "
            "'keep --continue', or 'keep --abort', which keeps what you resolved."
        )
    return _finish(repository, waiting, ground, patches, stay)


def _finish(repository: Repository, waiting: Carry, ground: str, patches: Sequence[Patch], stay: Sequence[str]) -> Kept:
    """Write the series with the topics that were carried, and the patches that differ from the base's."""
    layout, git = repository.layout, waiting.git
    before = read_kept(layout, waiting.base.version)
    kept = [patch for patch in (before.series if before else ()) if patch.topic in stay]
    own = {patch.topic for patch in kept if before and patch.topic in before.own}
    results = git.text("rev-list", "--reverse", f"{ground}..HEAD").split()
    onto = ensure_base(repository, waiting.base)
    for patch, result in zip(patches, results, strict=True):
        chosen = patch
        if not _makes(repository, onto, (*kept, patch), result):
            chosen = _own(repository, patch, result)
            own.add(patch.topic)
            if not _makes(repository, onto, (*kept, chosen), result):
                raise ConflictError(f"The patch of {patch.topic} would not make its tree again: nothing was written.")
        kept.append(chosen)
    made = Kept(waiting.base, Series(tuple(kept)), tuple(sorted(own)))
    write_kept(layout, made)
    remove(repository, layout.keeping)
    return made


def _makes(repository: Repository, onto: str, patches: Sequence[Patch], result: str) -> bool:
    """Tell whether patches make a commit's tree of a release."""
    try:
        made = branch.commit(repository, patches, branch.Commits(onto))
    except ConflictError:
        return False
    return repository.tree(made) == repository.tree(result)


def _own(repository: Repository, patch: Patch, result: str) -> Patch:
    """Return the patch of a topic for a release: what is left to change there once its new files are laid."""
    present = repository.files(result)
    patch = patch.with_files(name for name in patch.files if name in present)
    with repository.scratch(f"{result}^") as git:
        branch.bring(repository, git, patch, {name: name for name in patch.files})
        laid = git.text("rev-parse", "HEAD")
    message = repository.git.text("log", "-1", "--format=%B", result)
    alone = repository.git.text("commit-tree", repository.tree(result), "-p", laid, feed=message.encode())
    return patch.with_changes(repository.export(alone))


# parts of a topic that no user of the code needs
BESIDE = ("doc/", "tests/")


@dataclass(frozen=True)
class Fit:
    """One topic on one release.

    `conflicts` are files of code in which git can't take it over, of whichever topic in `stopped`, it or one that it
    requires. `left_out` are files that the release does not have, and conflicts in docs and in upstream's tests: the
    topic goes without them. `written` is the patch, complete with the topic's new files, "" if it does not apply.
    `merged` says that only a merge of three versions could apply it, `kept` that it is of the series for the release,
    `commit` is the result.
    """

    topic: str
    release: str
    requires: tuple[str, ...] = ()
    stopped: str = ""
    conflicts: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
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
        return f"{how}{without}"


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
        onto = ensure_base(repository, base.learn(layout, release))
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
        cells = [row[name].verdict for name in releases]
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
        left_out: tuple[str, ...] = ()
        merged = False
        for patch in patches:
            merged = self.git.attempt("apply", "--cached", "--check", feed=patch.data).code != 0 and not patch.is_new
            left_out, conflicts = self._take(patch)
            if conflicts or self._is_without_code(patch.topic, left_out):
                return Fit(topic, release, requires, patch.topic, conflicts)
        path, made = folder / f"{topic}.patch", self.git.text("rev-parse", "HEAD")
        write_atomically(path, self.repository.export(made))
        return Fit(topic, release, requires, left_out=left_out, written=str(path), merged=merged, commit=made)

    def _kept(self, kept: Kept, topic: str, folder: Path) -> Fit:
        """Try a topic of the series that is kept for the release."""
        patches, release = kept.series.closure(topic), kept.base.version
        requires = tuple(patch.topic for patch in patches[:-1])
        self.git.run("reset", "--quiet", "--hard", self.onto)
        self.git.run("clean", "--quiet", "-ffdx")
        try:
            made = commit(self.repository, patches, Commits(self.onto))
        except ConflictError as error:
            return Fit(topic, release, requires, topic, (str(error),), kept=True)
        self.git.run("reset", "--quiet", "--hard", made)
        path = folder / f"{topic}.patch"
        write_atomically(path, self.repository.export(made))
        return Fit(topic, release, requires, written=str(path), kept=True, commit=made)

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
