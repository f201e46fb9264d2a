"""Bug 69926: minions send encrypted requests to a master with one pool of workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.zoo import requests

if TYPE_CHECKING:
    from pathlib import Path


def check(folder: Path) -> list[str] | None:
    """Return what is wrong, None without pools of workers."""
    work = requests.passed(folder)
    if work is None:
        return None
    return [f"{work.ciphers} cipher objects for {requests.REQUESTS} requests"] if work.ciphers > 1 else []
