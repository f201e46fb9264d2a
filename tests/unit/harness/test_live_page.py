"""The page that shows a run: its copy, what it is told, and what is read of the processes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from harness.errors import SettingsError
from harness.load import watch
from harness.samples import FleetSample

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "time,role,pid,cpu_s,rss_kb\n"


def sample() -> FleetSample:
    """Return a sample whose values are its places."""
    return FleetSample(*range(len(FleetSample.__dataclass_fields__)))


def test_page_and_samples(tmp_path: Path) -> None:
    """The page is copied, and a file beside it has the sample and the sums of the last second, by role."""
    page, samples = tmp_path / "page", tmp_path / "samples"
    page.mkdir()
    samples.mkdir()
    (page / "index.html").write_text("page")
    (samples / "processes.csv").write_text(
        HEAD + "1,MWorker,7,1,1024\n2,MWorker,7,1.5,1024\n2,MWorker,8,2,2048\n2,fleet,9,1,512\n3,fleet,9"
    )
    watch.check(page)
    shown = watch.Watch(page, tmp_path)
    assert (shown.folder / "index.html").read_text() == "page"
    assert json.loads((shown.folder / "live.json").read_text()) is None
    shown.show("stock", "load", "5 answered", sample(), samples)
    found = json.loads((shown.folder / "live.json").read_text())
    assert (found["name"], found["phase"], found["minions"]) == ("stock", "load", 1)
    assert found["processes"] == {"MWorker": [3.5, 3.0], "fleet": [1.0, 0.5]}


def test_nothing_is_sampled_yet(tmp_path: Path) -> None:
    """Without a file of processes there are none."""
    assert watch.processes(tmp_path) == {}


def test_folder_without_a_page(tmp_path: Path) -> None:
    """It is refused before anything starts."""
    with pytest.raises(SettingsError, match=r"has no index\.html"):
        watch.check(tmp_path)
