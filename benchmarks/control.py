"""The same tree against itself: how often a report finds a difference where there is none.

One load run of `stock,stock` with as many repeats as there are rounds gives pairs that took turns. Each pair is judged
as a report of one run would judge it, then groups of pairs as a report of repeats would, and all repeats at once. The
run stays beside the measurement, so that its figures can be looked at.
"""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from benchmarks.benchmark import Benchmark
from benchmarks.errors import BenchmarkError
from benchmarks.figure import Figure, Samples, at_most
from harness import figures
from harness.commands import campaign
from harness.progress import Progress
from harness.report import cpu, theme
from harness.results import comparison, differences, machine
from harness.results import result as results

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from benchmarks.options import Options

SCENARIO = "quick"
TREES = ("stock", "stock")
LABELS = ("stock", "stock-2")
GROUPS = (2, 3, 5)
"""Repeats that a report may have, judged beside single pairs."""

COMPARED = Figure("compared", "figures compared in single pairs of the same tree")
CALLED = Figure("called", "figures called different in single pairs")
SHARE = Figure("share", "share of figures called different in single pairs", "%", aim=at_most(0.01))
REPEATED = Figure("repeated-compared", "figures compared in repeats of the same tree")
REPEATED_CALLED = Figure("repeated-called", "figures called different in repeats")
REPEATED_SHARE = Figure("repeated-share", "share of figures called different in repeats", "%", aim=at_most(0.01))
BLIND = Figure("blind", "single pairs that told nothing, as the machine was busy")
CPU = Figure("cpu", "master CPU per return of the same tree, larger / smaller", "x", "max")
LATENCY = Figure("latency", "median client latency of the same tree, larger / smaller", "x", "max")


def run(options: Options) -> dict[Figure, Samples]:
    """Run the same tree twice, `options.rounds` times in turn, and count what is called different."""
    request = campaign.RunRequest(
        SCENARIO, TREES, options.output / "control", "benchmarks control", options.minions, repeats=options.rounds
    )
    finished = campaign.run(request, Progress(io.StringIO()), datetime.now(UTC))
    return count(results.load(finished.folder)["repeats"], machine.cores(finished.folder))


def count(each: Sequence[Mapping[str, Mapping[str, Any]]], cores: int) -> dict[Figure, Samples]:
    """Return the figures of a run's repeats, in their order, on a machine of so many cores."""
    blind = [differences.busy([*one.values()], cores) for one in each]
    # pairs from a busy machine are left out, as no figure of them was compared
    single = [called(each[place : place + 1], cores) for place in range(len(each)) if not blind[place]]
    groups = [called(group, cores) for size in GROUPS for group in _groups(each, size)]
    if len(each) not in {1, *GROUPS}:
        groups.append(called(each, cores))
    return {
        **_counts((COMPARED, CALLED, SHARE), single),
        **_counts((REPEATED, REPEATED_CALLED, REPEATED_SHARE), groups),
        BLIND: Samples([sum(blind)]),
        CPU: Samples([_ratio(one, "master_cpu_ms_per_return") for one in each]),
        LATENCY: Samples([_ratio(one, "client_latency_s.p50") for one in each]),
    }


def called(each: Sequence[Mapping[str, Mapping[str, Any]]], cores: int) -> tuple[int, int]:
    """Return how many figures a report of these repeats compares, and how many of them it calls different."""
    (pair,) = differences.pairs(each, [LABELS], cores)
    shown = [theme.group(role) for one in each for values in one.values() for role in values["cpu_s"]]
    roles = sorted(set(shown), key=theme.order)
    changes = [comparison.change(line) for line in pair.lines]
    changes += [change for _, _, change in cpu.cpu_rows(each, roles, [pair])]
    compared = [change for change in changes if change is not None]
    return len(compared), sum(change not in {comparison.ALIKE, comparison.UNTOLD} for change in compared)


def _groups(each: Sequence[Mapping[str, Any]], size: int) -> Iterator[Sequence[Mapping[str, Any]]]:
    """Return the repeats that follow each other in groups of one size; those that are left over belong to none."""
    return (each[place : place + size] for place in range(0, len(each) - size + 1, size))


def _counts(of: tuple[Figure, Figure, Figure], found: Sequence[tuple[int, int]]) -> dict[Figure, Samples]:
    compared, different = sum(one for one, _ in found), sum(one for _, one in found)
    if not compared:
        raise BenchmarkError(f"There were no {of[0].what}: take two rounds or more, with nothing else on the machine.")
    share = different / compared
    return dict(zip(of, (Samples([value]) for value in (compared, different, share)), strict=True))


def _ratio(one: Mapping[str, Mapping[str, Any]], name: str) -> float:
    """Return the larger value of a pair divided by the smaller one, 1 where one is missing."""
    line = differences.judge(figures.BY_NAME[name], *([one[label]] for label in LABELS))
    if line is None or not line.ratio:
        return 1.0
    return max(line.ratio, 1 / line.ratio)


CONTROL = Benchmark(
    "control",
    "The same tree against itself: what reports call different where nothing is.",
    run,
    (COMPARED, CALLED, SHARE, REPEATED, REPEATED_CALLED, REPEATED_SHARE, BLIND, CPU, LATENCY),
    minions=100,
    rounds=10,
    minutes=20,
)
