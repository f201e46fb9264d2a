"""Works the figures of one tree out of its samples; `harness.figures` has the definition of each.

CPU time is a counter, so its values at two moments tell what was used between them: there has to be a sample near both.
A peak may be missed in any gap.

Each process has a counter of CPU time that starts with it and stays when it ends; all counters add up to what the bed
used (see `harness.samples.monitor`).
"""

from __future__ import annotations

import statistics
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from harness.figures import ENTRIES, percentiles, ratio, rounded
from harness.results.evidence import follow
from harness.samples import APART

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from evil_minions import ReturnRow
    from harness.results.evidence import Evidence
    from harness.samples import ProcessSample, Timeline
    from harness.scenarios.scenario import Scenario


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

    def sentence(self, what: str, load_start: float) -> str:
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


class Run:
    """What the figures of one tree follow from: its samples, and what several figures have in common.

    A figure that needs a time without samples is None: see `gaps`.
    """

    def __init__(self, samples: Evidence, scenario: Scenario) -> None:
        """Follow each job; nothing else is counted before it is asked for."""
        self.samples = samples
        self.timeline = samples.timeline
        self.clients, self.logins, self.fleet = samples.clients, samples.logins, samples.fleet
        self.answers = samples.answers
        self.of_load = samples.load_jobs()
        self.jobs = follow(samples, scenario.asked)
        # a return without an attempt was still waiting behind the minion's other requests when its minion ended
        self.returns = [row for row in samples.returns if row.jid in self.of_load and row.attempts]
        self.sends = sum(row.attempts for row in self.returns)
        wanted = {job.jid for job in self.jobs}
        self.useful = [row for row in self.returns if row.jid in wanted]
        self.kept = sum(job.kept for job in self.jobs)
        self.reached = sum(job.reached for job in self.jobs)
        single = scenario.single_functions
        self.jobs_requested = sum(row.function in single for row in self.clients)
        self.single_published = sum(job.published and job.fun in single for job in self.jobs)
        whole = {(answer.clients, answer.number) for answer in self.answers if not answer.error}
        self.complete = [row for row in self.clients if (row.clients, row.number) in whole]
        """The requests with a complete answer: failures that come fast must not look like speed."""
        self.unseen = _unseen(samples, self.timeline)
        self.fleet_gaps = find((row.time for row in self.fleet), self.timeline)
        self.cut_off = any(gap.edge for gap in self.unseen)
        self.blind = any(gap.edge for gap in self.fleet_gaps)
        start, end = self.timeline.load_start, self.timeline.settled
        self.used = {} if self.cut_off else seconds(samples.processes, start, end)

    @property
    def ramp_up_s(self) -> float:
        """Return the seconds from the start of the fleet until all its minions were ready."""
        return rounded(self.timeline.ready - self.timeline.fleet_start)

    @property
    def settle_s(self) -> float:
        """Return the seconds from the last answer until nothing happened any more."""
        return rounded(self.timeline.settled - self.timeline.clients_done)

    @property
    def master_s(self) -> float | None:
        """Return the CPU seconds of the master."""
        return None if self.cut_off else sum(value for role, value in self.used.items() if role not in OTHERS)

    @property
    def fleet_s(self) -> float | None:
        """Return the CPU seconds of the fleet."""
        times, values = [row.time for row in self.fleet], [row.cpu_s for row in self.fleet]
        start, end = self.timeline.load_start, self.timeline.settled
        return None if self.blind else at(times, values, end) - at(times, values, start)

    @property
    def returning_s(self) -> float:
        """Return the seconds until the last requested return was acknowledged, 0 if none was."""
        last = max((row.time for row in self.useful if row.acknowledged), default=self.timeline.load_start)
        return last - self.timeline.load_start

    @property
    def find_jobs(self) -> int:
        """Return how many minions were asked whether they run a job."""
        return sum(row.targeted for rows in self.of_load.values() for row in rows if row.fun == FIND_JOB)

    @property
    def kb_per_minion(self) -> float:
        """Return the memory at the first sample in which every minion is ready, before any load."""
        full = next((row for row in self.fleet if row.ready >= row.minions), self.fleet[-1])
        return rounded((full.rss_kb - full.base_rss_kb) / full.minions)

    @property
    def lateness(self) -> dict[str, float | None]:
        """Return how late requests were sent: seconds after each was due, how many more than `LATE_S`."""
        late = [max(0.0, row.started - row.scheduled) for row in self.clients]
        longest = rounded(max(late)) if late else None
        above = sum(seconds > LATE_S for seconds in late)
        return {"p95": percentiles(late)["p95"], "max": longest, "n": len(late), "late": above}

    @property
    def peak_memory_mb(self) -> dict[str, float]:
        """Return the most memory that each role had."""
        memory = {} if self.unseen else memory_mb(self.samples.processes)
        return {role: rounded(max(mb for _, mb in values)) for role, values in sorted(memory.items())}

    @property
    def others_cores(self) -> float | None:
        """Return how many cores others kept busy or took away in the load phase."""
        rows, start, end = self.samples.machine, self.timeline.load_start, self.timeline.settled
        if self.cut_off or not rows or end <= start:
            return None
        times = [row.time for row in rows]
        values = [row.busy_s + row.stolen_s - row.harness_s for row in rows]
        busy_s = at(times, values, end) - at(times, values, start)
        return rounded(max(0.0, busy_s - sum(self.used.values())) / (end - start))

    @staticmethod
    def cost_ms(seconds: float | None, returns: Sequence[ReturnRow]) -> float | None:
        """Return the CPU time of each return in milliseconds, None if it was not measured or there was none."""
        return None if seconds is None else ratio(seconds * 1000, len(returns))

    def heard(self, counter: str) -> int | None:
        """Return by how much a counter rose from the last sample before the load to the last one before its end."""
        before, after = (
            max((getattr(row, counter) for row in self.fleet if row.time <= until), default=0)
            for until in (self.timeline.load_start, self.timeline.settled)
        )
        return None if self.blind else int(after - before)


def of_tree(samples: Evidence, scenario: Scenario) -> dict[str, Any]:
    """Return the figures of one tree from its samples, as `result.json` has them.

    See `harness.figures.ENTRIES` for the definition of each. `cpu_s` and `peak_memory_mb` are by role of process,
    `per_function` by function, `time` holds the lengths of the phases. `left_out` counts the rows from before the load,
    which no figure includes; `clocks` holds what was measured of the clocks of other machines, in seconds. `gaps` says
    what was not sampled for a while: figures that need it are None, or missing from a table.
    """
    run = Run(samples, scenario)
    timeline = run.timeline
    return {
        **{one.name.partition(".")[0]: one.value(run) for one in ENTRIES if one.value is not None},
        "settled_in_time": timeline.settled_in_time,
        "cpu_s": {role: rounded(value) for role, value in sorted(run.used.items())},
        "per_function": _functions(run),
        "time": {
            "ramp_up_s": run.ramp_up_s,
            "load_s": rounded(timeline.clients_done - timeline.load_start),
            "settle_s": run.settle_s,
        },
        "left_out": {
            "jobs": sum(row.jid not in run.of_load for row in samples.jobs),
            "returns": sum(row.jid not in run.of_load for row in samples.returns),
        },
        "clocks": {
            clock.name: {"offset_s": clock.offset_s, "error_s": clock.error_s, "drift_s": clock.drift_s}
            for clock in samples.clocks
        },
        "gaps": (
            *(gap.sentence("CPU and memory were", timeline.load_start) for gap in run.unseen),
            *(gap.sentence("the fleet was", timeline.load_start) for gap in run.fleet_gaps),
        ),
    }


def _unseen(samples: Evidence, timeline: Timeline) -> list[Gap]:
    """Return the gaps in the samples of processes; each container's were taken by somebody else."""
    times: dict[int, list[float]] = {}
    for row in samples.processes:
        times.setdefault(row.pid // APART, []).append(row.time)
    return [gap for taken in times.values() or [[]] for gap in find(taken, timeline)]


def _functions(run: Run) -> dict[str, dict[str, Any]]:
    """Return for each function what clients asked for, what the fleet executed, and what became of its returns."""
    functions = sorted({row.function for row in run.clients} | {rows[0].fun for rows in run.of_load.values()})
    publications = Counter(rows[0].fun for rows in run.of_load.values())
    found = {}
    for function in functions:
        asked = [row for row in run.clients if row.function == function]
        ended = [answer for answer in run.answers if answer.function == function]
        sent = [row for row in run.returns if row.fun == function]
        acknowledged = [row for row in sent if row.acknowledged]
        found[function] = {
            "jobs_requested": len(asked),
            "publications": publications[function],
            "executions": sum(row.targeted for rows in run.of_load.values() for row in rows if row.fun == function),
            "returns": len(sent),
            "return_sends": sum(row.attempts for row in sent),
            "returns_acknowledged": len(acknowledged),
            "returns_unacknowledged": len(sent) - len(acknowledged),
            "client_errors": sum(bool(answer.error) for answer in ended),
            "client_latency_s": percentiles(row.latency_s for row in asked),
            "complete_latency_s": percentiles(row.latency_s for row in run.complete if row.function == function),
            "acknowledgement_s": percentiles(row.seconds for row in acknowledged),
        }
    return found
