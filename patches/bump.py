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
from patches.carry import Carrier, Carry, Conflict, remove
from patches.errors import ConflictError, ToolError, UsageError
from patches.patch import Patch
from patches.series import Series, keep_uncommitted, read_series, write_series
from patches.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from patches.carry import LeftOut
    from patches.repository import Repository
    from patches.state import State


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

    :param sha256: hash of the release's source distribution; learnt from the first download when absent.
    :param keep_conflict: leave the first conflict in ``build/bump``, to be resolved.
    :raises ConflictError: when git needs help; all conflicts are named.
    """
    layout = repository.layout
    repository.prepare()
    if Carry.find(layout.bump) is not None:
        raise UsageError("An earlier bump waits in build/bump: end it with 'bump --continue' or 'bump --abort'.")
    _, series, state = ready(repository)
    remove(repository, layout.bump)
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
            f"Salt {version} conflicts with {_named(conflicts)}; nothing was changed. To resolve it: "
            f"'nox -s bump -- {version} --keep-conflict'."
        )
    git = Carry.begin(repository, layout.bump, onto, target, state.head)
    carrier = Carrier(git, onto, state.applied, _copies(repository, target))
    return _go_on(repository, carrier, state, target, conflicts)


def resume(repository: Repository) -> Bumped:
    """Go on with a bump that stopped at a conflict, once its files are edited, or that was killed.

    :raises ConflictError: when the next topic conflicts as well, or when a file still has conflict markers.
    """
    repository.prepare()
    waiting = _waiting(repository)
    tree = Tree(repository)
    state = settle(tree)
    if state is None or waiting.head != state.head:
        raise UsageError("The patches changed since the bump stopped: give it up with 'bump --abort' and bump again.")
    edits = tree.edits()
    if edits:
        raise unsaved(repository.layout, edits, outdated=False)
    onto = ensure_base(repository, waiting.base)
    carrier = Carrier(waiting.git, onto, state.applied, _copies(repository, waiting.base))
    carrier.end_conflict(f"edit the files in {repository.layout.bump}, then 'bump --continue' again")
    return _go_on(repository, carrier, state, waiting.base)


def abandon(repository: Repository, *, forget: bool = False) -> None:
    """Give up a bump that stopped at a conflict; the tree and the patches are as before it.

    What was resolved is known to the next try.

    :param forget: forget it.
    """
    repository.prepare()
    waiting = _waiting(repository)
    Carrier(waiting.git, waiting.head, (), repository.layout.discarded).remember()
    remove(repository, repository.layout.bump)
    if forget:
        shutil.rmtree(repository.layout.git_dir / "rr-cache", ignore_errors=True)


def _go_on(
    repository: Repository, carrier: Carrier, state: State, target: Base, known: Iterable[Conflict] = ()
) -> Bumped:
    """Carry the next topics over; stop at a conflict, or finish.

    :param known: the conflicts that are known to lie ahead.
    """
    conflict = carrier.go_on()
    if conflict is None:
        return _finish(repository, carrier, state, target)
    later = [one for one in known if one.topic != conflict.topic]
    more = f" (then {_named(later)})" if later else ""
    raise ConflictError(
        f"Salt {target.version} conflicts with {conflict}{more}: edit the files in {repository.layout.bump}, then "
        "'bump --continue', or 'bump --abort', which keeps what you resolved."
    )


def _named(conflicts: Iterable[Conflict]) -> str:
    return "; ".join(map(str, conflicts))


def _copies(repository: Repository, target: Base) -> Path:
    """Name the folder for what topics go without on a release."""
    return repository.layout.discarded / f"bump-{target.version}"


def _refuse_taken(repository: Repository, series: Series, target: Base, onto: str) -> None:
    """Refuse a release that has files which topics bring as new.

    :raises ConflictError: with all of them.
    """
    upstream = repository.files(onto)
    taken = [f"{name} ({patch.topic})" for patch in series for name in patch.files if name in upstream]
    if taken:
        raise ConflictError(
            f"Salt {target.version} has files that topics bring as new: {', '.join(taken)}. Move what is ours into the "
            "patch and take the file out of its trailers. Nothing was changed."
        )


def _waiting(repository: Repository) -> Carry:
    """Find the bump that stopped."""
    found = Carry.find(repository.layout.bump)
    if found is None:
        raise UsageError("No bump waits for you: start one with 'bump VERSION'.")
    return found


def _finish(repository: Repository, carrier: Carrier, state: State, target: Base) -> Bumped:
    """Write the rebased patches and the pin, and make the tree of them.

    :raises UsageError: when a patch on disk is neither the one that was carried over nor what became of it.
    """
    layout, git, onto = repository.layout, carrier.git, carrier.onto
    commits = git.text("rev-list", "--reverse", f"{onto}..HEAD").split()
    if len(commits) != len(state.applied):
        raise ToolError(f"The bump has {len(commits)} commits for {len(state.applied)} topics: see {layout.bump}.")
    pairs = tuple(zip(state.applied, commits, strict=True))
    rebased = Series(tuple(Patch(one.topic, repository.export(commit)) for one, commit in pairs))
    on_disk = dict(read_series(layout).sources)
    if any(
        on_disk.get(one.topic) not in {old.sha256, one.sha256} for old, one in zip(state.applied, rebased, strict=True)
    ):
        raise UsageError("The patches changed since the bump stopped: give it up with 'bump --abort' and bump again.")
    # raises before anything is written when the patches do not make that tree
    new = build_state(repository, target, rebased)
    span = (f"{state.base_commit}..{state.head}", f"{new.base_commit}..{new.head}")
    range_diff = repository.git.text("range-diff", "--no-color", *span) if commits else ""
    emptied, left_out = _emptied(repository, state, new), carrier.left_out()
    copies = keep_uncommitted(layout, rebased)
    written = write_series(layout, rebased)
    write_base(layout, target)
    # removed last: a command that is killed before can be continued
    remove(repository, layout.bump)
    made = make(repository)
    return Bumped(state.base, target, range_diff, written, emptied, made.tree, left_out, copies)


def _emptied(repository: Repository, old: State, new: State) -> tuple[str, ...]:
    """Return the topics that changed something of the old base and nothing of the new one: upstream has them."""

    def sizes(state: State) -> list[int]:
        commits = (state.base_commit, *(one.commit for one in state.applied))
        return [len(repository.changed(a, b)) for a, b in itertools.pairwise(commits)]

    pairs = zip(new.applied, sizes(old), sizes(new), strict=True)
    return tuple(one.topic for one, before, after in pairs if before and not after)
