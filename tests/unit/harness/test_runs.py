"""Run folders and progress."""

from __future__ import annotations

import io
import json
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.errors import SettingsError
from harness.processes import kernel
from harness.processes.kernel import Place
from harness.progress import Progress
from harness.results import runs
from harness.scenarios import scenario

WHEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
QUICK = scenario.find("quick")


def _create(parent: Path) -> Path:
    changed = scenario.load(QUICK).changed(minions=5, transport="tcp")
    return runs.create(parent, WHEN, changed, QUICK, ("stock",), "python -m harness load")


def test_a_run_is_what_was_created(tmp_path: Path) -> None:
    """A run's folder tells what ran, changes to the scenario included."""
    folder = _create(tmp_path)
    assert folder == tmp_path / "20260102T030405Z-quick"
    run = runs.read(folder)
    assert (run.started, run.trees, run.status) == ("2026-01-02T03:04:05+00:00", ("stock",), "running")
    assert run.scenario(folder) == scenario.load(QUICK).changed(minions=5, transport="tcp")
    # a run of before did not say over which transport it went
    values = json.loads((folder / "run.json").read_text())
    del values["transport"]
    (folder / "run.json").write_text(json.dumps(values))
    assert runs.read(folder).scenario(folder).transport == "zeromq"


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


def test_a_killed_run_is_recorded(tmp_path: Path) -> None:
    """Whoever looks next records that a run's process has gone; one that runs on, or runs elsewhere, is left alone."""
    dead, alive, elsewhere = (_create(tmp_path) for _ in range(3))
    runs.write(dead, replace(runs.read(dead), owner=f"{Place.here()}/{os.getpid()}/0.00"))
    # another machine, whose host has the same name
    runs.write(elsewhere, replace(runs.read(elsewhere), owner=f"machine/another-boot/{Place.here().namespace}/1/0.00"))
    assert runs.find(str(elsewhere), Path("none")) == elsewhere
    assert runs.find(str(dead), Path("none")) == dead
    assert [runs.read(folder).status for folder in (dead, alive, elsewhere)] == ["killed", "running", "running"]
    assert runs.read(dead).problem == "the process that ran it was killed"


def test_killed_runs_are_found_by_any_command(tmp_path: Path) -> None:
    """A new run, or a look at the latest, records killed ones; runs of before, without an owner, stay as they are."""
    old, dead = _create(tmp_path), _create(tmp_path)
    values = json.loads((old / "run.json").read_text())
    del values["host"], values["owner"]
    (old / "run.json").write_text(json.dumps(values))
    runs.write(dead, replace(runs.read(dead), owner=f"{Place.here()}/{os.getpid()}/0.00"))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "run.json").write_text("[]")
    _create(tmp_path)
    assert (runs.read(old).status, runs.read(dead).status) == ("running", "killed")


def test_a_run_of_before_a_restart(tmp_path: Path) -> None:
    """A run of an earlier boot of this machine was killed by its end; of which machine, its id alone tells."""
    found, here = _create(tmp_path), Place.here()
    mark = f"{replace(here, machine='m', boot='another-boot')}/1/0.00"
    assert kernel.rebooted(mark, lambda: replace(here, machine="m"))
    assert not kernel.rebooted(mark, lambda: replace(here, machine="other"))
    assert not kernel.rebooted(mark.replace("m/", "/", 1), lambda: replace(here, machine=""))
    runs.write(found, replace(runs.read(found), owner=f"{replace(here, boot='another-boot')}/1/0.00"))
    assert runs.read(found).killed == bool(here.machine)
    runs.write(found, replace(runs.read(found), host="elsewhere.example"))
    assert not runs.read(found).killed


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """A place for runs that can't be is a wrong setting."""
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="choose a folder that you may write to"):
        _create(tmp_path / "file" / "runs")


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
