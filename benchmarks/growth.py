"""Whether a master grows: the memory of each of its processes after many jobs, beside what it was after the first ones.

The minions are those of `harness.pump`, and a round is two hundred jobs that all of them return: with the
usual hundred minions and ten rounds two hundred thousand returns over two thousand jobs. The first round is what the
last one is compared with: by then whatever is remembered with a limit has reached it.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import psutil

from benchmarks import profile
from benchmarks.benchmark import Benchmark, BenchmarkError, Figure, Samples, at_most, interleave
from benchmarks.returns import Master
from harness.saltprocess.process import SaltProcess

if TYPE_CHECKING:
    from benchmarks.benchmark import Options

JOBS: Final = 200
MB: Final = 2**20
WORKER: Final = "MWorker"
GROWTH: Final = Figure("growth", "growth of the process that grew most, all jobs", "%", "max", aim=at_most(3))
WORKERS: Final = Figure("workers", "growth of the worker that grew most", "%", "max", aim=at_most(3))
LARGEST: Final = Figure("largest", "memory of the largest process in the end", "MB", "max")


def run(options: Options) -> dict[Figure, Samples]:
    """Let all minions return `options.rounds` times two hundred jobs to a patched master."""
    with TemporaryDirectory(prefix="saltbed-") as folder, ExitStack() as stack:
        master = stack.enter_context(Master("ours", "patched", {}, Path(folder), options))
        config = {"config": str(master.bed.master.config_dir / "master")}
        publisher = stack.enter_context(SaltProcess("patched", "benchmarks.tasks.publish", config))
        roles = profile.processes(master.bed.master_pid)

        def after_a_round(_turn: int) -> dict[int, int]:
            _round(master, publisher)
            return {pid: psutil.Process(pid).memory_info().rss for pid in roles}

        memory = interleave({"ours": after_a_round}, options)["ours"]
    first, last = memory[0], memory[-1]
    grown = {pid: (last[pid] - first[pid]) * 100 / first[pid] for pid in roles}
    return {
        GROWTH: Samples(list(grown.values())),
        WORKERS: Samples([share for pid, share in grown.items() if roles[pid] == WORKER]),
        LARGEST: Samples([rss / MB for rss in last.values()]),
    }


def _round(master: Master, publisher: SaltProcess) -> None:
    """Publish the jobs one after the other, each to its last return; raises BenchmarkError if one is not kept."""
    for _ in range(JOBS):
        jid = publisher.run()[1]
        if jid == "0":
            raise BenchmarkError("The master published nothing; its log says why.")
        master.returns(jid)
        master.check(jid)


GROWTHS = Benchmark(
    name="growth",
    about="the memory of a master's processes over two thousand jobs",
    run=run,
    figures=(GROWTH, WORKERS, LARGEST),
    minions=100,
    rounds=10,
    minutes=12,
)
