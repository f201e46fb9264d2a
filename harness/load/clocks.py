"""Clocks of several machines: how far another one is from ours, measured over an existing connection.

The other side is asked for the time several times. It read its clock at some time between question and answer, so half
of the round trip is the largest error; the quickest round trip is the best one. A difference that is smaller than its
error counts as none: the clocks of two containers on one machine are the same.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.samples.rows import ClockSample

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 9


@dataclass(frozen=True)
class Offset:
    """How many `seconds` another clock is ahead of ours, give or take `error`."""

    seconds: float
    error: float

    @property
    def correction(self) -> float:
        """Return the seconds to subtract from times of the other clock: none that could be an error of measurement."""
        return self.seconds if abs(self.seconds) > self.error else 0.0

    def sample(self, name: str, later: Offset) -> ClockSample:
        """Return the row of the machine `name`; `later` was measured at the end of the run."""
        drift = later.seconds - self.seconds
        if abs(drift) <= self.error + later.error:
            drift = 0.0
        return ClockSample(name, self.correction, self.error, drift)


def of_answers(answers: list[tuple[float, float, float]]) -> Offset:
    """Return the offset from (asked, the other's time, answered): seconds since the epoch, by ours, theirs and ours."""
    asked, other, answered = min(answers, key=lambda answer: answer[2] - answer[0])
    return Offset(other - (asked + answered) / 2, (answered - asked) / 2)


def measure(ask: Callable[[], float], rounds: int = ROUNDS, clock: Callable[[], float] = time.time) -> Offset:
    """Return how far another clock is from ours; `ask` returns its time in seconds since the epoch."""
    return of_answers([(clock(), ask(), clock()) for _ in range(rounds)])
