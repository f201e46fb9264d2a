"""Processes of a bed that die, or are stopped, while it is at work: it ends with which, when and how."""

from __future__ import annotations

import os
import signal
from functools import partial
from typing import TYPE_CHECKING

import psutil
import pytest

from harness.bed import Bed, BedSettings
from harness.errors import HarnessError
from harness.processes import processes
from harness.processes.deadline import Deadline, until
from harness.results import result, runs
from tests.halts import halted
from tests.live.helpers.load_runs import load, running_harness

if TYPE_CHECKING:
    from pathlib import Path

    from harness.processes.processes import Process

pytestmark = pytest.mark.live


@pytest.mark.parametrize(
    ("words", "sentence", "options"),
    [
        ("harness.samples.monitor", "monitor ended with exit code -9 (SIGKILL) at ", ()),
        ("evil_minions.fleet.worker", "The worker with the minions 0 to 9 (process ", ()),
        pytest.param(
            "--worker --master-host",
            "locust-0 ended with exit code -9 (SIGKILL) at ",
            ("--workers", "2"),
            marks=pytest.mark.long,
        ),
        pytest.param("harness.processes.warden", "The warden of this bed (process ", (), marks=pytest.mark.long),
    ],
    ids=["monitor", "fleet", "clients", "reaper"],
)
def test_death_during_aload(
    root: Path, stock: Path, tmp_path: Path, words: str, sentence: str, options: tuple[str, ...]
) -> None:
    """A run ends at once with 3 when a process of the bed's own dies, and has no result."""
    assert stock.is_dir()
    with load(root, tmp_path, 200, *options) as running:
        if words.endswith("warden"):
            # the reaper, the warden's parent
            psutil.Process(running.process.pid).children()[0].kill()
        elif "--worker" in words:
            everybody = psutil.Process(running.process.pid).children(recursive=True)
            next(one for one in everybody if words in " ".join(one.cmdline())).kill()
        else:
            running.child(words).kill()
        assert running.ends() == 3
        run = runs.read(running.run())
    assert sentence in running.said()
    assert "Traceback" not in running.said()
    assert (run.status, sentence in run.problem) == ("failed", True)
    assert list((running.run() / "stock" / "samples").glob("requests*.csv"))


def test_a_monitor_that_is_stopped_for_a_while(root: Path, stock: Path, tmp_path: Path) -> None:
    """What nobody looked at is not measured: the gap is told, and memory has no peak."""
    assert stock.is_dir()
    with load(root, tmp_path, 16) as running:
        monitor = running.child("harness.samples.monitor")
        samples = running.run() / "stock" / "samples" / "processes.csv"
        with halted(monitor.pid):
            size = samples.stat().st_size
            requests = running.run() / "stock" / "samples" / "requests.csv"
            lines = requests.read_text().count("\n")
            # two requests a second
            until(lambda: requests.read_text().count("\n") > lines + 16, Deadline(60), running.said)
        assert running.ends() == 0, running.said()
        assert samples.stat().st_size > size
    found = result.load(running.run())["trees"]["stock"]
    assert len(found["gaps"]) == 1
    assert found["gaps"][0].startswith("CPU and memory were not sampled for ")
    assert found["peak_memory_mb"] == {}
    assert f"stock: {found['gaps'][0]}; what needs it is not measured." in running.said()


def test_a_fleet_that_dies_below_up(root: Path, stock: Path, tmp_path: Path) -> None:
    """A bed to look around in ends with 3 and a sentence when its fleet has died."""
    assert stock.is_dir()
    with running_harness(root, tmp_path, "up", "--tree", "stock", "--minions", "5") as running:
        until(lambda: "Ctrl-C ends it." in running.said(), Deadline(120), running.said)
        running.child("evil_minions run").kill()
        assert running.ends() == 3
    assert "\nfleet ended with exit code -9 (SIGKILL) at " in running.said()
    assert "Its minions are gone with it: start it again." in running.said()


def test_every_service(stock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every process that a bed can't do without, the end or the halt is an error that names it."""
    monkeypatch.setattr(processes, "SILENT_S", 1.0)
    with Bed(BedSettings(tree=stock, folder=tmp_path, minions=3)) as bed:
        bed.start_fleet().wait_ready(60)
        bed.check()
        names = []
        for entry in list(bed._watch._entries):
            names.append(entry.process.name)
            for number, words in (
                (signal.SIGSTOP, "has been stopped since"),
                (signal.SIGKILL, "ended with exit code -9 (SIGKILL)"),
            ):
                os.kill(entry.process.pid, number)
                until(partial(_problem, bed, entry.process, words), Deadline(30), lambda: "nobody complains")
            # from here on as if that had been wanted
            entry.process.stopped = True
        assert names == ["monitor", "postgres", "salt-master", "salt-api", "fleet"]


def _problem(bed: Bed, process: Process, words: str) -> bool:
    """Say whether the bed complains of a process in these words."""
    try:
        bed.check()
    except HarnessError as error:
        return str(error).startswith(process.name) and words in str(error)
    return False
