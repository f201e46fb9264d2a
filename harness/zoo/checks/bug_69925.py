"""Bug 69925: minions send encrypted requests to a master with one pool of workers."""

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
    wrong = [] if work.arrived == requests.REQUESTS else [f"{work.arrived} of {requests.REQUESTS} requests arrived"]
    if work.decrypted:
        wrong.append(f"the queue decrypted {work.decrypted} of {requests.REQUESTS} requests")
    if work.unpacked:
        wrong.append(f"the queue unpacked {work.unpacked} times for {requests.REQUESTS} requests")
    return wrong
