"""Take a topic out of the patch set, with its changes of upstream's files and its new files.

git applies the other topics without it first, so that nothing is touched when one of them needs it. A copy of what
goes stays in ``build/discarded``: nobody has to commit before.
"""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patches.apply import build_state, make, ready
from patches.errors import ConflictError, UsageError
from patches.patch import Patch
from patches.repository import reason
from patches.series import Series, keep_uncommitted, read_series, write_series

if TYPE_CHECKING:
    from pathlib import Path

    from patches.layout import Layout
    from patches.repository import Repository
    from patches.state import State


@dataclass(frozen=True)
class Dropped:
    """The topic that is gone, the new files that went with it, other patches that changed, and where a copy is."""

    topic: str
    files: tuple[str, ...]
    written: tuple[str, ...]
    copy: str
    tree: str


def drop(repository: Repository, topic: str) -> Dropped:
    """Drop a topic; the caller holds the lock.

    :raises UsageError: when there is no such topic, or when another one requires it.
    :raises UnsavedEditsError: when the tree has edits that belong to no patch yet.
    :raises ConflictError: when a later topic changes the same lines; nothing is changed then.
    """
    layout = repository.layout
    patch = read_series(layout).get(topic)
    _, series, state = ready(repository)
    needing = [other.topic for other in series if topic in other.requires]
    if needing:
        raise UsageError(f"{', '.join(needing)} requires '{topic}': drop that first, or change its 'Requires:'.")
    commits = _rebase(repository, state, topic)
    # line numbers and blob ids change in the patches that come after it
    left = Series(tuple(Patch(name, repository.export(commit)) for name, commit in commits.items()))
    wanted = repository.tree([state.base_commit, *commits.values()][-1])
    if repository.tree(build_state(repository, state.base, left).head) != wanted:
        raise ConflictError(f"The patches without '{topic}' would not make their own tree: nothing was changed.")
    kept = _keep(layout, patch)
    keep_uncommitted(layout, left)
    written = write_series(layout, left)
    for name in patch.files:
        _remove(layout, name)
    return Dropped(topic, patch.files, written, str(kept), make(repository).tree)


def _rebase(repository: Repository, state: State, topic: str) -> dict[str, str]:
    """Move the later topics to before this one; give the commit of each topic that is left, in order.

    :raises ConflictError: when one of them changes lines that this one wrote.
    """
    commits = {one.topic: one.commit for one in state.applied}
    names = list(commits)
    place = names.index(topic)
    before = commits[names[place - 1]] if place else state.base_commit
    with repository.scratch(state.head) as git:
        keep = ("--empty=keep", "--reapply-cherry-picks")
        result = git.attempt("rebase", "--quiet", *keep, "--onto", before, commits[topic])
        if result.code != 0:
            files = ", ".join(git.paths("diff", "-z", "--name-only", "--diff-filter=U")) or reason(result.err)
            later = names[place + 1 + int(git.text("rev-list", "--count", f"{before}..HEAD"))]
            git.attempt("rebase", "--abort")
            raise ConflictError(
                f"'{topic}' can't go alone: '{later}' changes the same lines of {files}, so drop that first, or take "
                "the lines out of both by hand. Nothing was changed."
            )
        listed = git.text("rev-list", "--reverse", f"{state.base_commit}..HEAD").split()
    return dict(zip((name for name in names if name != topic), listed, strict=True))


def _keep(layout: Layout, patch: Patch) -> Path:
    """Copy a patch and its new files to a folder of their own; give that."""
    folder = layout.discarded / f"{patch.topic}-{patch.sha256[:12]}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(layout.patch(patch.topic), folder)
    for name in patch.files:
        if (layout.salt / name).is_file():
            target = folder / "salt" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(layout.salt / name, target)
    return folder


def _remove(layout: Layout, name: str) -> None:
    """Delete a new file, and the folders that it alone kept; upstream's empty ones stay."""
    path = layout.salt / name
    path.unlink(missing_ok=True)
    for folder in path.relative_to(layout.salt).parents:
        if not folder.parts or (layout.stock / folder).is_dir():
            return
        shutil.rmtree(layout.salt / folder / "__pycache__", ignore_errors=True)
        with contextlib.suppress(OSError):
            (layout.salt / folder).rmdir()
