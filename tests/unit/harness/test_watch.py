"""Processes that a bed can't do without: their end and their silence are noticed, and what nobody saw is no figure."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from harness.errors import ProcessError, StartError, WardenError
from harness.load.timeline import Player
from harness.processes import kernel
from harness.processes import processes as owned
from harness.processes.command import Command
from harness.processes.deadline import Deadline, until
from harness.processes.processes import SILENT_S, Processes, Watch
from harness.results import figures, result
from harness.samples import APART, Timeline
from tests.halts import halt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.processes.processes import Process
    from harness.scenarios.timeline import Event

RUN = Path(__file__).parent / "data" / "run"


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    """Yield the processes of a bed."""
    with Processes(tmp_path) as found:
        yield found


@pytest.fixture
def sleeper(processes: Processes) -> Process:
    """Return a process that lives until it is ended."""
    command = Command("x", ["sleep", "1000"], {"PATH": os.environ["PATH"]}, processes.folder / "out")
    return processes.start("sleeper", command)


class Clock:
    """Time that a test lets pass; each deadline is one of this clock."""

    def __init__(self) -> None:
        """Start."""
        self.now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now

    def deadline(self, seconds: float) -> Deadline:
        """Return a deadline on this clock."""
        return Deadline(seconds, self)


def test_a_killed_process(sleeper: Process) -> None:
    """Which process ended, how, when, and what is lost with it are told."""
    watch = Watch()
    watch.add(sleeper, "CPU is not measured from then on.")
    watch.check()
    os.kill(sleeper.pid, signal.SIGKILL)
    sleeper.wait(10)
    expected = (
        r"^sleeper ended with exit code -9 \(SIGKILL\) at \d\d:\d\d:\d\d; its log .*/out is empty\. "
        r"CPU is not measured from then on\.$"
    )
    with pytest.raises(StartError, match=expected):
        watch.check()


def test_a_stopped_process(sleeper: Process) -> None:
    """A process that a signal has stopped is named, with its state, after a while; one that goes on again is not."""
    clock = Clock()
    watch = Watch(clock.deadline)
    watch.add(sleeper)
    halt(sleeper.pid)
    watch.check()
    clock.now = SILENT_S + 1
    expected = rf"^sleeper \(process {sleeper.pid}\) has been stopped since .*: it is stopped"
    with pytest.raises(ProcessError, match=expected):
        watch.check()
    os.kill(sleeper.pid, signal.SIGCONT)
    until(lambda: not _raised(watch), Deadline(10), lambda: "still an error")


def _raised(watch: Watch) -> bool:
    try:
        watch.check()
    except ProcessError:
        return True
    return False


def test_a_silent_process(sleeper: Process) -> None:
    """A process that lives and does nothing of its work any more is named."""
    clock, written = Clock(), [0]
    watch = Watch(clock.deadline)
    watch.add(sleeper, sign=lambda: written[0])
    for second in range(0, 60, 10):
        clock.now, written[0] = second, second
        watch.check()
    clock.now += SILENT_S + 1
    with pytest.raises(ProcessError, match=r"^sleeper \(process \d+\) has given no sign of life since "):
        watch.check()


def test_a_process_that_was_stopped_on_purpose(sleeper: Process) -> None:
    """What the bed itself has stopped is not missed."""
    watch = Watch()
    watch.add(sleeper)
    sleeper.stop()
    watch.check()


def test_a_process_that_may_end(sleeper: Process) -> None:
    """A process whose end is somebody else's business is not missed either."""
    watch = Watch()
    watch.add(sleeper, may_end=True)
    os.kill(sleeper.pid, signal.SIGKILL)
    sleeper.wait(10)
    watch.check()


@pytest.mark.slow
def test_a_warden_that_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A warden that does not answer is an error in the end, and what it had started is gone with it."""
    found = Processes(tmp_path)
    found.__enter__()
    command = Command("x", ["sleep", "1000"], {"PATH": os.environ["PATH"]}, found.folder / "out")
    started = found.start("sleeper", command)
    monkeypatch.setattr(owned, "ANSWER_S", 0.2)
    monkeypatch.setattr(owned, "CLOSE_S", 0.2)
    monkeypatch.setattr(kernel, "KILL_S", 0.2)
    halt(found.warden)
    with pytest.raises(WardenError, match=r"does not answer: end it\.$"):
        started.check()
    with pytest.raises(WardenError, match=r"does not answer: end it\.$"):
        found.__exit__(None, None, None)
    assert kernel.read(started.pid) is None
    assert list(tmp_path.iterdir()) == []


LINE = Timeline(fleet_start=0.0, ready=5.0, load_start=10.0, clients_done=40.0, settled=50.0, settled_in_time=True)


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (range(60), []),
        ([*range(20), *range(24, 60)], []),
        # stopped for nine seconds
        ([*range(20), *range(28, 60)], [figures.Gap(19, 28, edge=False)]),
        # dead from 21 s on
        (range(22), [figures.Gap(21, 50, edge=True)]),
        (range(30, 60), [figures.Gap(10, 30, edge=True)]),
        ([], [figures.Gap(10, 50, edge=True)]),
        # one sample in ten seconds is this file's rhythm
        (range(0, 61, 10), []),
    ],
)
def test_gaps(times: list[float], expected: list[figures.Gap]) -> None:
    """A time without samples is a gap if it is longer than the samples' own rhythm explains."""
    assert figures.find(times, LINE) == expected


def _only_until(run: Path, last: float, step: float = 1.0) -> None:
    """Have the monitor of a run sample each second until its death."""
    path = run / "stock" / "samples" / "processes.csv"
    path.write_text("time,role,pid,cpu_s,rss_kb\n")
    with path.open("a") as file:
        second = 1000.0
        while second <= last:
            file.write(f"{second},MWorker,11,{(second - 1000) / 10},51200\n")
            second += step


def test_figures_of_a_monitor_that_died(tmp_path: Path) -> None:
    """CPU and memory that were sampled for a part of the load only are no figures, and the result says why."""
    run = Path(shutil.copytree(RUN, tmp_path / "run"))
    _only_until(run, 1025.0)
    whole = result.compute(run).trees["stock"]
    assert whole["gaps"] == ()
    assert whole["master_cpu_ms_per_return"] == pytest.approx(1000 / 12, abs=0.001)
    _only_until(run, 1013.0)
    cut = result.compute(run).trees["stock"]
    assert (cut["master_cpu_ms_per_return"], cut["cpu_s"], cut["peak_memory_mb"]) == (None, {}, {})
    assert cut["gaps"] == ("CPU and memory were not sampled for 7.0 s, from 3.0 s after the load's start",)
    assert cut["returns_kept"] == whole["returns_kept"]


def test_the_hole_of_one_monitor_of_several(tmp_path: Path) -> None:
    """Each container's processes are sampled by itself: what one did not see nobody else saw."""
    run = Path(shutil.copytree(RUN, tmp_path / "run"))
    _only_until(run, 1025.0)
    path = run / "stock" / "samples" / "processes.csv"
    lines = path.read_text().splitlines()
    other = [f"{1000 + second}.5,fleet,{APART + 1},{second / 10},51200" for second in range(26)]
    path.write_text("\n".join([*lines, *other]) + "\n")
    assert result.compute(run).trees["stock"]["gaps"] == ()
    blind = [line for line in lines[1:] if not 1008 < float(line.split(",")[0]) < 1016]
    path.write_text("\n".join([lines[0], *blind, *other]) + "\n")
    found = result.compute(run).trees["stock"]
    assert len(found["gaps"]) == 1
    assert (found["master_cpu_ms_per_return"], found["peak_memory_mb"]) == (None, {})


def test_a_timeline_whose_samples_cannot_be_written(tmp_path: Path) -> None:
    """A moment that can't be written down ends the run, and not just the thread that plays the timeline."""
    moment = cast("Event", SimpleNamespace(at_s=0, do="heal", name="x", of_master=False, request=dict))
    with Player([moment], lambda _: {}, cast("Any", None), tmp_path) as player:
        assert player._file is not None
        player._file.close()
        player.start(0.0)
        until(lambda: player.done, Deadline(10), lambda: "not done")
        assert player.problem.startswith("The timeline could not be played on: ")
