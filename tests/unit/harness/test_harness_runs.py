"""Run folders and progress."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.errors import SettingsError
from harness.progress import Progress
from harness.results import runs
from harness.scenarios import scenario

WHEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
QUICK = scenario.find("quick")


def _create(parent: Path) -> Path:
    changed = scenario.load(QUICK).changed(minions=5)
    return runs.create(parent, WHEN, changed, QUICK, ("stock",), "python -m harness load")


def test_a_run_is_what_was_created(tmp_path: Path) -> None:
    """A run's folder tells what ran, changes to the scenario included."""
    folder = _create(tmp_path)
    assert folder == tmp_path / "20260102T030405Z-quick"
    run = runs.read(folder)
    assert (run.started, run.trees, run.status) == ("2026-01-02T03:04:05+00:00", ("stock",), "running")
    assert run.scenario(folder) == scenario.load(QUICK).changed(minions=5)


def test_two_runs_in_a_second(tmp_path: Path) -> None:
    """A second run in the same second gets a folder of its own."""
    assert [_create(tmp_path).name for _ in range(2)] == ["20260102T030405Z-quick", "20260102T030405Z.1-quick"]
    assert (
        runs.read(tmp_path / "20260102T030405Z.1-quick").scenario(tmp_path / "20260102T030405Z.1-quick").name == "quick"
    )


def test_latest_is_the_last_finished_run(tmp_path: Path) -> None:
    """Only a finished run becomes the latest; a failed one is recorded and leaves it."""
    first, second, third = (_create(tmp_path) for _ in range(3))
    runs.end(first, "finished")
    runs.end(second, "failed", "no luck")
    assert runs.find(None, tmp_path) == first
    assert (runs.read(second).status, runs.read(second).problem) == ("failed", "no luck")
    runs.end(third, "finished")
    assert runs.find(None, tmp_path) == third
    assert [path.name for path in tmp_path.iterdir() if path.is_symlink()] == ["latest"]


def test_find(tmp_path: Path) -> None:
    """A run is found by its name or its path."""
    folder = _create(tmp_path)
    assert runs.find(folder.name, tmp_path) == folder
    assert runs.find(str(folder), Path("elsewhere")) == folder


def test_find_nothing(tmp_path: Path) -> None:
    """Without a run, or with a wrong name, a sentence says what to do."""
    with pytest.raises(SettingsError, match=r"There is no finished run in .* start one with"):
        runs.find(None, tmp_path)
    with pytest.raises(SettingsError, match="There is no run nothing: give a folder in"):
        runs.find("nothing", tmp_path)
    with pytest.raises(SettingsError, match="is not the folder of a run"):
        runs.read(tmp_path)


def test_progress_in_a_pipe() -> None:
    """In a pipe, lines are plain and at least five seconds apart; what is said stays."""
    now = [0.0]
    stream = io.StringIO()
    progress = Progress(stream, clock=lambda: now[0])
    for second in range(12):
        now[0] = second
        progress.show(f"at {second}")
    progress.say("done")
    progress.end()
    assert stream.getvalue() == " 0:00 at 0\n 0:05 at 5\n 0:10 at 10\n 0:11 done\n"


def test_progress_on_a_terminal() -> None:
    """On a terminal each state replaces the last one, and the line is clean at the end."""
    now = [0.0]
    stream = io.StringIO()
    progress = Progress(stream, live=True, clock=lambda: now[0])
    progress.show("one")
    now[0] = 61.5
    progress.show("two")
    progress.say("said")
    progress.show("three")
    progress.end()
    clear = "\r\x1b[2K"
    assert stream.getvalue() == f"{clear} 0:00 one{clear} 1:01 two{clear} 1:01 said\n{clear} 1:01 three{clear}"
