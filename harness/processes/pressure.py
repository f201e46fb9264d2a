"""How fast a machine gets on with a process's work: for waits that must not end because it has much else to do.

A fixed minute is ample on a quiet machine and too short beside ten busy loops. What a process gets of a second depends
on how many others want the same cores, and on how long everybody waits for a disk.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LOAD = Path("/proc/loadavg")
STALLS = Path("/proc/pressure/io")
# so that no wait grows without end
SLOWEST = 0.1


def pace(load: Path = LOAD, stalls: Path = STALLS, cores: int = 0) -> float:
    """Return the share of a second, from 0.1 to 1, that a process which wants all of it gets at present.

    `load` and `stalls` are the kernel's files, `cores` is the number of cores, by default those that this process may
    use.
    """
    running = int(load.read_text(encoding="ascii").split()[3].partition("/")[0])
    count = cores or len(os.sched_getaffinity(0))
    # the process that reads the file is one of the running ones
    share = min(1.0, count / max(1, running - 1))
    return max(SLOWEST, share * (1 - _stalled(stalls)))


def told() -> str:
    """Return how busy the machine is in words."""
    cores = len(os.sched_getaffinity(0))
    return f"load average {os.getloadavg()[0]:.1f} on {cores} core{'s' if cores > 1 else ''}"


def patient(seconds: float) -> float:
    """Return how long to wait now for what takes up to `seconds` on a quiet machine."""
    return seconds / pace()


class Clock:
    """A clock that runs slower on a busy machine: it counts the seconds that a process gets."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, pace: Callable[[], float] = pace) -> None:
        """Start at zero. `clock` tells real seconds, `pace` what the machine gives of each now."""
        self._clock = clock
        self._pace = pace
        self._last = clock()
        self._seconds = 0.0

    def __call__(self) -> float:
        """Return the seconds so far; each call counts the time since the last one at the pace of now."""
        now = self._clock()
        if now > self._last:
            self._seconds += (now - self._last) * self._pace()
            self._last = now
        return self._seconds


def _stalled(path: Path) -> float:
    """Return the share of the last ten seconds in which all that wanted to work waited for a disk."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
        return next(float(line.split()[1].partition("=")[2]) / 100 for line in lines if line.startswith("full"))
    except (OSError, StopIteration):
        # a kernel that keeps no such account
        return 0.0
