"""Waiting: for a condition, up to a deadline, by a clock that tests drive."""

from __future__ import annotations

from itertools import count

import pytest

from harness.errors import StartError
from harness.processes.deadline import Deadline, until


class Clock:
    """A clock that only pauses move."""

    def __init__(self) -> None:
        """Start at zero."""
        self.now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now

    def pause(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


def test_first_true_answer_is_returned() -> None:
    """Waiting ends with the first true answer."""
    clock, numbers = Clock(), count()
    assert until(lambda: max(0, next(numbers) - 3), Deadline(10, clock), lambda: "no", clock.pause) == 1


def test_deadline_ends_the_wait() -> None:
    """Waiting in vain ends at the deadline with the sentence that was given."""
    clock = Clock()
    with pytest.raises(StartError, match=r"^nothing came$"):
        until(lambda: None, Deadline(1, clock), lambda: "nothing came", clock.pause)
    assert clock.now == pytest.approx(1.0)


def test_condition_is_asked_once_after_the_deadline() -> None:
    """A condition that holds is found even if the deadline has passed already."""
    clock = Clock()
    deadline = Deadline(0, clock)
    assert until(lambda: "yes", deadline, lambda: "no", clock.pause) == "yes"


def test_time_left() -> None:
    """A deadline counts down to zero and no further."""
    clock = Clock()
    deadline = Deadline(2, clock)
    clock.pause(1.5)
    assert deadline.left() == 0.5
    clock.pause(9)
    assert (deadline.left(), deadline.passed()) == (0.0, True)
