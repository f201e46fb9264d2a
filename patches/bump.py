"""Move the patches to another release of Salt.

git rebases the topics; the range-diff shows what became of each. A conflict leaves everything as it was, unless the
user wants to resolve it: the half-done rebase then stays in ``build/bump`` until it is continued or given up.
"""

from __future__ import annotations

import itertools
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from patches import sdist
from patches.apply import build_state, is_current, make, settle, unsaved
from patches.base import Base, read_base, write_base
from patches.errors import ConflictError, ToolError, UsageError
from patches.git import Git
from patches.layout import write_atomically
from patches.patch import Patch
from patches.repository import reason
from patches.series import Series, read_series, write_series
from patches.stock import ensure_base
from patches.tree import Tree

if TYPE_CHECKING:
    from patches.repository import Repository
    from patches.state import State


@dataclass(frozen=True)
class Bumped:
    """The old and the new base, what became of the patches, and which have nothing left to change."""

    old: Base
    new: Base
    range_diff: str
    written: tuple[str, ...]
    emptied: tuple[str, ...]
    tree: str


@dataclass(frozen=True)
class Waiting:
    """A bump that stopped at a conflict: where to, and from which commit of ours."""

    base: Base
    head: str


def bump(repository: Repository, version: str, *, sha256: str | None = None, keep_conflict: bool = False) -> Bumped:
    """Rebase all topics onto another release; the caller holds the lock.

    :param sha256: hash of the release's source distribution; learnt from the first download when absent.
    :raises ConflictError: when git needs help.
    """
    layout = repository.layout
    state, series = _ready(repository)
    if _target(repository) is not None:
        raise UsageError("An earlier bump waits in build/bump: end it with 'bump --continue' or 'bump --abort'.")
    _remove(repository)
    if version == state.base.version:
        raise UsageError(f"The base is Salt {version} already: name another release.")
    target = Base(version, sha256) if sha256 is not None else sdist.learn(layout, version)
    onto = ensure_base(repository, target)
    git = repository.add_worktree(layout.bump, state.head)
    result = git.attempt(
        "rebase", "--quiet", "--empty=keep", "--reapply-cherry-picks", "--onto", onto, state.base_commit
    )
    if result.code != 0:
        raise _conflict(
            repository, git, Waiting(target, state.head), f"{result.text}\n{result.err}", keep=keep_conflict
        )
    return _finish(repository, git, state, series, target)


def resume(repository: Repository) -> Bumped:
    """Go on with a bump that stopped at a conflict, once its files are edited.

    :raises ConflictError: when the next topic conflicts as well, or when a file still has conflict markers.
    """
    state, series = _ready(repository)
    git, waiting = _waiting(repository)
    if waiting.head != state.head:
        raise UsageError("The patches changed since the bump stopped: give it up with 'bump --abort' and bump again.")
    if (git.git_dir / "rebase-merge").exists():
        marked = git.attempt("-c", "core.whitespace=", "diff", "--check")
        if "conflict marker" in marked.text:
            raise ConflictError(f"{marked.text.splitlines()[0]}: edit it, then 'bump --continue' again.")
        git.run("add", "--update")
        result = git.attempt("rebase", "--continue")
        if result.code != 0:
            raise _conflict(repository, git, waiting, f"{result.text}\n{result.err}", keep=True)
    return _finish(repository, git, state, series, waiting.base)


def abandon(repository: Repository) -> None:
    """Give up a bump that stopped at a conflict; the tree and the patches are as before it."""
    repository.prepare()
    _waiting(repository)
    _remove(repository)


def _ready(repository: Repository) -> tuple[State, Series]:
    """Check that the tree is what patches/ says, with nothing unsaved."""
    layout = repository.layout
    repository.prepare()
    tree, series = Tree(repository), read_series(layout)
    state = settle(tree)
    if state is None or not is_current(state, read_base(layout), series):
        raise UsageError("The tree is not what patches/ says: run 'nox -s apply' first.")
    edits = tree.edits()
    if edits:
        raise unsaved(layout, edits, outdated=False)
    return state, series


def _target(repository: Repository) -> tuple[Git, Waiting] | None:
    """Read where a stopped bump was going; None when there is none, or when it was killed before it could stop."""
    folder = repository.layout.bump
    try:
        link = (folder / ".git").read_text(encoding="utf-8")
        git_dir = Path(link.removeprefix("gitdir: ").strip())
        version, sha256, head = (git_dir / "saltbed-target").read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        return None
    return Git(git_dir, folder), Waiting(Base(version, sha256), head)


def _waiting(repository: Repository) -> tuple[Git, Waiting]:
    """Find the bump that stopped."""
    found = _target(repository)
    if found is None:
        raise UsageError("No bump waits for you: start one with 'bump VERSION'.")
    return found


def _conflict(repository: Repository, git: Git, waiting: Waiting, said: str, *, keep: bool) -> ConflictError:
    """Leave everything as it was, or the conflict where it can be resolved; say which and how to go on."""
    files = ", ".join(git.paths("diff", "-z", "--name-only", "--diff-filter=U")) or reason(said)
    stopped = git.attempt("log", "-1", "--format=%s", "REBASE_HEAD").text or "a topic"
    version = waiting.base.version
    what = f"'{stopped}' conflicts with Salt {version} in {files}"
    if keep:
        text = f"{version} {waiting.base.sha256} {waiting.head}\n"
        write_atomically(git.git_dir / "saltbed-target", text.encode())
        folder = repository.layout.bump
        return ConflictError(f"{what}: edit the files in {folder}, then 'bump --continue', or 'bump --abort'.")
    _remove(repository)
    return ConflictError(f"{what}; nothing was changed. To resolve it: 'nox -s bump -- {version} --keep-conflict'.")


def _finish(repository: Repository, git: Git, state: State, series: Series, target: Base) -> Bumped:
    """Write the rebased patches and the pin, and make the tree of them."""
    layout = repository.layout
    onto = ensure_base(repository, target)
    commits = git.text("rev-list", "--reverse", f"{onto}..HEAD").split()
    if len(commits) != len(series.patches):
        raise ToolError(f"The rebase has {len(commits)} commits for {len(series.patches)} topics: see {layout.bump}.")
    rebased = Series(
        tuple(Patch(topic, repository.export(commit)) for topic, commit in zip(series.topics, commits, strict=True))
    )
    # raises before anything is written when the patches do not make that tree
    new = build_state(repository, target, rebased)
    span = (f"{state.base_commit}..{state.head}", f"{new.base_commit}..{new.head}")
    range_diff = repository.git.text("range-diff", "--no-color", *span) if commits else ""
    emptied = _emptied(repository, state, new)
    _remove(repository)
    written = write_series(layout, rebased)
    write_base(layout, target)
    made = make(repository)
    return Bumped(state.base, target, range_diff, written, emptied, made.tree)


def _emptied(repository: Repository, old: State, new: State) -> tuple[str, ...]:
    """Give the topics that changed something of the old base and nothing of the new one: upstream has them."""

    def sizes(state: State) -> list[int]:
        commits = (state.base_commit, *(one.commit for one in state.applied))
        return [len(repository.changed(a, b)) for a, b in itertools.pairwise(commits)]

    pairs = zip(new.applied, sizes(old), sizes(new), strict=True)
    return tuple(one.topic for one, before, after in pairs if before and not after)


def _remove(repository: Repository) -> None:
    """Take away the bump's work tree."""
    folder = repository.layout.bump
    repository.git.attempt("worktree", "remove", "--force", "--force", str(folder))
    shutil.rmtree(folder, ignore_errors=True)
    repository.git.run("worktree", "prune", "--expire=now")
