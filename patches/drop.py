"""Take a topic out of the patch set, with its changes of upstream's files and its new files.

git applies the other topics without it first, so that nothing is touched when one of them needs it. A copy of what
goes stays in ``build/discarded``: nobody has to commit before.
"""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patches.apply import build_state, is_current, make, settle, unsaved
from patches.base import read_base
from patches.errors import ConflictError, UsageError
from patches.patch import Patch
from patches.series import Series, read_series, write_series
from patches.tree import Tree

if TYPE_CHECKING:
    from pathlib import Path

    from patches.layout import Layout
    from patches.repository import Repository


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
    repository.prepare()
    tree, base, series = Tree(repository), read_base(layout), read_series(layout)
    patch = series.get(topic)
    needing = [other.topic for other in series if topic in other.requires]
    if needing:
        raise UsageError(f"{', '.join(needing)} requires '{topic}': drop that first, or change its 'Requires:'.")
    state = settle(tree)
    if state is None or not is_current(state, base, series):
        raise UsageError("The tree is not what patches/ says: run 'nox -s apply' first.")
    edits = tree.edits()
    if edits:
        raise unsaved(layout, edits, outdated=False)
    try:
        built = build_state(repository, base, Series(tuple(other for other in series if other.topic != topic)))
    except ConflictError as error:
        raise ConflictError(f"'{topic}' can't go alone, as a later topic builds on its lines: {error}") from None
    # line numbers and blob ids change in the patches that come after it
    left = Series(tuple(Patch(one.topic, repository.export(one.commit)) for one in built.applied))
    again = build_state(repository, base, left)
    if repository.tree(again.head) != repository.tree(built.head):
        raise ConflictError(f"The patches without '{topic}' would not make their own tree: nothing was changed.")
    kept = _keep(layout, patch)
    written = write_series(layout, left)
    for name in patch.files:
        _remove(layout, name)
    return Dropped(topic, patch.files, written, str(kept), make(repository).tree)


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
