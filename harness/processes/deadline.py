"""Waiting for a condition, with a deadline.

Everything in a bed starts in its own time, so nothing waits for a fixed while: a condition is asked again until it
holds, and the error that ends a wait in vain says what was waited for.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, TypeVar

from harness.errors import StartError

if TYPE_CHECKING:
    from collections.abc import Callable

Answer = TypeVar("Answer")
PAUSE_S = 0.05
# for a machine that is slow or has much else to do: what every deadline is multiplied by
PATIENCE = float(os.environ.get("SALTBED_PATIENCE", "1"))


class Deadline:
    """A point in time that a sequence of waits shares."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Set the deadline `seconds` from now, as told by `clock` (seconds, never going back).

        The variable SALTBED_PATIENCE multiplies them.
        """
        self.seconds = seconds * PATIENCE
        self._clock = clock
        self._at = clock() + self.seconds

    def left(self) -> float:
        """Return the seconds that are left, zero once the deadline has passed."""
        return max(0.0, self._at - self._clock())

    def passed(self) -> bool:
        """Say whether the deadline has passed."""
        return self.left() == 0.0


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
