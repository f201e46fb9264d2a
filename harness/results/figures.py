"""Works the figures of one tree out of its samples; `harness.figures` has the definition of each.

CPU time is a counter, so its values at two moments tell what was used between them: there has to be a sample near both.
A peak may be missed in any gap.

Each process has a counter of CPU time that starts with it and stays when it ends; all counters add up to what the bed
used (see `harness.processes.monitor`).
"""

from __future__ import annotations

import statistics
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from harness.results.followed import follow
from harness.samples.rows import APART

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from evil_minions import JobRow, ReturnRow
    from harness.results.evidence import Evidence
    from harness.samples.rows import ClientSample, ProcessSample, Timeline
    from harness.scenarios.scenario import Scenario


# the smallest number of times for each percentile: with so many at least one lies beyond it
LEAST = {"p50": 2, "p95": 20, "p99": 100}


def percentiles(values: Iterable[float]) -> dict[str, float | None]:
    """Return the percentiles of `n` raw samples, interpolated, None where `n` is too small for one: see `LEAST`."""
    ordered = sorted(values)
    n = len(ordered)
    cuts = statistics.quantiles(ordered, n=100, method="inclusive") if n > 1 else []

    found = {name: round(cuts[int(name[1:]) - 1], 3) if n >= least else None for name, least in LEAST.items()}
    return {**found, "n": n}


LONGEST_S = 5.0
"""The longest time without a sample that is none: five of them may be late on a busy machine."""
# or so many times what lies between two samples of this file
RHYTHMS = 3.0


@dataclass(frozen=True)
class Gap:
    """A time without samples, in seconds since the epoch; `edge`: the load began, or had settled, in it."""

    start: float
    end: float
    edge: bool

    def told(self, what: str, load_start: float) -> str:
        """Return the gap in words; `what` is the subject with its verb."""
        return (
            f"{what} not sampled for {self.end - self.start:.1f} s, from {self.start - load_start:.1f} s after the "
            "load's start"
        )


def find(times: Iterable[float], timeline: Timeline) -> list[Gap]:
    """Return the gaps between `times` of samples from the load's start until it had settled."""
    start, end = timeline.load_start, timeline.settled
    moments = sorted(set(times))
    rhythm = statistics.median(after - before for before, after in pairwise(moments)) if len(moments) > 1 else 0.0
    longest = max(LONGEST_S, RHYTHMS * rhythm)
    before = [moment for moment in moments if moment <= start]
    after = [moment for moment in moments if moment >= end]
    # where there is no sample before or after the load, its start or end takes the place of one
    within = [moment for moment in moments if start < moment < end]
    chain = [before[-1] if before else start, *within, after[0] if after else end]
    found = [Gap(one, two, one <= start or two >= end) for one, two in pairwise(chain) if two - one > longest]
    if not moments:
        return [Gap(start, end, edge=True)]
    return found


# what belongs to the bed, not to the master; every other role is a process of the master
OTHERS = frozenset({"api", "postgres", "fleet", "locust", "minion", "cli", "warden", "harness", "monitor", "orphan"})


def at(times: Sequence[float], values: Sequence[float], moment: float) -> float:
    """Return a cumulative counter's value at `moment`, interpolated between the samples around it.

    Before its first sample a process has used nothing; after its last one nothing more.
    """
    after = bisect_right(times, moment)
    if after == 0:
        return 0.0
    if after == len(times):
        return values[-1]
    before = after - 1
    share = (moment - times[before]) / (times[after] - times[before])
    return values[before] + share * (values[after] - values[before])


@dataclass
class CpuCounter:
    """The CPU seconds of one process at its times of sampling, and the last role it had: Salt names processes late."""

    role: str
    times: list[float]
    values: list[float]

    def used(self, edges: Sequence[float]) -> list[float]:
        """Return the CPU seconds used between each two of `edges`."""
        return [high - low for low, high in pairwise(at(self.times, self.values, edge) for edge in edges)]


def counters(processes: Iterable[ProcessSample]) -> list[CpuCounter]:
    """Return the counter of each process; one that falls belongs to another process with the id of an ended one."""
    done: list[CpuCounter] = []
    current: dict[int, CpuCounter] = {}
    for sample in processes:
        counter = current.get(sample.pid)
        if counter is None or sample.cpu_s < counter.values[-1]:
            counter = current[sample.pid] = CpuCounter(sample.role, [], [])
            done.append(counter)
        counter.role = sample.role
        counter.times.append(sample.time)
        counter.values.append(sample.cpu_s)
    return done


def seconds(processes: Iterable[ProcessSample], start: float, end: float) -> dict[str, float]:
    """Return the CPU seconds that each role used from `start` to `end`."""
    used: dict[str, float] = defaultdict(float)
    for counter in counters(processes):
        used[counter.role] += sum(counter.used([start, end]))
    return dict(used)


def rates(processes: Iterable[ProcessSample], edges: Sequence[float]) -> dict[str, list[float]]:
    """Return how many cores each role kept busy between each two of `edges`, moments in order.

    What a process had used at its first sample, it used since the sampling before it.
    """
    samples = list(processes)
    ticks = sorted({sample.time for sample in samples})
    spans = [end - start for start, end in pairwise(edges)]
    busy: dict[str, list[float]] = {}
    for counter in counters(samples):
        first = bisect_left(ticks, counter.times[0])
        if first:
            counter.times.insert(0, ticks[first - 1])
            counter.values.insert(0, 0.0)
        of_role = busy.setdefault(counter.role, [0.0] * len(spans))
        for number, (used, span) in enumerate(zip(counter.used(edges), spans, strict=True)):
            of_role[number] += used / span
    return busy


def memory_mb(processes: Iterable[ProcessSample]) -> dict[str, list[tuple[float, float]]]:
    """Return the memory of each role over time, in MB: the sum over its processes at each time of sampling."""
    sums: dict[str, dict[float, float]] = defaultdict(lambda: defaultdict(float))
    for sample in processes:
        sums[sample.role][sample.time] += sample.rss_kb / 1024
    return {role: sorted(values.items()) for role, values in sums.items()}


FIND_JOB = "saltutil.find_job"


# a request that was sent so much later than it was due was not sent at its time
LATE_S = 0.1


def of_tree(samples: Evidence, scenario: Scenario) -> dict[str, Any]:
    """Return the figures of one tree from its samples, as `result.json` has them.

    See `harness.figures.FIGURES` for the definition of each. `cpu_s` and `peak_memory_mb` are by role of process,
    `per_function` by function, `time` holds the lengths of the phases. `left_out` counts the rows from before the load,
    which no figure includes; `clocks` holds what was measured of the clocks of other machines, in seconds. `gaps` says
    what was not sampled for a while: figures that need it are None, or missing from a table.
    """
    timeline = samples.timeline
    jobs = samples.load_jobs()
    followed = follow(samples, scenario.asked)
    published = sum(job.published for job in followed)
    wanted = {job.jid for job in followed}
    # a return without an attempt was still waiting behind the minion's other requests when its minion ended
    returns = [row for row in samples.returns if row.jid in jobs and row.attempts]
    sends = sum(row.attempts for row in returns)
    kept = sum(job.kept for job in followed)
    reached = sum(job.reached for job in followed)
    find_jobs = sum(row.targeted for rows in jobs.values() for row in rows if row.fun == FIND_JOB)
    useful = [row for row in returns if row.jid in wanted]
    unseen = _unseen(samples, timeline)
    of_fleet = find((row.time for row in samples.fleet), timeline)
    cut_off = any(gap.edge for gap in unseen)
    used = {} if cut_off else seconds(samples.processes, timeline.load_start, timeline.settled)
    master_s = None if cut_off else sum(value for role, value in used.items() if role not in OTHERS)
    blind = any(gap.edge for gap in of_fleet)
    fleet_s = None if blind else _fleet_cpu_s(samples)
    single = scenario.single_functions
    jobs_requested = sum(row.function in single for row in samples.clients)
    last = max((row.time for row in useful if row.acknowledged), default=None)
    complete = {(answer.clients, answer.number) for answer in samples.answers if not answer.error}
    return {
        "minions": samples.fleet[-1].minions,
        "ramp_up_s": _rounded(timeline.ready - timeline.fleet_start),
        "kb_per_minion": _kb_per_minion(samples),
        "fleet_cpu_ms_per_return": _cost_ms(fleet_s, len(useful)),
        "master_cpu_ms_per_return": _cost_ms(master_s, len(useful)),
        "fleet_cpu_ms_per_any_return": _cost_ms(fleet_s, len(returns)),
        "master_cpu_ms_per_any_return": _cost_ms(master_s, len(returns)),
        "jobs_requested": jobs_requested,
        "jobs_accepted": len(followed),
        "jobs_unpublished": len(followed) - published,
        "publications": published,
        "publications_per_job": _ratio(sum(job.published and job.fun in single for job in followed), jobs_requested),
        "returns_expected": sum(job.targeted for job in followed),
        "returns_kept": kept,
        "never_reached": sum(job.unreached for job in followed),
        "returns_unfinished": sum(job.unfinished for job in followed),
        "returns_lost": sum(job.lost for job in followed),
        "returns_per_s": _ratio(kept, last - timeline.load_start) if last else None,
        "acknowledged_ratio": _ratio(sum(row.acknowledged for row in returns), sends),
        "duplicate_ratio": _ratio(sends - len(returns), len(returns)),
        "heard_mb": None if blind else _rounded(_risen(samples, "heard_bytes") / 1e6),
        "heard_per_execution": None if blind else _ratio(_risen(samples, "heard"), reached),
        "find_jobs": find_jobs,
        "find_jobs_per_execution": _ratio(find_jobs, reached),
        "client_requests": len(samples.clients),
        "client_errors": sum(bool(answer.error) for answer in samples.answers),
        "longest_wait_s": max((_rounded(answer.wait_s) for answer in samples.answers), default=None),
        "client_latency_s": percentiles(row.latency_s for row in samples.clients),
        "complete_latency_s": _complete_latency(samples.clients, complete),
        "sent_late_s": _lateness(samples.clients),
        "logins": len(samples.logins),
        "login_errors": sum(bool(row.error) for row in samples.logins),
        "login_s": percentiles(row.seconds for row in samples.logins),
        "acknowledgement_s": percentiles(row.seconds for row in returns if row.acknowledged),
        "settle_s": _rounded(timeline.settled - timeline.clients_done),
        "settled_in_time": timeline.settled_in_time,
        "peak_memory_mb": {} if unseen else _peaks(samples),
        "cpu_s": {role: _rounded(value) for role, value in sorted(used.items())},
        "per_function": _functions(samples, jobs, returns, complete),
        "time": {
            "ramp_up_s": _rounded(timeline.ready - timeline.fleet_start),
            "load_s": _rounded(timeline.clients_done - timeline.load_start),
            "settle_s": _rounded(timeline.settled - timeline.clients_done),
        },
        "left_out": {
            "jobs": sum(row.jid not in jobs for row in samples.jobs),
            "returns": sum(row.jid not in jobs for row in samples.returns),
        },
        "clocks": {
            clock.name: {"offset_s": clock.offset_s, "error_s": clock.error_s, "drift_s": clock.drift_s}
            for clock in samples.clocks
        },
        "gaps": (
            *(gap.told("CPU and memory were", timeline.load_start) for gap in unseen),
            *(gap.told("the fleet was", timeline.load_start) for gap in of_fleet),
        ),
        "others_cores": None if cut_off else _others_cores(samples, sum(used.values())),
    }


def _unseen(samples: Evidence, timeline: Timeline) -> list[Gap]:
    """Return the gaps in the samples of processes; each container's were taken by somebody else."""
    times: dict[int, list[float]] = {}
    for row in samples.processes:
        times.setdefault(row.pid // APART, []).append(row.time)
    return [gap for taken in times.values() or [[]] for gap in find(taken, timeline)]


def _others_cores(samples: Evidence, bed_s: float) -> float | None:
    """Return how many cores others kept busy or took away in the load phase, in which the bed used `bed_s` seconds."""
    timeline, rows = samples.timeline, samples.machine
    if not rows or timeline.settled <= timeline.load_start:
        return None
    times = [row.time for row in rows]
    values = [row.busy_s + row.stolen_s - row.harness_s for row in rows]
    busy_s = at(times, values, timeline.settled) - at(times, values, timeline.load_start)
    return _rounded(max(0.0, busy_s - bed_s) / (timeline.settled - timeline.load_start))


def _complete_latency(
    requests: Iterable[ClientSample], complete: Container[tuple[str, int]]
) -> dict[str, float | None]:
    """Return the latency of the requests with a complete answer: failures that come fast must not look like speed."""
    return percentiles(row.latency_s for row in requests if (row.clients, row.number) in complete)


def _lateness(requests: Iterable[ClientSample]) -> dict[str, float | None]:
    """Return how late requests were sent: seconds after each was due, how many more than `LATE_S`."""
    late = [max(0.0, row.started - row.scheduled) for row in requests]
    longest = _rounded(max(late)) if late else None
    above = sum(seconds > LATE_S for seconds in late)
    return {"p95": percentiles(late)["p95"], "max": longest, "n": len(late), "late": above}


def _cost_ms(seconds: float | None, returns: int) -> float | None:
    """Return the CPU time of each return in milliseconds, None if it was not measured or there was none."""
    return None if seconds is None else _ratio(seconds * 1000, returns)


def _kb_per_minion(samples: Evidence) -> float:
    """Return the memory at the first sample in which every minion is ready, before any load."""
    full = next((row for row in samples.fleet if row.ready >= row.minions), samples.fleet[-1])
    return _rounded((full.rss_kb - full.base_rss_kb) / full.minions)


def _fleet_cpu_s(samples: Evidence) -> float:
    times, values = [row.time for row in samples.fleet], [row.cpu_s for row in samples.fleet]
    return at(times, values, samples.timeline.settled) - at(times, values, samples.timeline.load_start)


def _peaks(samples: Evidence) -> dict[str, float]:
    return {
        role: _rounded(max(mb for _, mb in values)) for role, values in sorted(memory_mb(samples.processes).items())
    }


def _functions(
    samples: Evidence,
    jobs: Mapping[str, list[JobRow]],
    returns: list[ReturnRow],
    complete: Container[tuple[str, int]],
) -> dict[str, dict[str, Any]]:
    """Return for each function what clients asked for, what the fleet executed, and what became of its returns."""
    functions = sorted({row.function for row in samples.clients} | {rows[0].fun for rows in jobs.values()})
    publications = Counter(rows[0].fun for rows in jobs.values())
    found = {}
    for function in functions:
        asked = [row for row in samples.clients if row.function == function]
        ended = [answer for answer in samples.answers if answer.function == function]
        sent = [row for row in returns if row.fun == function]
        acknowledged = [row for row in sent if row.acknowledged]
        found[function] = {
            "jobs_requested": len(asked),
            "publications": publications[function],
            "executions": sum(row.targeted for rows in jobs.values() for row in rows if row.fun == function),
            "returns": len(sent),
            "return_sends": sum(row.attempts for row in sent),
            "returns_acknowledged": len(acknowledged),
            "returns_unacknowledged": len(sent) - len(acknowledged),
            "client_errors": sum(bool(answer.error) for answer in ended),
            "client_latency_s": percentiles(row.latency_s for row in asked),
            "complete_latency_s": _complete_latency(asked, complete),
            "acknowledgement_s": percentiles(row.seconds for row in acknowledged),
        }
    return found


def _ratio(part: float, whole: float) -> float | None:
    return round(part / whole, 4) if whole else None


def _rounded(value: float) -> float:
    return round(value, 3)


def _risen(samples: Evidence, counter: str) -> int:
    """Return by how much a counter rose from the last sample before the load to the last one before the settled end."""
    timeline = samples.timeline
    before, after = (
        max((getattr(row, counter) for row in samples.fleet if row.time <= until), default=0)
        for until in (timeline.load_start, timeline.settled)
    )
    return int(after - before)
