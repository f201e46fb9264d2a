"""How busy a machine is, out of files as the kernel writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.processes import deadline

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def load(tmp_path: Path) -> Path:
    """Return the place of the file with the load average."""
    return tmp_path / "loadavg"


@pytest.mark.parametrize(("running", "expected"), [(1, 1.0), (3, 1.0), (5, 0.5), (11, 0.2), (400, 0.1)])
def test_pace_by_those_who_run(load: Path, tmp_path: Path, running: int, expected: float) -> None:
    """Those who want two cores share them; whoever reads the file does not count."""
    load.write_text(f"0.00 0.00 0.00 {running}/300 4711\n")
    assert deadline.pace(load, tmp_path / "missing", cores=2) == pytest.approx(expected)


def test_pace_by_those_who_wait_for_a_disk(load: Path, tmp_path: Path) -> None:
    """Time in which all wait for a disk is nobody's."""
    stalls = tmp_path / "io"
    load.write_text("0.00 0.00 0.00 5/300 4711\n")
    stalls.write_text(
        "some avg10=90.00 avg60=1.00 avg300=0.00 total=9\nfull avg10=40.00 avg60=1.00 avg300=0.00 total=9\n"
    )
    assert deadline.pace(load, stalls, cores=2) == pytest.approx(0.3)


def test_pace_of_this_machine() -> None:
    """The kernel's own files can be read."""
    assert deadline.SLOWEST <= deadline.pace() <= 1.0
    assert deadline.describe().startswith("load average ")


def test_clock() -> None:
    """The clock counts what a process gets of the time."""
    now = [100.0]
    clock = deadline.Clock(lambda: now[0], lambda: 0.25)
    now[0] += 40
    assert clock() == 10
    assert clock() == 10
