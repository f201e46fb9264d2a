"""What each tree of Salt in a run really was: a hash of its files, and which of them somebody had edited.

The project's git knows nothing of upstream's files, so a commit alone does not say what ran.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from harness.processes.process import PACKAGES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

# the tree that the patches are applied to, and the command that tells its edits
PATCHED = PACKAGES / "salt"
STATUS = (sys.executable, "-m", "patches", "status", "--json")
# far beyond what it takes: this is for one that hangs
STATUS_S = 600.0
# of its answer: files of upstream's that were edited, and those of ours that are new, gone or changed
DIFFERENT = ("edits", "new_files", "missing_files", "changed_files")
# of a tree: the package and its commands; of an environment: the package
_PARTS = ("salt", "scripts", "lib/python*/site-packages/salt")


def facts(trees: Mapping[str, Path]) -> dict[str, dict[str, Any]]:
    """Return the hash of each tree (name: folder) and its `edited` files, None where nobody keeps count of edits."""
    return {
        name: {"hash": content_hash(folder), "edited": edits() if folder == PATCHED else None}
        for name, folder in trees.items()
    }


def content_hash(folder: Path) -> str:
    """Return the SHA-256 of the names and contents of all files that run; "" if there are none."""
    total = hashlib.sha256()
    names = sorted(_files(folder))
    for name in names:
        total.update(f"{name}\0{hashlib.sha256((folder / name).read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest() if names else ""


def edits() -> list[str] | None:
    """Return the files of the patched tree that differ from what its patches make, None if that can't be told."""
    told = _run(*STATUS)
    ours = _run("git", "status", "--porcelain", "--untracked-files=all", "--", "salt")
    if told is None or ours is None:
        return None
    try:
        answer = json.loads(told)
        found = {path for key in DIFFERENT if key in answer for path in answer[key]}
    except (ValueError, TypeError):
        return None
    if "edits" not in answer:
        return None
    return sorted(found | {line[3:].removeprefix("salt/") for line in ours.splitlines()})


def told(name: str, facts: Mapping[str, Any]) -> str:
    """Return the facts of one tree in words."""
    edited = facts.get("edited")
    words = "edits unknown" if edited is None else f"edited: {', '.join(edited)}" if edited else "not edited"
    return f"{name}: tree {str(facts.get('hash') or 'unknown')[:12]}, {words}"


def _files(folder: Path) -> Iterator[str]:
    for part in _PARTS:
        for top in folder.glob(part):
            for path in top.rglob("*"):
                if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc":
                    yield path.relative_to(folder).as_posix()


def _run(*command: str) -> str | None:
    """Return what a command prints, None if it fails."""
    try:
        done = subprocess.run(command, cwd=PACKAGES, capture_output=True, text=True, check=False, timeout=STATUS_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
