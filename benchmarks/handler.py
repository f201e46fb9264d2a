"""The job handler: what its parts cost, and by how much it slows an unloaded master's publications down.

The parts have nothing of stock to be divided by. One of them is a minute of 5,000 return events a second through a
real event bus. Publications are timed against a stock master beside it, in turn.
"""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.benchmark import Benchmark, BenchmarkError, Figure, Samples, at_most, exactly, interleave
from harness.bed import Bed, BedSettings
from harness.paths import TREES
from harness.saltprocess.process import SaltProcess

if TYPE_CHECKING:
    from benchmarks.benchmark import Options

QUEUED = 10_000
MANY = 300_000
MANY_ROUNDS = 5
RULES = 1000
FEW = 10
EVENTS_PER_S = 5000
FEED_S = 60
LIMITS = {"rate_limiting": {"criteria": "capacity", "max_minion_jobs": 10**6}}
# times are CPU time, but for `submit`, which waits for a socket
PARTS = (
    Figure("decide", "decision and leases, {minions} targets, p99", "ms", "p99", at_most(5)),
    Figure("rules", f"decision with {RULES:,} rules by function, p99", "ms", "p99", at_most(10)),
    Figure("rules-target", f"decision with {RULES:,} rules by target, p99", "ms", "p99", at_most(10)),
    Figure("release", "end of {minions} leases, p99", "ms", "p99", at_most(5)),
    Figure("submit", "place and submission, {minions} targets, p99", "ms", "p99"),
    Figure("submit-many", f"place and submission, {MANY:,} targets, longest", "ms", "max"),
)
LATE = Figure("submit-many-late", f"of {MANY_ROUNDS} such, not answered in time", aim=exactly(0))
QUEUE = Figure("queue", f"{QUEUED:,} queued jobs of {{minions}} targets", "MB", aim=at_most(20))
START = Figure("start", f"start with {QUEUED:,} queued jobs of {{minions}} targets", "s", aim=at_most(10))
HEAR = Figure("hear", "{minions} returns read and released, no bus", "ms")
LOST = Figure("feed-lost", f"events lost of {EVENTS_PER_S:,} a second for {FEED_S} s", aim=exactly(0))
LAG = Figure("feed-lag", f"lag, {EVENTS_PER_S:,} events a second, largest", "s", "max", at_most(1))
CORES = Figure("feed-cores", f"the handler's CPU, {EVENTS_PER_S:,} events a second", "cores", aim=at_most(0.8))
BUS = Figure("feed-bus", f"the event bus's CPU, {EVENTS_PER_S:,} events a second", "cores")
PUBLISH_FEW = Figure("publish-few", f"publication on an idle master, {FEW} keys", "ms")
PUBLISH = Figure("publish", "publication on an idle master, {minions} keys", "ms")


def run(options: Options) -> dict[Figure, Samples]:
    """Measure the parts with `options.minions` targets, then `options.rounds` pairs of publications."""
    with SaltProcess("patched", "benchmarks.tasks.handler", {}) as parts:
        seconds = parts.run("decide", options.minions, 5 * options.rounds)[1]
        seconds |= parts.run("rules", options.minions, RULES, options.rounds)[1]
        seconds["submit"] = parts.run("submit", options.minions, 5 * options.rounds)[1]["seconds"]
        many = parts.run("submit", MANY, MANY_ROUNDS)[1]
        seconds["submit-many"] = many["seconds"]
        queued = parts.run("queue", options.minions, QUEUED)[1]
        returned = parts.run("hear", options.minions, options.rounds)[1]
    with SaltProcess("patched", "benchmarks.tasks.handler", {}) as bus:
        heard = bus.run("feed", EVENTS_PER_S, FEED_S)[1]
    return {
        **{figure: Samples([one * 1000 for one in seconds[figure.key]]) for figure in PARTS},
        LATE: Samples([many["late"]]),
        QUEUE: Samples([queued["grown"]]),
        START: Samples([queued["start"]]),
        HEAR: Samples([one * 1000 for one in returned]),
        LOST: Samples([EVENTS_PER_S * FEED_S - heard["heard"]]),
        LAG: Samples(heard["lags"]),
        CORES: Samples([heard["cpu"] / FEED_S]),
        BUS: Samples([heard["bus_cpu"] / FEED_S]),
        PUBLISH_FEW: _publications(FEW, options),
        PUBLISH: _publications(options.minions, options),
    }


def _publications(keys: int, options: Options) -> Samples:
    """Time publications to so many minions, none of them connected, on two idle masters in turn, in milliseconds."""
    with TemporaryDirectory(prefix="saltbed-") as folder, ExitStack() as stack:
        contenders = {}
        for tree, limits in (("stock", {}), ("patched", LIMITS)):
            place = Path(folder) / tree
            bed = stack.enter_context(
                Bed(BedSettings(TREES[tree], place, master_options=limits, pillar="none", postgres="none", api=None))
            )
            # all of them the master's own
            for number in range(keys):
                shutil.copy(bed.master.pki_dir / "master.pub", bed.master.pki_dir / "minions" / f"minion-{number:05d}")
            call = {"what": "publish", "config": str(bed.master.config_dir / "master")}
            contender = stack.enter_context(SaltProcess(tree, "benchmarks.tasks.calls", call))
            contenders[tree] = partial(_publish, contender)
        found = interleave(contenders, options)
        return Samples(found["patched"], found["stock"])


def _publish(contender: SaltProcess, _turn: int) -> float:
    seconds, jid = contender.run()
    if jid == "0":
        raise BenchmarkError(f"The {contender.tree} master published nothing.")
    return seconds * 1000


HANDLER = Benchmark(
    name="handler",
    about="job handler: its parts, and publications on an idle master",
    run=run,
    figures=(*PARTS, LATE, QUEUE, START, HEAR, LOST, LAG, CORES, BUS, PUBLISH_FEW, PUBLISH),
    minions=10_000,
    rounds=40,
    minutes=4,
)
