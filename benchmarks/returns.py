"""What one return costs the master: CPU of all its processes, by process, for jobs that all minions return at once.

The minions are those of `harness.saltprocess.pump`. A round is one job of `test.ping` for all of them; its CPU
is what the master's processes used from before the first return until the bus is quiet again, without the publication.
"""

from __future__ import annotations

import hashlib
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self

import psutil

from benchmarks.benchmark import Benchmark, BenchmarkError, Figure, Samples, at_least, at_most, interleave
from harness.bed import Bed, BedSettings
from harness.paths import TREES
from harness.saltprocess.patched import Pump
from harness.samples.monitor import title_role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.benchmark import Options

PUBLISH_S = 300.0
SETTLE_S = 0.5
SETTLED_CPU_S = 0.05
HANDLER = {"rate_limiting": {"criteria": "capacity", "max_minion_jobs": 10**6}}
ROLES = {
    "workers": "MWorker",
    "queue": "MWorkerQueue",
    "bus": "EventPublisher",
    "batch": "BatchManager",
    "monitor": "EventMonitor",
}
WORDS = {
    "workers": "its workers",
    "queue": "its queue of requests",
    "bus": "its event bus",
    "batch": "its batch manager",
    "monitor": "its event monitor",
    "others": "all its other processes",
}
TOTAL = Figure("total", "CPU of the master for a return, {minions} minions", "ms", aim=at_most(1.2))
PARTS = {name: Figure(name, f"of it {words}", "ms") for name, words in WORDS.items()}
MORE = Figure("handler", "CPU more for a return with the job handler on", "ms", aim=at_most(0.3))
RATE = Figure("rate", "returns per second of the master's CPU", "/s", aim=at_least(830))


@dataclass(frozen=True)
class Master:
    """One master under measurement and the minions that return to it."""

    name: str
    minions: int
    bed: Bed
    pump: Pump

    @classmethod
    @contextmanager
    def started(cls, name: str, tree: str, limits: dict[str, Any], folder: Path, minions: int) -> Iterator[Self]:
        """Start the master, then the pump; stop both in the end."""
        settings = BedSettings(
            TREES[tree], folder / name, master_options=limits, pillar="none", postgres="none", api=None
        )
        with Bed(settings) as bed, Pump(bed, minions, bed.temporary / "pump") as pump:
            yield cls(name, minions, bed, pump)

    def _settled(self) -> dict[str, float]:
        """Return the CPU seconds of each role once the master rests."""
        used = _cpu_s(self.bed.master_pid)
        while True:
            time.sleep(SETTLE_S)
            before, used = used, _cpu_s(self.bed.master_pid)
            if sum(used.values()) - sum(before.values()) < SETTLED_CPU_S:
                return used

    def _publish(self) -> str:
        """Publish a job for all minions and return its id."""
        done = self.bed.salt(["--async", "*", "test.ping"], timeout=PUBLISH_S)
        jid = done.stdout.strip().rpartition(" ")[2]
        if not jid.isdigit():
            raise BenchmarkError(f"{self.name} published nothing: {done.stdout.strip()} {done.stderr.strip()}")
        return jid

    def round(self, _turn: int) -> dict[str, float]:
        """Let all minions return one job; return the CPU of each role in ms for a return."""
        jid = self._publish()
        before = self._settled()
        self.pump.returns(jid)
        after = self._settled()
        self.check(jid)
        return {role: (used - before.get(role, 0.0)) * 1000 / self.minions for role, used in after.items()}

    def check(self, jid: str) -> None:
        """Raise BenchmarkError unless every return is in the job cache."""
        digest = hashlib.sha256(jid.encode()).hexdigest()
        kept = len(list((self.bed.master.job_cache / digest[:2] / digest[2:]).glob("*/return.p")))
        if kept != self.minions:
            raise BenchmarkError(f"{self.name} kept {kept:,} of {self.minions:,} returns of job {jid}.")


def _cpu_s(root: int) -> dict[str, float]:
    """Return the CPU seconds that the master with this first process has used so far, by role."""
    first = psutil.Process(root)
    used: dict[str, float] = {}
    for one in (first, *first.children(recursive=True)):
        # a command that a worker has called may end at any moment
        with suppress(psutil.NoSuchProcess):
            role, times = title_role(" ".join(one.cmdline()).rstrip()), one.cpu_times()
            used[role] = used.get(role, 0.0) + times.user + times.system
    return used


def run(options: Options) -> dict[Figure, Samples]:
    """Let all minions return `options.rounds` jobs of each master, after one that is not counted."""
    with TemporaryDirectory(prefix="saltbed-") as folder, ExitStack() as stack:
        masters = [
            stack.enter_context(Master.started(name, tree, limits, Path(folder), options.minions))
            for name, tree, limits in (("stock", "stock", {}), ("ours", "patched", {}), ("handler", "patched", HANDLER))
        ]
        found = interleave({master.name: master.round for master in masters}, options, warm=1)
    sums = {name: [sum(one.values()) for one in rounds] for name, rounds in found.items()}
    return {
        TOTAL: Samples(sums["ours"], sums["stock"]),
        **{
            figure: Samples(*([part(one, name) for one in found[side]] for side in ("ours", "stock")))
            for name, figure in PARTS.items()
        },
        MORE: Samples([more - less for more, less in zip(sums["handler"], sums["ours"], strict=True)]),
        RATE: Samples(*([1000 / one for one in sums[side]] for side in ("ours", "stock"))),
    }


def part(used: dict[str, float], name: str) -> float:
    """Return what one part of the master used, of all that its roles used."""
    if name in ROLES:
        return used.get(ROLES[name], 0.0)
    return sum(value for role, value in used.items() if role not in ROLES.values())


RETURNS = Benchmark(
    name="returns",
    about="what one return costs the master, by process",
    run=run,
    figures=(TOTAL, *PARTS.values(), MORE, RATE),
    minions=1000,
    rounds=5,
    minutes=4,
)
