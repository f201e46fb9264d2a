"""Samples of CPU and memory of a bed's processes: `python -m harness.samples.monitor`.

A process of its own, so that it neither waits for the harness nor slows it down. Once a second it reads the tree of
processes below the warden and writes a row for each, to `samples/processes.csv`.

`cpu_s` is what a process used itself, plus what its children used that ended without having been sampled to the last:
the kernel hands that to the parent that waits for them. So a job that lives for a tenth of a second is counted,
nothing is counted twice, and the figures of all processes, each at its last sample, add up to the CPU of the whole
bed. `rss_kb` counts shared pages in each process.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from harness.processes.warden import ROSTER
from harness.samples import MachineSample, ProcessSample, SampleFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from harness.processes.processes import Process

INTERVAL_S = 1.0
FILE = "processes.csv"
MASTER = "master"
# what outlived the process that started it, and was never sampled before
ORPHAN = "orphan"
# the last word of a title that Salt gave to a process: "… salt-master … MWorker-default-3", "EventPublisher"
TITLE = re.compile(r"(?:^|\bsalt-master\b.* )(?P<role>[A-Za-z_]+)(?:[-.][-.\w]*)?$")
MAIN = "MainProcess"


@dataclass(frozen=True)
class Reading:
    """What the kernel says of one process: `own_s` is its CPU, `children_s` that of children that it waited for."""

    pid: int
    created: float
    parent: int
    title: str
    own_s: float
    children_s: float
    rss_kb: int


@dataclass
class Account:
    """What is known of a process between samples.

    `sampled_s` is the CPU of its ended children that stands in their own samples.
    """

    reading: Reading
    role: str
    sampled_s: float = 0.0
    cpu_s: float = 0.0

    def update(self, reading: Reading) -> None:
        """Take a new reading; the sum never falls, even if the kernel drops the time of a child."""
        self.reading = reading
        self.cpu_s = max(self.cpu_s, reading.own_s + reading.children_s - self.sampled_s)


def title_role(title: str) -> str:
    """Return the role in the title of a process of the master, `master` for its main process."""
    match = TITLE.search(title)
    return match["role"] if match and match["role"] != MAIN else MASTER


class Accounts:
    """Turns readings of a tree of processes into samples."""

    def __init__(self, root: int) -> None:
        """Account for the processes below `root`."""
        self._root = root
        self._accounts: dict[int, Account] = {}

    def samples(self, now: float, readings: Iterable[Reading], roster: Mapping[int, str]) -> list[ProcessSample]:
        """Return a sample of each process; `roster` has the roles of those that the warden started."""
        current = {reading.pid: reading for reading in readings}
        self._close(
            {
                pid: account.reading
                for pid, account in self._accounts.items()
                if pid not in current or current[pid].created != account.reading.created
            }
        )
        roles: dict[int, str] = {}
        for reading in current.values():
            role = self._role(reading, current, roster, roles)
            account = self._accounts.setdefault(reading.pid, Account(reading, role))
            account.role = role
            account.update(reading)
        return [
            ProcessSample(now, account.role, pid, round(account.cpu_s, 2), account.reading.rss_kb)
            for pid, account in self._accounts.items()
        ]

    def _close(self, ended: Mapping[int, Reading]) -> None:
        """Drop processes that ended: the children of their parents now include what stands in their samples.

        A parent that ended as well has handed that on to its own.
        """
        for pid in ended:
            del self._accounts[pid]
        for last in ended.values():
            parent = last.parent
            # a parent's id may have gone to one of its descendants
            for _ in ended:
                if parent not in ended:
                    break
                parent = ended[parent].parent
            if parent in self._accounts:
                self._accounts[parent].sampled_s += last.own_s + last.children_s

    def _role(
        self, reading: Reading, current: Mapping[int, Reading], roster: Mapping[int, str], roles: dict[int, str]
    ) -> str:
        """Return a process's role: that of the process that the warden started, or within the master Salt's title."""
        origin = self._origin(reading, current, roster, roles)
        return title_role(reading.title) if origin == MASTER else origin

    def _origin(
        self, reading: Reading, current: Mapping[int, Reading], roster: Mapping[int, str], origins: dict[int, str]
    ) -> str:
        """Return the role of the process that the warden started and that this one descends from."""
        chain: list[int] = []
        pid = reading.pid
        while pid not in origins and pid not in roster and pid in current and len(chain) < len(current):
            chain.append(pid)
            pid = current[pid].parent
        known = self._accounts.get(reading.pid)
        found = origins.get(pid) or roster.get(pid)
        if found is None:
            found = ORPHAN if known is None else known.role
        origins.update(dict.fromkeys(chain, found))
        return found


def read(root: psutil.Process) -> list[Reading]:
    """Read the processes below `root`."""
    readings: list[Reading] = []
    for process in root.children(recursive=True):
        # it may end at any moment
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied), process.oneshot():
            times = process.cpu_times()
            readings.append(
                Reading(
                    process.pid,
                    process.create_time(),
                    process.ppid(),
                    # a title that is shorter than the command line leaves empty arguments behind it
                    " ".join(process.cmdline()).rstrip(),
                    times.user + times.system,
                    times.children_user + times.children_system,
                    process.memory_info().rss // 1024,
                )
            )
    return readings


def read_roster(path: Path) -> dict[int, str]:
    """Return the roles of the processes that the warden started."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    return {int(pid): role for pid, _, role in (line.partition(",") for line in lines)}


def written(path: Path) -> int:
    """Return how much a monitor has written, which grows every second: its sign of life."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def watch(warden: int, roster: Path, output: Path, stop: Callable[[float], bool]) -> None:
    """Write samples every second until the warden is gone or `stop`, which waits for so many seconds, returns true."""
    accounts = Accounts(warden)
    root = psutil.Process(warden)
    samples = SampleFile(output, ProcessSample)
    due = time.monotonic()
    try:
        while root.is_running():
            for sample in accounts.samples(time.time(), read(root), read_roster(roster)):
                samples.write(sample)
            due = max(due + INTERVAL_S, time.monotonic())
            # on a busy machine the time may be over already
            if stop(max(0.0, due - time.monotonic())):
                return
    finally:
        samples.close()


def machine(now: float) -> MachineSample:
    """Return the state of the machine at `now`, seconds since the epoch; its monotonic clock is read here.

    The bed's own processes are in `processes.csv`. All other work of the machine is that of other programs, and makes a
    run slower than the Salt that it measures.
    """
    times = psutil.cpu_times()
    with warnings.catch_warnings():
        # a container may hide how much was swapped; then nothing was
        warnings.simplefilter("ignore", RuntimeWarning)
        swapped = psutil.swap_memory().sout
    return MachineSample(
        time=now,
        monotonic=time.monotonic(),
        busy_s=times.user + times.nice + times.system + times.irq + times.softirq,
        stolen_s=times.steal,
        harness_s=time.process_time(),
        available_mb=psutil.virtual_memory().available // 2**20,
        swapped_mb=swapped // 2**20,
        load_average=os.getloadavg()[0],
    )


@dataclass(frozen=True)
class Monitor:
    """A monitor at work, and the file that it writes."""

    process: Process
    path: Path


def command(warden: int, folder: Path, samples: Path) -> list[str]:
    """Return the command line that watches the processes of a warden, whose temporary folder is `folder`."""
    roster, output = folder / ROSTER, samples / FILE
    return [sys.executable, "-m", "harness.samples.monitor", str(warden), str(roster), str(output)]


def main(warden: str, roster: str, output: str) -> int:
    """Write samples of the processes below the warden, with the roles of its roster, until SIGTERM."""
    # not signal.sigtimedwait: after a SIGSTOP and a SIGCONT it reports a signal although none has come
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        watch(int(warden), Path(roster), Path(output), lambda seconds: bool(select.select([woken], [], [], seconds)[0]))
    except (OSError, psutil.NoSuchProcess) as error:
        print(f"No more samples in {output}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
