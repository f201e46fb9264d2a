"""Full patches, each with its topic's new files, and their order: for distributions, quilt and `git quiltimport`."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patches.apply import ensure_base, ready
from patches.branch import Commits, commit
from patches.errors import UsageError
from patches.kept import require_kept
from patches.layout import write_atomically

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from patches.repository import Repository

SERIES = "series"


@dataclass(frozen=True)
class Exported:
    """The patches in their order, the file that lists them, and the tree that they make of the base."""

    base: str
    topics: tuple[str, ...]
    series: str
    patches: tuple[str, ...]
    tree: str


def export(
    repository: Repository, topics: Sequence[str], output: Path, *, code: bool = False, release: str | None = None
) -> Exported:
    """Write topics (all if none is named), after what they require, to a folder; the caller holds the lock.

    Args:
        code: leave out tests, docs and changelog: what is left goes onto an installed Salt.
        release: another release than the base, for which a series is kept.

    Raises:
        UsageError: when there is no such topic or series, or when the folder holds something else.
        UnsavedEditsError: when the tree has edits that the patches would lack.
    """
    _, series, state = ready(repository)
    base, onto = state.base, state.base_commit
    if release is not None and release != base.version:
        found = require_kept(repository.layout, release)
        series, base = found.series, found.base
        onto = ensure_base(repository, base)
    wanted = {patch.topic for topic in topics or series.topics for patch in series.closure(topic)}
    patches = tuple(patch for patch in series if patch.topic in wanted and not patch.is_empty)
    if output.exists() and not (output / SERIES).is_file() and any(output.iterdir()):
        raise UsageError(f"{output} holds something else: name another folder.")
    commits = commit(repository, patches, Commits(onto))
    shutil.rmtree(output, ignore_errors=True)
    only = ("--", "salt/") if code else ()
    listed = []
    for patch, one in zip(patches, commits, strict=True):
        data = repository.export(one, *only)
        if b"\ndiff --git " in data:
            write_atomically(output / f"{patch.topic}.patch", data)
            listed.append(patch.topic)
    write_atomically(output / SERIES, "".join(f"{topic}.patch\n" for topic in listed).encode())
    paths = tuple(str(output / f"{topic}.patch") for topic in listed)
    return Exported(base.version, tuple(listed), str(output / SERIES), paths, repository.tree((onto, *commits)[-1]))
