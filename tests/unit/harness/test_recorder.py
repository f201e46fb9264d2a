"""Samples of the machine: taken where the whole bed is on it, and left out where nobody could tell what is whose."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from evil_minions.samples import Counters
from harness.load.run import Recorder
from harness.progress import Progress

if TYPE_CHECKING:
    from pathlib import Path

    from harness.load.backend import Fleet

STATUS = SimpleNamespace(
    minions=3, connected=2, authenticated=2, ready=1, executing=0, counters=Counters(), processes=[]
)


@pytest.mark.parametrize(("here", "rows"), [(True, 2), (False, 0)])
def test_samples_of_the_machine(tmp_path: Path, *, here: bool, rows: int) -> None:
    """A bed on several machines has samples of its fleet, but none of this machine, which does a part only."""
    fleet = cast("Fleet", SimpleNamespace(status=lambda: STATUS))
    with Recorder(fleet, tmp_path, Progress(io.StringIO()), "stock", here=here) as recorder:
        for _ in range(2):
            recorder.sample("load")
    assert len((tmp_path / "fleet.csv").read_text().splitlines()) == 3
    written = (tmp_path / "machine.csv").read_text().splitlines() if (tmp_path / "machine.csv").exists() else []
    assert max(0, len(written) - 1) == rows
