"""Waiting for a condition, with a deadline.

Everything in a bed starts in its own time, so nothing waits for a fixed while: a condition is asked again until it
holds, and the error that ends a wait in vain says what was waited for. How long is long enough depends on what else the
machine does (`Deadline`) and on whether the process that is waited for makes progress (`Patience`).

A fixed minute is ample on a quiet machine and too short beside ten busy loops. What a process gets of a second depends
on how many others want the same cores, and on how long everybody waits for a disk.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from harness.errors import StartError

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


def describe() -> str:
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


Answer = TypeVar("Answer")
PAUSE_S = 0.05
# how long a wait in the kernel lasts before its deadline is looked at
SLICE_S = 0.5
# every deadline is multiplied by this, which a user may set
PATIENCE = float(os.environ.get("SALTBED_PATIENCE", "1"))
# no wait lasts longer than so many times its seconds, however busy the machine is
CEILING = 10.0
# the share of a wait, at its end, in which there has to be no progress before it fails
WINDOW = 1 / 6
# how many times progress is looked for in that share
LOOKS = 5
# CPU time that counts as progress, in cores; an idle master uses less
LEAST_CORES = 0.025


class Deadline:
    """A point in time that several waits share; it is later on a busy machine."""

    def __init__(
        self, seconds: float, clock: Callable[[], float] | None = None, share: Callable[[], float] | None = None
    ) -> None:
        """Set the deadline `seconds` from now, on a machine that has nothing else to do.

        With `clock` alone (such as time.monotonic: seconds, never going back) they are exactly those of the clock;
        `share` tells what the machine gives of each second. The variable SALTBED_PATIENCE multiplies the seconds.
        """
        self.seconds = seconds * PATIENCE
        self._real = clock or time.monotonic
        self._clock = clock if clock and not share else Clock(self._real, share or pace)
        self._start = self._real()
        self._at = self._clock() + self.seconds

    def left(self) -> float:
        """Return the seconds that are left, zero once the deadline has passed."""
        return max(0.0, self._at - self._clock())

    def passed(self) -> bool:
        """Say whether the deadline has passed."""
        return self.left() == 0.0

    def waited(self) -> str:
        """Return the real time since the deadline was set, in words: with the reason where it is long."""
        waited = self._real() - self._start
        busy = f" ({describe()})" if waited > 1.5 * self.seconds else ""
        return f"{waited:.0f} s{busy}"


class Patience(Deadline):
    """A deadline that is extended, up to ten times its length, as long as there is progress."""

    def __init__(
        self,
        seconds: float,
        progress: Callable[[], float],
        least: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        pace: Callable[[], float] = pace,
    ) -> None:
        """Wait `seconds` on a quiet machine, and on while `progress` rises by `least` within a sixth of that time.

        By default progress is CPU time in seconds, and the least is a fortieth of a core.
        """
        super().__init__(seconds, clock, pace)
        self._ceiling = self._start + CEILING * self.seconds
        self._window = WINDOW * self.seconds
        self._least = LEAST_CORES * self._window if least is None else least
        self._progress = progress
        self._value = progress()
        self._moved = self._looked = self._start

    def left(self) -> float:
        """Return the seconds that are left if nothing happens, zero once the deadline has passed."""
        now = self._real()
        rest = super().left()
        if now - self._looked >= self._window / LOOKS:
            self._looked = now
            value = self._progress()
            if value - self._value >= self._least:
                self._value, self._moved = value, now
        rest = max(rest, self._moved + self._window - now)
        return max(0.0, min(rest, self._ceiling - now))


def until(
    condition: Callable[[], Answer | None],
    deadline: Deadline,
    failure: Callable[[], str],
    pause: Callable[[float], None] = time.sleep,
) -> Answer:
    """Return the first true answer of `condition`; raise StartError when the deadline passes.

    `failure` gives the error's sentence. The condition is asked at least once, and again every 50 ms.
    """
    while True:
        last = deadline.passed()
        answer = condition()
        if answer:
            return answer
        if last:
            raise StartError(failure())
        pause(min(PAUSE_S, deadline.left()))
