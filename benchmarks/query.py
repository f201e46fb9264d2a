"""Queries of 10,000 nodes and 10,000 jobs, beside what Salt has for the same: `cache.grains` and `manage.status`.

The master runs, with nobody connected, so `manage.status` asks 10,000 minions of which none answers, and waits as long
as it ever does; `cache.grains` is given the same grains as the queries.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.benchmark import Benchmark, BenchmarkError, Figure, Samples, at_most, interleave
from harness.bed import Bed, BedSettings
from harness.bed.made_up import add_mines, add_returns, fill
from harness.paths import TREES
from harness.saltprocess.process import SaltProcess

if TYPE_CHECKING:
    from benchmarks.benchmark import Options

QUESTIONS = {
    "sixteen": "16 fields of {minions} nodes",
    "mapped": "16 fields of {minions} nodes, mmap_cache",
    "one": "one node by name",
    "names": "names of {minions} nodes",
    "filter": "name and OS of the nodes that a filter finds",
    "os": "operating systems of {minions} nodes",
    "jobs": "five fields of {minions} jobs",
    "sites": "16 fields and 7 of a site of {minions} nodes",
    "sorted": "16 fields of {minions} nodes, sorted",
    "count": "{minions} nodes counted by os,osrelease",
    "newest": "the usual fields of the newest 50 of {minions} jobs",
    "cache.grains": "beside it: salt-run cache.grains",
    "manage.status": "beside it: salt-run manage.status",
}
# what the queries are compared with, in the place of stock
SALTS_OWN = ("cache.grains", "manage.status")
TIME_AIMS = {
    "sixteen": at_most(0.4),
    "mapped": at_most(1.0),
    "sites": at_most(1.0),
    "count": at_most(0.3),
    "newest": at_most(0.5),
}
MEMORY_AIMS = {"sixteen": at_most(30)}
TIME = {name: Figure(f"{name}-time", what, "s", aim=TIME_AIMS.get(name)) for name, what in QUESTIONS.items()}
MEMORY = {
    name: Figure(f"{name}-memory", f"{what}: memory", "MB", "max", MEMORY_AIMS.get(name))
    for name, what in QUESTIONS.items()
}
SORTED = Figure("sorted-to-sixteen", "16 fields, sorted / not sorted", "x", aim=at_most(1.3))
SHARE = {name: Figure(f"sixteen-to-{name}", f"16 fields of {{minions}} nodes / {name}", "x") for name in SALTS_OWN}


def run(options: Options) -> dict[Figure, Samples]:
    """Measure all questions in turn, `options.rounds` times."""
    with TemporaryDirectory(prefix="saltbed-") as folder:
        settings = BedSettings(tree=TREES["patched"], folder=Path(folder), pillar="none", postgres="none", api=None)
        with Bed(settings) as bed:
            fill(bed.master.cache_dir, bed.master.pki_dir, options.minions)
            add_mines(bed.master.cache_dir, options.minions)
            add_returns(bed.master.cache_dir, options.minions)
            config = {"config": str(bed.master.config_dir / "master")}
            with SaltProcess("patched", "benchmarks.tasks.query", config) as contender:
                found = interleave({name: partial(_ask, contender, name) for name in QUESTIONS}, options)
    items = {count for _, _, count in found["sixteen"]}
    if items != {options.minions}:
        raise BenchmarkError(f"The query gave {items} of {options.minions} nodes; this is a fault of the patch.")
    seconds = {name: [took for took, _, _ in series] for name, series in found.items()}
    return {
        **{TIME[name]: Samples(series) for name, series in seconds.items()},
        **{MEMORY[name]: Samples([more for _, more, _ in series]) for name, series in found.items()},
        **{
            figure: Samples([mine / theirs for mine, theirs in zip(seconds["sixteen"], seconds[name], strict=True)])
            for name, figure in SHARE.items()
        },
        SORTED: Samples([mine / plain for mine, plain in zip(seconds["sorted"], seconds["sixteen"], strict=True)]),
    }


def _ask(contender: SaltProcess, name: str, _turn: int) -> tuple[float, float, int]:
    """Return the seconds, the megabytes and the items of a question, asked in a process of its own."""
    took, _cpu, more, count = contender.run(name)[1]
    return took, more, count


QUERY = Benchmark(
    name="query",
    about="queries of nodes, systems and jobs beside cache.grains and manage.status",
    run=run,
    figures=(*TIME.values(), *MEMORY.values(), *SHARE.values(), SORTED),
    minions=10_000,
    rounds=5,
    minutes=5,
    extensions=("query",),
)
