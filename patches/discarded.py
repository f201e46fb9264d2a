"""Copies of what a command is about to overwrite and nobody has committed: in ``build/discarded``."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from patches.checkout import is_known
from patches.layout import write_atomically

if TYPE_CHECKING:
    from pathlib import Path

    from patches.layout import Layout


def keep(layout: Layout, topic: str, data: bytes) -> Path | None:
    """Copy a patch unless the project's git has it; give the copy's path."""
    if is_known(layout, data):
        return None
    path = layout.discarded / f"{topic}-{hashlib.sha256(data).hexdigest()[:12]}.patch"
    write_atomically(path, data)
    return path
