"""The monitor's book-keeping: roles by descent and title, CPU that is counted once and never lost."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from harness import samples
from harness.paths import ROOT
from harness.processes.command import Command
from harness.processes.deadline import Deadline, until
from harness.processes.processes import Processes
from harness.samples import ProcessSample
from harness.samples.monitor import FILE, Accounts, Reading, command, title_role, written
from tests.halts import halted

if TYPE_CHECKING:
    from pathlib import Path

WARDEN = 100
# three children of 0.2 s of CPU, one after the other
BURN = """
import os, time
for _ in range(3):
    if os.fork() == 0:
        while time.process_time() < 0.2:
            pass
        os._exit(0)
    os.wait()
time.sleep(1000)
"""


def reading(
    pid: int, parent: int, own: float = 0.0, children: float = 0.0, title: str = "", created: float = 1.0
) -> Reading:
    """Return what the kernel might say."""
    return Reading(pid, created, parent, title, own, children, 1000)


@pytest.mark.parametrize(
    ("title", "role"),
    [
        ("python /s/salt-master --config-dir=/t/etc MainProcess", "master"),
        ("python /s/salt-master --config-dir=/t/etc", "master"),
        ("python /s/salt-master --config-dir=/t/etc RequestServer MWorker-default-3", "MWorker"),
        ("python /s/salt-master --config-dir=/t/etc RequestServer MWorkerQueue", "MWorkerQueue"),
        ("python /s/salt-master --config-dir=/t/etc PubServerChannel._publish_daemon", "PubServerChannel"),
        ("python /s/salt-master --config-dir=/t/etc FileserverUpdate", "FileserverUpdate"),
        ("EventPublisher", "EventPublisher"),
        ("systemctl show", "master"),
    ],
)
def test_title_gives_the_role(title: str, role: str) -> None:
    """A process of the master is known by the title that Salt gave it."""
    assert title_role(title) == role


def test_role_comes_from_the_started_ancestor() -> None:
    """A descendant has the role of the process that the warden started; only the master's are told apart."""
    readings = [
        reading(1, WARDEN),
        reading(2, 1),
        reading(3, 2),
        reading(4, WARDEN),
        reading(5, 4, title="EventPublisher"),
    ]
    samples = Accounts(WARDEN).samples(0.0, readings, {1: "postgres", 4: "master"})
    assert {sample.pid: sample.role for sample in samples} == {
        1: "postgres",
        2: "postgres",
        3: "postgres",
        4: "master",
        5: "EventPublisher",
    }


def test_orphan_keeps_its_role() -> None:
    """A process whose parent ended keeps the role that it had."""
    accounts = Accounts(WARDEN)
    accounts.samples(0.0, [reading(1, WARDEN), reading(2, 1)], {1: "minion"})
    samples = accounts.samples(1.0, [reading(2, WARDEN)], {1: "minion"})
    assert [(sample.pid, sample.role) for sample in samples] == [(2, "minion")]


def test_unknown_orphan() -> None:
    """A process that nobody knows is an orphan."""
    samples = Accounts(WARDEN).samples(0.0, [reading(2, WARDEN)], {})
    assert [sample.role for sample in samples] == ["orphan"]


def test_short_lived_child_counts_for_its_parent() -> None:
    """CPU of a child that no sample saw is its parent's."""
    accounts = Accounts(WARDEN)
    accounts.samples(0.0, [reading(1, WARDEN, own=1.0)], {1: "api"})
    (sample,) = accounts.samples(1.0, [reading(1, WARDEN, own=1.0, children=0.5)], {1: "api"})
    assert sample.cpu_s == 1.5


def test_sampled_child_counts_once() -> None:
    """CPU of a child that samples saw stays its own; only what came after its last sample is its parent's."""
    accounts = Accounts(WARDEN)
    accounts.samples(0.0, [reading(1, WARDEN, own=1.0), reading(2, 1, own=3.0)], {1: "api"})
    (sample,) = accounts.samples(1.0, [reading(1, WARDEN, own=1.0, children=3.25)], {1: "api"})
    assert sample.cpu_s == 1.25


def test_sum_is_exact_over_generations() -> None:
    """The last samples of all processes add up to the CPU of the tree, however it died."""
    accounts = Accounts(WARDEN)
    last: dict[int, float] = {}
    steps = [
        [reading(1, WARDEN, own=1.0), reading(2, 1, own=2.0), reading(3, 2, own=4.0)],
        [reading(1, WARDEN, own=1.0), reading(2, 1, own=2.0, children=4.5)],
        [reading(1, WARDEN, own=1.0, children=6.75)],
    ]
    for now, readings in enumerate(steps):
        last |= {sample.pid: sample.cpu_s for sample in accounts.samples(now, readings, {1: "master"})}
    assert sum(last.values()) == 7.75


def test_generations_that_end_together_count_once() -> None:
    """A master that is stopped takes its workers' parent along: what all of them used stands in their own samples."""
    accounts = Accounts(WARDEN)
    tree = [reading(1, WARDEN, own=1.0), reading(4, 1, own=0.5), reading(2, 1, own=2.0), reading(3, 2, own=4.0)]
    # in whatever order they were seen first
    for number, order in enumerate((tree, tree[::-1])):
        accounts = Accounts(WARDEN)
        last = {sample.pid: sample.cpu_s for sample in accounts.samples(0.0, order, {1: "master"})}
        after = accounts.samples(1.0, [reading(1, WARDEN, own=1.25, children=6.75)], {1: "master"})
        last |= {sample.pid: sample.cpu_s for sample in after}
        assert last == {1: 1.5, 2: 2.0, 3: 4.0, 4: 0.5}, number


def test_generations_end_while_an_id_is_reused() -> None:
    """A parent that ended, whose number another process has by now, has handed on what its children used."""
    accounts = Accounts(WARDEN)
    tree = [reading(1, WARDEN, own=1.0), reading(2, 1, own=2.0), reading(3, 2, own=4.0)]
    accounts.samples(0.0, tree, {1: "master"})
    now = [reading(1, WARDEN, own=1.0, children=6.0), reading(2, 1, own=0.25, created=9.0)]
    assert {sample.pid: sample.cpu_s for sample in accounts.samples(1.0, now, {1: "master"})} == {1: 1.0, 2: 0.25}


def test_reused_process_id_starts_anew() -> None:
    """Another process with the id of an ended one is not taken for it."""
    accounts = Accounts(WARDEN)
    accounts.samples(0.0, [reading(1, WARDEN, own=9.0)], {1: "cli"})
    (sample,) = accounts.samples(1.0, [reading(1, WARDEN, own=0.5, created=2.0)], {1: "cli"})
    assert sample.cpu_s == 0.5


def test_counter_never_falls() -> None:
    """The figure of a process never falls, even where the kernel drops a child's time."""
    accounts = Accounts(WARDEN)
    accounts.samples(0.0, [reading(1, WARDEN, own=1.0), reading(2, 1, own=3.0)], {1: "api"})
    (sample,) = accounts.samples(1.0, [reading(1, WARDEN, own=1.0)], {1: "api"})
    assert sample.cpu_s == 1.0


@pytest.mark.slow
def test_samples_of_real_processes(tmp_path: Path) -> None:
    """The command writes rows that add up to what real processes used, short-lived ones included."""
    output = tmp_path / "processes.csv"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with Processes(tmp_path) as processes:
        argv = command(processes.warden, processes.folder, tmp_path)
        monitor = processes.start("monitor", Command("harness", argv, environment, tmp_path / "monitor.out"))
        worker = processes.start("w", Command("worker", [sys.executable, "-c", BURN], environment, tmp_path / "out"))

        def used() -> float | None:
            last: dict[int, float] = defaultdict(float)
            for sample in samples.read(tmp_path, ProcessSample) if output.exists() else ():
                if sample.role == "worker":
                    last[sample.pid] = sample.cpu_s
            return total if (total := sum(last.values())) >= 0.55 else None

        assert until(used, Deadline(20), monitor.tail) < 5.0
        worker.stop()
        assert monitor.stop() == 0


def test_monitor_ends_with_the_warden(tmp_path: Path) -> None:
    """The monitor of a warden that is not there ends with one line."""
    with subprocess.Popen(["true"]) as nobody:
        nobody.wait()
    result = subprocess.run(
        command(nobody.pid, tmp_path, tmp_path),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1


@pytest.mark.slow
def test_monitor_goes_on_after_a_stop(tmp_path: Path) -> None:
    """A monitor that was stopped for longer than its interval takes samples again, until it is told to end."""
    path = tmp_path / FILE
    argv = command(os.getpid(), tmp_path, tmp_path)
    with subprocess.Popen(argv, env={**os.environ, "PYTHONPATH": str(ROOT)}) as process:
        try:
            until(lambda: path.exists() and written(path) > 50, Deadline(20), lambda: "no sample")
            with halted(process.pid):
                size = written(path)
                stopped = Deadline(2.0, time.monotonic)
                until(stopped.passed, Deadline(20), lambda: "no time")
                assert written(path) == size
            until(lambda: written(path) > size + 100, Deadline(20), lambda: f"ended with {process.poll()}")
            process.terminate()
            assert process.wait(20) == 0
        finally:
            process.kill()
