"""Clocks: a difference is measured within half a round trip, and one within its error is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness import samples
from harness.containers.channel import Offset, measure
from harness.samples import ClockSample, SampleFile

if TYPE_CHECKING:
    from pathlib import Path


def _measure(ahead: float, trips: list[tuple[float, float]]) -> Offset:
    """Measure a clock that is so far ahead; each trip has the seconds there and back."""
    now = [1000.0]
    ways = iter(trips)

    def ask() -> float:
        there, back = next(ways)
        now[0] += there
        told = now[0] + ahead
        now[0] += back
        return told

    return measure(ask, len(trips), lambda: now[0])


@pytest.mark.parametrize("ahead", [200.0, -3.5, 0.004, 0.0])
def test_offset(ahead: float) -> None:
    """The quickest round trip decides, and the error is half of it, however lopsided it was."""
    found = _measure(ahead, [(0.5, 0.1), (0.004, 0.0), (0.0, 0.9)])
    assert found.error == pytest.approx(0.002)
    assert abs(found.seconds - ahead) <= found.error + 1e-9


def test_a_difference_within_its_error_is_none() -> None:
    """Two clocks that can't be told apart are one."""
    assert Offset(0.002, 0.003).correction == 0.0
    assert Offset(-0.004, 0.003).correction == -0.004


@pytest.mark.parametrize(
    ("later", "drift"), [(Offset(200.001, 0.001), 0.0), (Offset(201.0, 0.001), 1.0), (Offset(199.0, 2.0), 0.0)]
)
def test_drift(later: Offset, drift: float) -> None:
    """A clock that moved during the run is told, if that is more than both errors."""
    assert Offset(200.0, 0.002).sample("fleet-1", later) == ClockSample("fleet-1", 200.0, 0.002, drift)


def test_all_files_of_clocks_are_read(tmp_path: Path) -> None:
    """Containers share a file; in earlier runs each worker of another host had its own."""
    assert samples.read(tmp_path, ClockSample) == []
    rows = [ClockSample("fleet-0", 1.5, 0.25, 0.0), ClockSample("locust-1", -2.0, 0.5, 0.125)]
    for name, row in zip(("clocks.csv", "clocks.1.csv"), rows, strict=True):
        file = SampleFile(tmp_path / name, ClockSample)
        file.write(row)
        file.close()
    assert sorted(samples.read(tmp_path, ClockSample), key=lambda row: row.name) == rows
