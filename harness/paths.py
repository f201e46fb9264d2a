"""Where the project's own folders are, and how files are written that are for their owner alone."""

from __future__ import annotations

import os
from pathlib import Path

PRIVATE = 0o077
"""The umask of commands and of a bed's processes: what they write is for no other user of the machine."""

ROOT = Path(__file__).resolve().parents[1]
"""The checkout, which holds the packages `harness` and `evil_minions`."""

TREES = {"stock": ROOT / "build" / "stock", "patched": ROOT / "salt"}
"""The two trees of Salt that `nox -s apply` makes, by the names that commands and results have for them."""


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, in one step."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.touch(mode=0o600)
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


def shown_path(path: Path) -> str:
    """Return a path as short as the working folder allows."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
