"""However a bed ends, nothing of it is left: no process, no port, no folder."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

import psutil
import pytest

from harness.paths import ROOT
from harness.processes.deadline import Deadline, until
from harness.processes.ports import is_free

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.live
# a harness as a user would write it, which tells the test what belongs to it
HARNESS = """
import json, sys
from pathlib import Path
from harness import bed
from harness.commands import serve
from harness.database import sources

def describe(found):
    ports = [found.master.request_port, found.master.publish_port, found.api.port, found.postgres.port]
    yield json.dumps([str(found.temporary), ports, found._processes.reaper, found._processes.warden])

def start(place, source, start=sources.start):
    postgres = start(place, source)
    print("PostgreSQL is up.", flush=True)
    return postgres

serve.describe, sources.start = describe, start
tree, folder, temporary = map(Path, sys.argv[1:])
serve.serve(bed.BedSettings(tree=tree, folder=folder, minions=20, temporary=temporary))
"""
UP = "Ctrl-C ends it."


@dataclass(frozen=True)
class Running:
    """A harness whose bed is up; `everything` are the bed's processes, the reaper and the warden first."""

    harness: subprocess.Popen[str]
    folder: Path
    temporary: Path
    ports: list[int]
    everything: list[psutil.Process]

    def nothing_left(self) -> bool:
        """Say whether all of the bed has gone."""
        return not (any(map(alive, self.everything)) or self.temporary.exists()) and all(map(is_free, self.ports))

    def wait_gone(self) -> None:
        """Wait until all of the bed has gone."""
        until(
            self.nothing_left,
            Deadline(40),
            lambda: f"left: {list(filter(alive, self.everything))} {list(self.temporary.glob('*'))}",
        )


def alive(process: psutil.Process) -> bool:
    """Say whether a process runs; one that nobody has waited for yet does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def harness(stock: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Yield a harness in a process and a session of its own, about to start a bed; it may leave no temporary folder."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryDirectory(prefix="bed-test-") as temporary:
        # PostgreSQL may run as another user
        Path(temporary).chmod(0o755)
        argv = [sys.executable, "-u", "-c", HARNESS, str(stock), str(tmp_path), temporary]
        with subprocess.Popen(
            argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        ) as process:
            try:
                yield process
            finally:
                process.kill()
        until(lambda: not list(Path(temporary).iterdir()), Deadline(40), lambda: f"left in {temporary}")


def read_until(stream: IO[str] | None, start: str) -> list[str]:
    """Return the lines of a harness up to the first that starts so."""
    assert stream is not None
    lines: list[str] = []
    for line in stream:
        lines.append(line)
        if line.startswith(start):
            return lines
    raise AssertionError(lines)


@pytest.fixture
def running(harness: subprocess.Popen[str], tmp_path: Path) -> Running:
    """Return a harness whose bed is up."""
    lines = read_until(harness.stdout, UP)
    (facts,) = [line for line in lines if line.startswith("[")]
    temporary, ports, reaper, warden = json.loads(facts)
    everything = [psutil.Process(reaper), psutil.Process(warden)]
    everything += psutil.Process(warden).children(recursive=True)
    # the master with its ten processes, salt-api with two, PostgreSQL with six, the fleet with two, the monitor
    assert len(everything) > 18
    return Running(harness, tmp_path, Path(temporary), ports, everything)


def test_ctrl_c(running: Running) -> None:
    """Ctrl-C, as soon as it is said to end a bed, ends it in order, with a sentence and without a traceback."""
    # to the whole group, as a terminal sends it
    os.killpg(running.harness.pid, signal.SIGINT)
    output, errors = running.harness.communicate(timeout=40)
    assert running.harness.returncode == 0
    assert output.splitlines()[-1] == f"Everything is stopped; logs and samples are in {running.folder}."
    assert errors == ""
    assert running.nothing_left()


def test_kill_9_of_the_harness(running: Running) -> None:
    """After kill -9 of the harness its bed goes by itself; the logs stay."""
    running.harness.kill()
    running.wait_gone()
    assert (running.folder / "logs" / "master.log").exists()


def test_kill_9_of_the_warden(running: Running) -> None:
    """After kill -9 of the warden the bed goes, and the harness says why in one sentence."""
    running.everything[1].kill()
    running.wait_gone()
    _, errors = running.harness.communicate(timeout=40)
    assert errors.splitlines()[-1].startswith("harness.errors.WardenError: The warden of this bed (process ")


def test_kill_9_of_the_warden_and_its_reaper(running: Running) -> None:
    """After kill -9 of both at once the kernel's signals still end every process; only temporary folders stay."""
    for process in running.everything[:2]:
        process.kill()
    until(
        lambda: not any(map(alive, running.everything)) and all(map(is_free, running.ports)),
        Deadline(40),
        lambda: f"left: {list(filter(alive, running.everything))}",
    )
    running.harness.communicate(timeout=40)
    # PostgreSQL has one of its own if it runs as another user
    for folder in running.temporary.parent.glob(f"{running.temporary.name}*"):
        shutil.rmtree(folder)


def test_lost_service(running: Running) -> None:
    """A master that ends by itself is noticed, and the bed goes with it."""
    warden = running.everything[1].pid
    (master,) = [one for one in running.everything if "salt-master" in " ".join(one.cmdline()) and one.ppid() == warden]
    master.kill()
    _, errors = running.harness.communicate(timeout=40)
    assert "harness.errors.StartError: salt-master ended with exit code -9" in errors
    assert running.nothing_left()


def test_ctrl_c_during_the_start(harness: subprocess.Popen[str]) -> None:
    """Ctrl-C while the master starts ends all that has started."""
    read_until(harness.stdout, "PostgreSQL is up.")
    found = psutil.Process(harness.pid).children(recursive=True)
    assert len(found) > 5
    os.killpg(harness.pid, signal.SIGINT)
    _, errors = harness.communicate(timeout=40)
    assert errors.splitlines()[-1] == "KeyboardInterrupt"
    assert list(filter(alive, found)) == []


def test_kill_9_during_the_start(harness: subprocess.Popen[str]) -> None:
    """After kill -9 while the master starts, all that has started goes by itself."""
    read_until(harness.stdout, "PostgreSQL is up.")
    found = psutil.Process(harness.pid).children(recursive=True)
    harness.kill()
    until(lambda: not any(map(alive, found)), Deadline(40), lambda: f"left: {list(filter(alive, found))}")
