"""Move the patches to another release of Salt.

Topics are carried over one after the other; the range-diff shows what became of each. All conflicts are named at once,
and leave everything as it was, unless the user wants to resolve them: the half-done bump then stays in ``build/bump``
until it is continued or given up, and what was resolved is known to the next try.
"""

from __future__ import annotations

import itertools
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patches import base
from patches.apply import build_state, ensure_base, make, ready, settle, unsaved
from patches.base import Base, write_base
from patches.carry import Carrier, Carry, remove
from patches.errors import ConflictError, ToolError, UsageError
from patches.patch import Patch
from patches.series import Series, keep_uncommitted, read_series, write_series
from patches.tree import Tree

if TYPE_CHECKING:
    from pathlib import Path

    from patches.carry import LeftOut
    from patches.repository import Repository
    from patches.state import State

COMMAND = "bump"


@dataclass(frozen=True)
class Bumped:
    """The old and the new base, what became of the patches, and which have nothing left to change.

    `left_out` are files that the release does not have, `copies` are patches that were overwritten before anybody
    committed them.
    """

    old: Base
    new: Base
    range_diff: str
    written: tuple[str, ...]
    emptied: tuple[str, ...]
    tree: str
    left_out: tuple[LeftOut, ...] = ()
    copies: tuple[str, ...] = ()


def bump(repository: Repository, version: str, *, sha256: str | None = None, keep_conflict: bool = False) -> Bumped:
    """Carry all topics over to another release; the caller holds the lock.

    Args:
        sha256: hash of the release's source distribution; learnt from the first download when absent.
        keep_conflict: leave the first conflict in ``build/bump``, to be resolved.

    Raises:
        ConflictError: when git needs help; all conflicts are named.
    """
    layout = repository.layout
    repository.prepare()
    Carry.make_room(repository, COMMAND)
    _, series, state = ready(repository)
    if version == state.base.version:
        raise UsageError(f"The base is Salt {version} already: name another release.")
    target = Base(version, sha256) if sha256 is not None else base.learn(layout, version)
    onto = ensure_base(repository, target)
    _refuse_taken(repository, series, target, onto)
    shutil.rmtree(_copies(repository, target), ignore_errors=True)
    with repository.scratch(onto) as git:
        conflicts = Carrier(git, onto, state.applied, git.work_tree.with_name("copies")).conflicts()
    if conflicts and not keep_conflict:
        raise ConflictError(
            f"Salt {version} conflicts with {'; '.join(map(str, conflicts))}; nothing was changed. To resolve it: "
            f"'nox -s bump -- {version} --keep-conflict'."
        )
    carry = Carry.begin(repository, COMMAND, onto, target, state.head)
    carrier = Carrier(carry.git, onto, state.applied, _copies(repository, target))
    carry.go_on(carrier, known=conflicts)
    return _finish(repository, carry, carrier, state)


def resume(repository: Repository) -> Bumped:
    """Go on with a bump that stopped at a conflict, once its files are edited, or that was killed.

    Raises:
        ConflictError: when the next topic conflicts as well, or when a file still has conflict markers.
    """
    repository.prepare()
    carry = Carry.waiting(repository, COMMAND)
    tree = Tree(repository)
    state = settle(tree)
    if state is None or carry.head != state.head:
        raise carry.changed()
    edits = tree.edits()
    if edits:
        raise unsaved(repository.layout, edits, outdated=False)
    onto = ensure_base(repository, carry.base)
    carrier = Carrier(carry.git, onto, state.applied, _copies(repository, carry.base))
    carry.go_on(carrier, resolved=True)
    return _finish(repository, carry, carrier, state)


def _copies(repository: Repository, target: Base) -> Path:
    """Name the folder for what topics go without on a release."""
    return repository.layout.discarded / f"bump-{target.version}"


def _refuse_taken(repository: Repository, series: Series, target: Base, onto: str) -> None:
    """Raise ConflictError for a release that has files which topics bring as new."""
    upstream = repository.files(onto)
    taken = [f"{name} ({patch.topic})" for patch in series for name in patch.files if name in upstream]
    if taken:
        raise ConflictError(
            f"Salt {target.version} has files that topics bring as new: {', '.join(taken)}. Move what is ours into the "
            "patch and take the file out of its trailers. Nothing was changed."
        )


def _finish(repository: Repository, carry: Carry, carrier: Carrier, state: State) -> Bumped:
    """Write the rebased patches and the pin, and make the tree of them.

    Raises:
        UsageError: when a patch on disk is neither the one that was carried over nor what became of it.
    """
    layout, target, commits = repository.layout, carry.base, carrier.commits()
    if len(commits) != len(state.applied):
        raise ToolError(
            f"The bump has {len(commits)} commits for {len(state.applied)} topics: see {carry.git.work_tree}."
        )
    pairs = tuple(zip(state.applied, commits, strict=True))
    rebased = Series(tuple(Patch(one.topic, repository.export(commit)) for one, commit in pairs))
    on_disk = dict(read_series(layout).sources)
    if any(
        on_disk.get(one.topic) not in {old.sha256, one.sha256} for old, one in zip(state.applied, rebased, strict=True)
    ):
        raise carry.changed()
    # raises before anything is written when the patches do not make that tree
    new = build_state(repository, target, rebased)
    span = (f"{state.base_commit}..{state.head}", f"{new.base_commit}..{new.head}")
    range_diff = repository.git.text("range-diff", "--no-color", *span) if commits else ""
    emptied, left_out = _emptied(repository, state, new), carrier.left_out()
    copies = keep_uncommitted(layout, rebased)
    written = write_series(layout, rebased)
    write_base(layout, target)
    # removed last: a command that is killed before can be continued
    remove(repository, COMMAND)
    made = make(repository)
    return Bumped(state.base, target, range_diff, written, emptied, made.tree, left_out, copies)


def _emptied(repository: Repository, old: State, new: State) -> tuple[str, ...]:
    """Return the topics that changed something of the old base and nothing of the new one: upstream has them."""

    def sizes(state: State) -> list[int]:
        commits = (state.base_commit, *(one.commit for one in state.applied))
        return [len(repository.changed(a, b)) for a, b in itertools.pairwise(commits)]

    pairs = zip(new.applied, sizes(old), sizes(new), strict=True)
    return tuple(one.topic for one, before, after in pairs if before and not after)
