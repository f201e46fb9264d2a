"""Events of many senders at once, on stock and patched: each one whole, each sender's in order, none of them stuck."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from harness.bed import Bed, BedSettings
from harness.processes.deadline import Deadline, until
from tests.live.helpers import event_bus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.timeout(1500)]

SENDERS = 16
FEW, MANY = 250, 6_250
# as many as outlast a restart of the bus, at this pace
LASTING, PAUSE_S = 800, 0.05
QUIET_S = 15
SLOW = "Publisher discarding slow subscriber"
SEND_S = 1200


@pytest.fixture(params=["stock", "patched"])
def bed(request: pytest.FixtureRequest, root: Path, stock: Path, tmp_path: Path) -> Iterator[Bed]:
    """Yield a master of a tree, with nothing else."""
    tree = stock if request.param == "stock" else root / "salt"
    settings = BedSettings(tree, tmp_path / "bed", pillar="none", postgres="none", api=None)
    with Bed(settings) as found:
        yield found


class Traffic:
    """The senders and the one that hears them."""

    def __init__(self, bed: Bed, root: Path, stack: ExitStack) -> None:
        """Start to hear."""
        self._bed = bed
        self._root = root
        self._stack = stack
        self._ear = self._start("hear", QUIET_S)
        assert self._ear.stdout
        assert self._ear.stdout.readline()
        self._senders: list[subprocess.Popen[str]] = []

    def _start(self, what: str, *words: object) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": str(self._bed.settings.tree)}
        config = str(self._bed.master.config_dir / "master")
        argv = [sys.executable, str(self._root / "tests/live/helpers/event_traffic.py"), what, config, *map(str, words)]
        process = subprocess.Popen(argv, env=environment, cwd=self._bed.temporary, stdout=subprocess.PIPE, text=True)
        self._stack.enter_context(process)
        self._stack.callback(process.kill)
        return process

    def send(self, count: int, pause: float = 0.0) -> None:
        """Let all senders begin."""
        self._senders = [self._start("send", sender, count, pause) for sender in range(SENDERS)]

    def failed(self) -> list[int]:
        """Wait for the senders' ends; return how many events each could not send."""
        return [json.loads(process.communicate(timeout=SEND_S)[0])["failed"] for process in self._senders]

    def heard(self) -> dict[str, Any]:
        """Wait until all is quiet, and return what was heard."""
        found: dict[str, Any] = json.loads(self._ear.communicate(timeout=SEND_S)[0])
        return found


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.long)])
def test_events_are_whole_and_in_order(root: Path, bed: Bed, count: int) -> None:
    """Of sixteen senders at once every event of 10 B to 1 MB arrives whole and once, each sender's in their order.

    As many as the one that hears can take: whom the bus finds too slow it drops, and says so.
    """
    with ExitStack() as stack:
        traffic = Traffic(bed, root, stack)
        traffic.send(count)
        assert traffic.failed() == [0] * SENDERS
        found = traffic.heard()
    assert found["torn"] == 0
    assert len(found["heard"]) == SENDERS
    lost = 0
    for sender, numbers in found["heard"].items():
        assert numbers == sorted(set(numbers)), sender
        lost += count - len(numbers)
    print(f"{lost} of {SENDERS * count} events were lost")
    if lost:
        assert SLOW in (bed.logs / "master.log").read_text()


@pytest.mark.long
# on stock no other one ever starts, and the master is deaf from then on
@pytest.mark.parametrize("bed", ["patched"], indirect=True)
def test_the_bus_is_restarted_meanwhile(root: Path, bed: Bed) -> None:
    """Senders find the new bus; none hangs, none sends twice or torn, and what was sent afterwards arrives."""
    with ExitStack() as stack:
        traffic = Traffic(bed, root, stack)
        traffic.send(LASTING, PAUSE_S)
        (pid,) = event_bus.buses(bed)
        until(lambda: psutil.Process(pid).cpu_times().user > 0.5, Deadline(30), lambda: "the bus has nothing to do")
        os.kill(pid, signal.SIGKILL)
        until(lambda: event_bus.buses(bed) not in ([], [pid]), Deadline(60), lambda: "the bus was not started again")
        failed = traffic.failed()
        found = traffic.heard()
    assert found["torn"] == 0
    assert len(found["heard"]) == SENDERS
    for sender, numbers in found["heard"].items():
        assert numbers == sorted(set(numbers)), sender
        assert numbers[-1] == LASTING - 1, sender
        # beside those that failed, what was on its way
        assert len(numbers) + failed[int(sender)] <= LASTING, sender
