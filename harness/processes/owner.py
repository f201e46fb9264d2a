"""Marks that tell one process apart from any other, so that what it left behind is recognised when it has ended.

A process that is killed takes no note of its end; whoever comes later asks whether its mark still stands for anyone.
"""

from __future__ import annotations

from pathlib import Path

import psutil

BOOT = Path("/proc/sys/kernel/random/boot_id")


def owner(pid: int) -> str:
    """Return what tells a process apart from any other of this machine, also after a restart."""
    return f"{BOOT.read_text(encoding='ascii').strip()}/{pid}/{psutil.Process(pid).create_time():.2f}"


def ended(mark: str) -> bool:
    """Say whether the process with this mark of `owner`, one of this machine, has ended."""
    pid = mark.split("/")[1:2]
    try:
        return not pid or owner(int(pid[0])) != mark
    except (psutil.NoSuchProcess, ValueError):
        return True
