"""Waiting for a condition, with a deadline.

Everything in a bed starts in its own time, so nothing waits for a fixed while: a condition is asked again until it
holds, and the error that ends a wait in vain says what was waited for. How long is long enough depends on what else the
machine does (`Deadline`) and on whether the process that is waited for makes progress (`Patience`).
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, TypeVar

from harness.errors import StartError
from harness.processes import pressure

if TYPE_CHECKING:
    from collections.abc import Callable

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
        self,
        seconds: float,
        clock: Callable[[], float] | None = None,
        pace: Callable[[], float] | None = None,
    ) -> None:
        """Set the deadline `seconds` from now, on a machine that has nothing else to do.

        With `clock` alone (such as time.monotonic: seconds, never going back) they are exactly those of the clock;
        `pace` tells what the machine gives of each second. The variable SALTBED_PATIENCE multiplies the seconds.
        """
        self.seconds = seconds * PATIENCE
        self._real = clock or time.monotonic
        self._clock = clock if clock and not pace else pressure.Clock(self._real, pace or pressure.pace)
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
        busy = f" ({pressure.told()})" if waited > 1.5 * self.seconds else ""
        return f"{waited:.0f} s{busy}"


class Patience(Deadline):
    """A deadline that is extended, up to ten times its length, as long as there is progress."""

    def __init__(
        self,
        seconds: float,
        progress: Callable[[], float],
        least: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        pace: Callable[[], float] = pressure.pace,
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
