"""The project's own git checkout: which of our files it tracks, and which differ from its last commit."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from patches.git import decode
from patches.layout import EXTENSIONS

if TYPE_CHECKING:
    from patches.layout import Layout


def tracked_files(layout: Layout) -> tuple[str, ...] | None:
    """Give the files below ``salt/`` that the project's git tracks; None when this is not its checkout."""
    return _paths(layout, "ls-files", "-z")


def changed_files(layout: Layout) -> tuple[str, ...]:
    """Give the tracked files below ``salt/`` that are not as last committed, as far as the project's git can say."""
    return _paths(layout, "diff", "--name-only", "--no-renames", "--no-ext-diff", "-z", "HEAD") or ()


def _paths(layout: Layout, *command: str) -> tuple[str, ...] | None:
    """Run a git command that lists paths; None when this is not a checkout, or has no commit yet."""
    outer = ["git", "-C", str(layout.root)]
    # the user's configuration, but no GIT_* of a calling git
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    top = subprocess.run([*outer, "rev-parse", "--show-cdup"], capture_output=True, check=False, env=env)
    if top.returncode != 0 or top.stdout.strip():
        return None
    listed = subprocess.run([*outer, *command, "--", "salt"], capture_output=True, check=False, env=env)
    if listed.returncode != 0:
        return None
    names = (decode(name).removeprefix("salt/") for name in listed.stdout.split(b"\0") if name)
    return tuple(name for name in names if not name.startswith(f"{EXTENSIONS}/"))
