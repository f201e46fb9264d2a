"""What one return costs the master: CPU of all its processes, by process, for jobs that all minions return at once.

The minions are those of `harness.saltprocess.pump`. A round is one job of `test.ping` for all of them; its CPU
is what the master's processes used from before the first return until the bus is quiet again, without the publication.
"""

from __future__ import annotations

import hashlib
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self

from benchmarks import profile
from benchmarks.benchmark import Benchmark, BenchmarkError, Figure, Samples, at_least, at_most, interleave
from harness.bed import Bed, BedSettings
from harness.paths import TREES
from harness.saltprocess.patched import Pump

if TYPE_CHECKING:
    from types import TracebackType

    from benchmarks.benchmark import Options

PUBLISH_S = 300.0
SETTLE_S = 0.5
SETTLED_CPU_S = 0.05
PROFILED_ROUNDS = 5
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


class Master:
    """One master under measurement and the minions that return to it; a context manager."""

    def __init__(self, name: str, tree: str, limits: dict[str, Any], folder: Path, options: Options) -> None:
        """Take the settings; nothing is started before the context is entered."""
        self.name = name
        self.options = options
        self._stack = ExitStack()
        self.bed = Bed(
            BedSettings(
                tree=TREES[tree],
                folder=folder / name,
                master_options=limits,
                pillar="none",
                postgres="none",
                api=None,
            )
        )

    def __enter__(self) -> Self:
        """Start the master, then the pump."""
        with ExitStack() as stack:
            stack.enter_context(self.bed)
            self._pump = stack.enter_context(Pump(self.bed, self.options.minions, self.bed.temporary / "pump"))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop both."""
        self._stack.__exit__(kind, error, trace)

    def returns(self, jid: str) -> None:
        """Let all minions return a job."""
        self._pump.returns(jid)

    def _settled(self) -> dict[str, float]:
        """Return the CPU seconds of each role once the master rests."""
        used = profile.cpu_s(self.bed.master_pid)
        while True:
            time.sleep(SETTLE_S)
            before, used = used, profile.cpu_s(self.bed.master_pid)
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
        self.returns(jid)
        after = self._settled()
        self.check(jid)
        return {role: (used - before.get(role, 0.0)) * 1000 / self.options.minions for role, used in after.items()}

    def check(self, jid: str) -> None:
        """Raise BenchmarkError unless every return is in the job cache."""
        digest = hashlib.sha256(jid.encode()).hexdigest()
        kept = len(list((self.bed.master.job_cache / digest[:2] / digest[2:]).glob("*/return.p")))
        if kept != self.options.minions:
            raise BenchmarkError(f"{self.name} kept {kept:,} of {self.options.minions:,} returns of job {jid}.")

    def profile(self, folder: Path) -> None:
        """Write profiles of all processes of a few rounds."""
        with profile.profiled(self.bed.master_pid, folder):
            for _ in range(PROFILED_ROUNDS):
                self.returns(self._publish())


def run(options: Options) -> dict[Figure, Samples]:
    """Let all minions return `options.rounds` jobs of each master, after one that is not counted."""
    with TemporaryDirectory(prefix="saltbed-") as folder, ExitStack() as stack:
        masters = [
            stack.enter_context(Master(name, tree, limits, Path(folder), options))
            for name, tree, limits in (("stock", "stock", {}), ("ours", "patched", {}), ("handler", "patched", HANDLER))
        ]
        found = interleave({master.name: master.round for master in masters}, options, warm=1)
        for master in masters if options.profile else ():
            master.profile(options.output / "profiles" / f"returns-{master.name}")
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
