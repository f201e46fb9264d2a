"""Timeouts that share a timer of the loop: exact, in order, and silent once cancelled."""

from __future__ import annotations

from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from evil_minions.network.connection import Timeout, Timeouts
from tests.unit.evil_minions.conftest import Clock

STEPS = st.lists(
    st.tuples(st.sampled_from((0.1, 0.7, 5.0)), st.floats(0, 3), st.booleans()),
    max_size=30,
)


@settings(deadline=None)
@given(STEPS)
def test_fires_as_the_loop_would(steps: list[tuple[float, float, bool]]) -> None:
    """Whatever is begun and cancelled when: each of the others calls back once, at the time that it was to."""
    clock = Clock()
    timeouts = Timeouts(cast("Any", clock))
    due: list[tuple[float, int]] = []
    fired: list[tuple[float, int]] = []
    latest: Timeout | None = None
    for number, (seconds, pause, cancelled) in enumerate(steps):
        if cancelled and latest is not None and latest.callback is not None:
            latest.cancel()
            due.pop()
        latest = timeouts.after(seconds, lambda number=number: fired.append((clock.now, number)))  # type: ignore[misc]
        due.append((latest.at, number))
        clock.advance(pause)
    clock.advance(10.0)
    assert sorted(number for _, number in fired) == sorted(number for _, number in due)
    expected = {number: at for at, number in due}
    assert all(abs(at - expected[number]) < 1e-9 for at, number in fired)


def test_cancelled_at_the_last_moment() -> None:
    """One that is cancelled when its time has come, but not yet its turn, doesn't call back."""
    clock = Clock()
    timeouts = Timeouts(cast("Any", clock))
    fired: list[str] = []
    second: list[Timeout] = []

    def first() -> None:
        fired.append("first")
        second[0].cancel()

    timeouts.after(1.0, first)
    second.append(timeouts.after(1.0, lambda: fired.append("second")))
    clock.advance(2.0)
    assert fired == ["first"]
