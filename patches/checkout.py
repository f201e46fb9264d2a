"""The project's own git checkout: which of our files it tracks, and which differ from its last commit."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from patches.git import decode
from patches.layout import EXTENSIONS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from patches.layout import Layout


def tracked_files(layout: Layout) -> tuple[str, ...] | None:
    """Give the files below ``salt/`` that the project's git tracks; None when this is not its checkout."""
    return _paths(layout, "ls-files", "-z")


def changed_files(layout: Layout) -> tuple[str, ...]:
    """Give the tracked files below ``salt/`` that are not as last committed, as far as the project's git can say."""
    return _paths(layout, "diff", "--name-only", "--no-renames", "--no-ext-diff", "-z", "HEAD") or ()


def uncommitted(layout: Layout, paths: Iterable[str]) -> tuple[str, ...]:
    """Give those of some paths, relative to the project, that are not as last committed, or not committed at all.

    Empty when this is not a checkout: there is nothing to compare with.
    """
    listed = _git(layout, "status", "--porcelain=v1", "--untracked-files=all", "--no-renames", "-z", "--", *paths)
    return tuple(decode(line[3:]) for line in (listed or b"").split(b"\0") if line)


def is_known(layout: Layout, data: bytes) -> bool:
    """Tell whether the project's git has these bytes as a file: committed, staged or stashed, on whatever branch."""
    digest = _git(layout, "hash-object", "--stdin", feed=data)
    return digest is not None and _git(layout, "cat-file", "-e", decode(digest.strip())) is not None


def _paths(layout: Layout, *command: str) -> tuple[str, ...] | None:
    """Run a git command that lists paths; None when this is not a checkout, or has no commit yet."""
    listed = _git(layout, *command, "--", "salt")
    if listed is None:
        return None
    names = (decode(name).removeprefix("salt/") for name in listed.split(b"\0") if name)
    return tuple(name for name in names if not name.startswith(f"{EXTENSIONS}/"))


def _git(layout: Layout, *command: str, feed: bytes = b"") -> bytes | None:
    """Run the project's own git; None when this is not its checkout, or when it fails."""
    outer = ["git", "-C", str(layout.root)]
    # the user's configuration, but no GIT_* of a calling git
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    top = subprocess.run([*outer, "rev-parse", "--show-cdup"], capture_output=True, check=False, env=env)
    if top.returncode != 0 or top.stdout.strip():
        return None
    ended = subprocess.run([*outer, *command], input=feed, capture_output=True, check=False, env=env)
    return ended.stdout if ended.returncode == 0 else None
