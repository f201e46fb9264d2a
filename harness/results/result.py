"""The result of a load run: figures computed from its raw samples, and nothing else.

The same samples always give the same result, so it can be computed again (`python -m harness result RUN`) when a
definition gets better. `harness.figures` holds the definition of each field.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness import figures
from harness.errors import SettingsError
from harness.results import answers, cpu, evidence, runs
from harness.scenarios import scenario as scenarios
from harness.scenarios import thresholds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from evil_minions.samples import JobRow, ReturnRow
    from harness.results.evidence import Evidence
    from harness.scenarios.scenario import Scenario
    from harness.scenarios.thresholds import Verdict

FORMAT = 1
FIND_JOB = "saltutil.find_job"
# of `run.json`: what changes while a run lasts, or tells nothing about it afterwards
PASSING = frozenset({"status", "problem", "host", "owner"})


@dataclass(frozen=True)
class Percentiles:
    """Percentiles of times in seconds; None where there is no sample."""

    p50: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True)
class FunctionResult:
    """The figures of one function: what clients asked for, what the fleet executed, and what became of its returns."""

    jobs_requested: int
    publications: int
    executions: int
    returns: int
    return_sends: int
    returns_acknowledged: int
    returns_unacknowledged: int
    client_errors: int
    client_latency_s: Percentiles
    acknowledgement_s: Percentiles


@dataclass(frozen=True)
class TreeResult:
    """The figures of one tree; see `harness.figures.FIGURES` for the definition of each.

    `cpu_s` and `peak_memory_mb` are by role of process, `per_function` by function, `time` holds the lengths of the
    phases.
    """

    minions: int
    ramp_up_s: float
    kb_per_minion: float
    fleet_cpu_ms_per_return: float | None
    master_cpu_ms_per_return: float | None
    jobs_requested: int
    publications: int
    publications_per_job: float | None
    returns_expected: int
    returns_kept: int
    returns_lost: int
    returns_per_s: float | None
    acknowledged_ratio: float | None
    duplicate_ratio: float | None
    find_jobs: int
    find_jobs_per_execution: float | None
    client_requests: int
    client_errors: int
    longest_wait_s: float | None
    client_latency_s: Percentiles
    acknowledgement_s: Percentiles
    settle_s: float
    settled_in_time: bool
    peak_memory_mb: dict[str, float]
    cpu_s: dict[str, float]
    per_function: dict[str, FunctionResult]
    time: dict[str, float]


@dataclass(frozen=True)
class Result:
    """The result of a run: each tree's figures, what the scenario asks of them, and patched divided by stock."""

    run: runs.Run
    scenario: Scenario
    trees: dict[str, dict[str, Any]]
    comparison: dict[str, float]
    verdicts: tuple[Verdict, ...]

    @property
    def passed(self) -> bool:
        """Return whether every threshold was met."""
        return all(verdict.passed for verdict in self.verdicts)


def compute(folder: Path) -> Result:
    """Return the result of the run in `folder`, from its samples."""
    run = runs.read(folder)
    scenario = run.scenario(folder)
    trees = {
        tree: dataclasses.asdict(of_tree(evidence.read(folder / tree / "samples"), scenario)) for tree in run.trees
    }
    verdicts = thresholds.judge(scenario.thresholds, trees)
    return Result(run, scenario, trees, _comparison(trees), tuple(verdicts))


def write(result: Result, folder: Path) -> Path:
    """Write `result.json` into `folder` and return its path."""
    values = {
        "format": FORMAT,
        "run": {name: value for name, value in dataclasses.asdict(result.run).items() if name not in PASSING},
        "passed": result.passed,
        "thresholds": [dataclasses.asdict(verdict) for verdict in result.verdicts],
        "trees": result.trees,
        "comparison": result.comparison,
        "scenario": scenarios.dump(result.scenario),
    }
    path = folder / "result.json"
    path.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    return path


def of_tree(samples: Evidence, scenario: Scenario) -> TreeResult:
    """Return the figures of one tree from its samples."""
    timeline = samples.timeline
    jobs = samples.load_jobs()
    wanted = {jid: rows for jid, rows in jobs.items() if rows[0].fun in scenario.functions}
    # a return without an attempt was still waiting behind the minion's other requests when the run ended
    returns = [row for row in samples.returns if row.jid in jobs and row.attempts]
    sends = sum(row.attempts for row in returns)
    expected = _expected(wanted, returns)
    kept = len({(row.jid, row.minion) for row in samples.kept if row.jid in wanted})
    find_jobs = sum(row.targeted for rows in jobs.values() for row in rows if row.fun == FIND_JOB)
    useful = [row for row in returns if row.jid in wanted]
    used = cpu.seconds(samples.processes, timeline.load_start, timeline.settled)
    master_s = sum(value for role, value in used.items() if role not in cpu.OTHERS)
    last = max((row.time for row in useful if row.acknowledged), default=None)
    return TreeResult(
        minions=samples.fleet[-1].minions,
        ramp_up_s=_rounded(timeline.ready - timeline.fleet_start),
        kb_per_minion=_kb_per_minion(samples),
        fleet_cpu_ms_per_return=_ratio(_fleet_cpu_s(samples) * 1000, len(returns)),
        master_cpu_ms_per_return=_ratio(master_s * 1000, len(useful)),
        jobs_requested=len(samples.clients),
        publications=len(wanted),
        publications_per_job=_ratio(len(wanted), len(samples.clients)),
        returns_expected=expected,
        returns_kept=kept,
        returns_lost=expected - kept,
        returns_per_s=_ratio(kept, last - timeline.load_start) if last else None,
        acknowledged_ratio=_ratio(sum(row.acknowledged for row in returns), sends),
        duplicate_ratio=_ratio(sends - len(returns), len(returns)),
        find_jobs=find_jobs,
        find_jobs_per_execution=_ratio(find_jobs, expected),
        client_requests=len(samples.clients),
        client_errors=sum(bool(answer.error) for answer in samples.answers),
        longest_wait_s=None if (longest := answers.longest(samples.answers)) is None else _rounded(longest),
        client_latency_s=percentiles(row.latency_s for row in samples.clients),
        acknowledgement_s=percentiles(row.seconds for row in returns if row.acknowledged),
        settle_s=_rounded(timeline.settled - timeline.clients_done),
        settled_in_time=timeline.settled_in_time,
        peak_memory_mb=_peaks(samples),
        cpu_s={role: _rounded(value) for role, value in sorted(used.items())},
        per_function=_functions(samples, jobs, returns),
        time={
            "ramp_up_s": _rounded(timeline.ready - timeline.fleet_start),
            "load_s": _rounded(timeline.clients_done - timeline.load_start),
            "settle_s": _rounded(timeline.settled - timeline.clients_done),
        },
    )


def _expected(jobs: Mapping[str, list[JobRow]], returns: Iterable[ReturnRow]) -> int:
    """Return how many returns `jobs` should have brought: of the minions that each targeted when it was first seen.

    In a fleet that grows, minions that came a moment later may have answered as well.
    """
    answered = Counter(jid for jid, _ in {(row.jid, row.minion) for row in returns})
    return sum(max(sum(row.targeted for row in rows), answered[jid]) for jid, rows in jobs.items())


def percentiles(values: Iterable[float]) -> Percentiles:
    """Return the percentiles of raw samples, interpolated between the two nearest."""
    ordered = sorted(values)
    if not ordered:
        return Percentiles(None, None, None)
    if len(ordered) == 1:
        ordered *= 2
    cuts = statistics.quantiles(ordered, n=100, method="inclusive")
    return Percentiles(_rounded(cuts[49]), _rounded(cuts[94]), _rounded(cuts[98]))


def _kb_per_minion(samples: Evidence) -> float:
    """Return the memory at the first sample in which every minion is ready, before any load."""
    full = next((row for row in samples.fleet if row.ready >= row.minions), samples.fleet[-1])
    return _rounded((full.rss_kb - full.base_rss_kb) / full.minions)


def _fleet_cpu_s(samples: Evidence) -> float:
    times, values = [row.time for row in samples.fleet], [row.cpu_s for row in samples.fleet]
    return cpu.at(times, values, samples.timeline.settled) - cpu.at(times, values, samples.timeline.load_start)


def _peaks(samples: Evidence) -> dict[str, float]:
    return {
        role: _rounded(max(mb for _, mb in values)) for role, values in sorted(cpu.memory_mb(samples.processes).items())
    }


def _functions(
    samples: Evidence, jobs: Mapping[str, list[JobRow]], returns: list[ReturnRow]
) -> dict[str, FunctionResult]:
    functions = sorted({row.function for row in samples.clients} | {rows[0].fun for rows in jobs.values()})
    publications = Counter(rows[0].fun for rows in jobs.values())
    found = {}
    for function in functions:
        asked = [row for row in samples.clients if row.function == function]
        ended = [answer for answer in samples.answers if answer.function == function]
        sent = [row for row in returns if row.fun == function]
        acknowledged = [row for row in sent if row.acknowledged]
        found[function] = FunctionResult(
            jobs_requested=len(asked),
            publications=publications[function],
            executions=sum(row.targeted for rows in jobs.values() for row in rows if row.fun == function),
            returns=len(sent),
            return_sends=sum(row.attempts for row in sent),
            returns_acknowledged=len(acknowledged),
            returns_unacknowledged=len(sent) - len(acknowledged),
            client_errors=sum(bool(answer.error) for answer in ended),
            client_latency_s=percentiles(row.latency_s for row in asked),
            acknowledgement_s=percentiles(row.seconds for row in acknowledged),
        )
    return found


def _comparison(trees: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Return patched divided by stock for each figure that both have and stock's isn't zero."""
    if not {"stock", "patched"} <= trees.keys():
        return {}
    ratios = {}
    for figure in figures.FIGURES:
        stock, patched = (thresholds.lookup(trees[tree], figure.name) for tree in ("stock", "patched"))
        if stock and patched is not None:
            ratios[figure.name] = round(patched / stock, 4)
    return ratios


def _ratio(part: float, whole: float) -> float | None:
    return round(part / whole, 4) if whole else None


def _rounded(value: float) -> float:
    return round(value, 3)


def load(folder: Path) -> dict[str, Any]:
    """Return `result.json` of the run in `folder` as plain values. Raises SettingsError if it has none."""
    path = folder / "result.json"
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        how = ""
        if (folder / "run.json").is_file() and (run := runs.read(folder)).status != "finished":
            how = f" (the run's status is {run.status})"
        raise SettingsError(f"{path} is missing or broken{how}: run `python -m harness result {folder}`.") from error
    return values
