"""Waiting: for a condition, up to a deadline, by a clock that tests drive."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from harness.errors import StartError
from harness.processes.deadline import Deadline, Patience, until

if TYPE_CHECKING:
    from collections.abc import Callable


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


def patience(clock: Clock, progress: Callable[[], float], pace: float = 1.0) -> Patience:
    """Return the patience of a minute, with somebody whose progress and machine a test decides on."""
    return Patience(60, progress, clock=clock, pace=lambda: pace)


def end(deadline: Patience, clock: Clock) -> float:
    """Return when a wait is over that nothing ends before its deadline."""
    with pytest.raises(StartError):
        until(lambda: None, deadline, lambda: "over", clock.pause)
    return clock.now


def test_deadline_on_a_busy_machine() -> None:
    """Where a process gets a fifth of a second of each, a minute takes five."""
    clock = Clock()
    deadline = Deadline(60, clock, lambda: 0.2)
    while not deadline.passed():
        clock.pause(0.5)
    assert clock.now == pytest.approx(300, abs=1)
    assert deadline.waited().startswith("300 s (load average ")


def test_patience_with_a_process_that_does_nothing() -> None:
    """Who makes no progress on a quiet machine is waited for as long as was said."""
    clock = Clock()
    assert end(patience(clock, lambda: 1.0), clock) == pytest.approx(60, abs=0.1)


def test_patience_with_a_process_that_idles() -> None:
    """A server that hangs still takes a little CPU time now and then; that is no progress."""
    clock = Clock()
    assert end(patience(clock, lambda: clock.now * 0.01), clock) <= 70


def test_patience_with_a_process_at_work() -> None:
    """Who works is waited for, and a sixth of the time on after the work has ended."""
    clock = Clock()
    assert end(patience(clock, lambda: min(clock.now, 200.0) * 0.1), clock) == pytest.approx(210, abs=5)


def test_patience_has_an_end() -> None:
    """Who works forever, or a machine that gives nobody anything, is not waited for forever."""
    clock = Clock()
    assert end(patience(clock, lambda: clock.now), clock) == pytest.approx(600, abs=1)
    clock = Clock()
    assert end(patience(clock, lambda: 0.0, pace=0.0), clock) == pytest.approx(600, abs=1)


def test_patience_counts_steps() -> None:
    """Progress may be any number that grows; here a minion gets ready every five seconds until the hundredth."""
    clock = Clock()
    deadline = Patience(60, lambda: min(clock.now // 5, 100.0), least=1, clock=clock, pace=lambda: 1.0)
    assert end(deadline, clock) == pytest.approx(510, abs=5)
