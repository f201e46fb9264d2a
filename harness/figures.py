"""The figures of a result: name, label, definition, unit, and how each follows from the samples.

An entry of `ENTRIES` is all that a figure needs. The report prints the definitions beside the figures, the help of
`python -m harness result` lists them, and the thresholds of a scenario may name these fields and no others.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

MEASURED = ("s", "ms", "KB", "MB", "/s")


@dataclass(frozen=True)
class Figure:
    """One field of a tree's result.

    `value` takes a `harness.results.figures.Run` and returns the field. `better` is `lower`, `higher` or `` where
    neither is. `unit` is printed after the value; `x` marks a ratio of counts, and `%` a share, which is stored as a
    number from 0 to 1. A value below `floor` is bad even where lower is better: something that should have happened
    did not. With `percentiles` an entry stands for the median, 95 % and 99 % of a time. `share_of` names the count
    that this one is a part of: a comparison of two trees tests both counts.
    """

    name: str
    label: str
    definition: str
    value: Callable[[Any], Any] | None = None
    unit: str = ""
    better: str = ""
    floor: float | None = None
    percentiles: bool = False
    share_of: str = ""

    @property
    def measured(self) -> bool:
        """Return whether two runs of the same differ by chance: times, CPU, memory and rates do, counts do not."""
        return self.unit in MEASURED


# the smallest number of times for each percentile: with so many at least one lies beyond it
LEAST = {"p50": 2, "p95": 20, "p99": 100}


def percentiles(values: Iterable[float]) -> dict[str, float | None]:
    """Return the percentiles of `n` raw samples, interpolated, None where `n` is too small for one: see `LEAST`."""
    ordered = sorted(values)
    n = len(ordered)
    cuts = statistics.quantiles(ordered, n=100, method="inclusive") if n > 1 else []

    found = {name: round(cuts[int(name[1:]) - 1], 3) if n >= least else None for name, least in LEAST.items()}
    return {**found, "n": n}


def ratio(part: float, whole: float) -> float | None:
    """Return a ratio with four digits, None of nothing."""
    return round(part / whole, 4) if whole else None


def rounded(value: float) -> float:
    """Return a number with three digits."""
    return round(value, 3)


_time, _cost = partial(Figure, unit="s", better="lower"), partial(Figure, unit="ms", better="lower")
_times = partial(_time, percentiles=True)
_fewer, _per = partial(Figure, better="lower"), partial(Figure, unit="x", better="lower")
# in the order of the report
ENTRIES: tuple[Figure, ...] = (
    Figure(
        "minions",
        "Simulated minions",
        "minions in the fleet, each with a connection and a session key of its own",
        lambda run: run.fleet[-1].minions,
    ),
    _time(
        "ramp_up_s",
        "Ramp-up",
        "from the start of the fleet's command until every minion has authenticated, got its pillar and sent its "
        "start events",
        lambda run: run.ramp_up_s,
    ),
    Figure(
        "kb_per_minion",
        "Memory per minion",
        "memory (RSS) of the fleet's workers above what they hold before their first minion, divided by the minions, "
        "when all are ready",
        lambda run: run.kb_per_minion,
        unit="KB",
        better="lower",
    ),
    _cost(
        "fleet_cpu_ms_per_return",
        "Fleet CPU per requested return",
        "CPU time of the fleet's workers in the load phase, divided by the distinct returns of the requested "
        "functions; what find_job costs is in the time, and its returns are not counted, for master and fleet alike",
        lambda run: run.cost_ms(run.fleet_s, run.useful),
    ),
    _cost(
        "master_cpu_ms_per_return",
        "Master CPU per requested return",
        "CPU time of all processes of the master in the load phase, divided by the distinct returns of the requested "
        "functions; what find_job costs is in the time, and its returns are not counted, for master and fleet alike",
        lambda run: run.cost_ms(run.master_s, run.useful),
    ),
    _cost(
        "fleet_cpu_ms_per_any_return",
        "Fleet CPU per return of any kind",
        "CPU time of the fleet's workers in the load phase, divided by all distinct returns, those of find_job "
        "included, for master and fleet alike: what one return of any kind costs",
        lambda run: run.cost_ms(run.fleet_s, run.returns),
    ),
    _cost(
        "master_cpu_ms_per_any_return",
        "Master CPU per return of any kind",
        "CPU time of all processes of the master in the load phase, divided by all distinct returns, those of "
        "find_job included, for master and fleet alike: what one return of any kind costs",
        lambda run: run.cost_ms(run.master_s, run.returns),
    ),
    Figure(
        "jobs_requested",
        "Jobs requested",
        "requests that clients sent for one job each: not those of batches and runners, nor for functions that these "
        "have the master publish as well",
        lambda run: run.jobs_requested,
    ),
    Figure(
        "jobs_accepted",
        "Jobs accepted",
        "distinct job ids of the requested functions that the master gave out, by its job cache, its answers to "
        "clients and what the fleet heard of; more than requested means that timed-out publish requests were "
        "repeated",
        lambda run: len(run.jobs),
    ),
    Figure(
        "publications",
        "Jobs published",
        "of the accepted jobs, those that a minion heard of",
        lambda run: sum(job.published for job in run.jobs),
    ),
    _fewer(
        "jobs_unpublished",
        "Jobs never published",
        "accepted jobs that no minion had heard of when the run had settled: they waited in the master, were dropped "
        "there, or nobody listened",
        lambda run: sum(not job.published for job in run.jobs),
        share_of="jobs_accepted",
    ),
    _per(
        "publications_per_job",
        "Publications per job",
        "jobs published divided by jobs requested, both of the functions of which each request is one job; 1 is "
        "best, below it jobs are missing",
        lambda run: ratio(run.single_published, run.jobs_requested),
        floor=1.0,
    ),
    Figure(
        "returns_expected",
        "Returns expected",
        "the sum of the minions that the master targeted over all accepted jobs of the requested functions: dead "
        "ones, such as are cut off and those of jobs never published included; each is one of the next four",
        lambda run: sum(job.targeted for job in run.jobs),
    ),
    Figure(
        "returns_kept",
        "Returns kept",
        "returns of those jobs that the master's job cache holds at the end, read through Salt's own returner",
        lambda run: run.kept,
    ),
    _fewer(
        "never_reached",
        "Never reached",
        "targeted minions that never got the job: dead, cut off or not connected when it was published, or it never "
        "was; nothing was executed there",
        lambda run: sum(job.unreached for job in run.jobs),
    ),
    _fewer(
        "returns_unfinished",
        "Unfinished",
        "minions that got the job and had sent no return when the run had settled, or not to its end: still at work "
        "when the scenario's limit ended the run, dead in mid-job, or silent by their behaviour",
        lambda run: sum(job.unfinished for job in run.jobs),
    ),
    _fewer(
        "returns_lost",
        "Lost after execution",
        "returns that minions sent, acknowledged by the master or given up after all attempts, and that its job "
        "cache does not hold at the end",
        lambda run: sum(job.lost for job in run.jobs),
    ),
    Figure(
        "returns_per_s",
        "Returns kept per second",
        "returns kept, divided by the seconds from the start of the load to the last return acknowledged",
        lambda run: ratio(run.kept, run.returning_s),
        unit="/s",
        better="higher",
    ),
    Figure(
        "acknowledged_ratio",
        "Sends acknowledged",
        "returns that the master acknowledged, divided by all attempts to send one, repeats included",
        lambda run: ratio(sum(row.acknowledged for row in run.returns), run.sends),
        unit="%",
        better="higher",
    ),
    Figure(
        "duplicate_ratio",
        "Duplicate sends",
        "attempts to send a return beyond the first of each, divided by the distinct returns",
        lambda run: ratio(run.sends - len(run.returns), len(run.returns)),
        unit="%",
        better="lower",
    ),
    Figure(
        "heard_mb",
        "Publications heard",
        "what the publications of the load phase took, added up over all minions that they came to, whoever they "
        "were for: polling, refreshes and each wave of a job included",
        lambda run: None if run.blind else rounded(run.heard("heard_bytes") / 1e6),
        unit="MB",
    ),
    _per(
        "heard_per_execution",
        "Publications heard per execution",
        "how often a publication came to a minion, whoever it was for, divided by executions of the requested "
        "functions: 1 where each job is for all and goes out in one piece, more with small targets, polling and "
        "waves",
        lambda run: None if run.blind else ratio(run.heard("heard"), run.reached),
    ),
    _fewer(
        "find_jobs",
        "find_job executions",
        "executions of saltutil.find_job in the fleet in the load phase: polling, no work",
        lambda run: run.find_jobs,
    ),
    _per(
        "find_jobs_per_execution",
        "find_jobs per execution",
        "executions of saltutil.find_job divided by executions of the requested functions",
        lambda run: ratio(run.find_jobs, run.reached),
    ),
    Figure(
        "client_requests",
        "Client requests",
        "requests that were sent, each without waiting for earlier ones; how late they were is a figure of its own",
        lambda run: len(run.clients),
    ),
    _fewer(
        "client_errors",
        "Client errors",
        "requests without a complete answer: an error, a timeout, or an answer that lacks some of the targeted "
        "minions; of an asynchronous request the answer is what the job cache holds of its job at the end",
        lambda run: sum(bool(answer.error) for answer in run.answers),
        share_of="client_requests",
    ),
    _time(
        "longest_wait_s",
        "Longest wait",
        "from the moment a request was due by the schedule to its answer, complete or not; of an asynchronous "
        "request, to the last of its job's returns that the master acknowledged",
        lambda run: max((rounded(answer.wait_s) for answer in run.answers), default=None),
    ),
    _times(
        "client_latency_s",
        "Client latency",
        "from the moment a request was due by the schedule, not from when it could be sent, to its last byte; from "
        "the raw samples of all requests, failed ones included, which may be quick or slow to fail; of an "
        "asynchronous request to its job id",
        lambda run: percentiles(row.latency_s for row in run.clients),
    ),
    _times(
        "complete_latency_s",
        "Complete latency",
        "from the moment a request was due by the schedule, not from when it could be sent, to its last byte; of the "
        "requests with a complete answer alone; of an asynchronous request to its job id",
        lambda run: percentiles(row.latency_s for row in run.complete),
    ),
    _time(
        "sent_late_s.max",
        "Sent late, at most",
        "from the moment a request was due to when it was sent, of the latest: a busy machine holds the clients up; "
        "it is part of the latency",
        lambda run: run.lateness,
    ),
    _time("sent_late_s.p95", "Sent late, 95 %", "as the latest; given from 20 requests on", unit="s", better="lower"),
    _fewer("sent_late_s.late", "Requests sent late", "requests that were sent more than 0.1 s after they were due"),
    Figure(
        "logins",
        "Log-ins",
        "log-ins at salt-api in the load phase: of the scenario's users, and of the bed's own user when its token is "
        "over, as its first log-in is before the load",
        lambda run: len(run.logins),
    ),
    _fewer(
        "login_errors",
        "Failed log-ins",
        "log-ins that were refused or not answered; the request behind one is a client error",
        lambda run: sum(bool(row.error) for row in run.logins),
        share_of="logins",
    ),
    _times(
        "login_s",
        "Log-in",
        "from the request for a token to its arrival, or to the error; it is in the latency of a request that waits "
        "for it",
        lambda run: percentiles(row.seconds for row in run.logins),
    ),
    _times(
        "acknowledgement_s",
        "Acknowledgement",
        "from a minion's first attempt to send a return until the master acknowledged it; given-up returns are not "
        "in it, those of find_job are",
        lambda run: percentiles(row.seconds for row in run.returns if row.acknowledged),
    ),
    _time(
        "settle_s",
        "Settling time",
        "from the last answer to a client until no job waits in the master, no minion is at work or has a return "
        "left to send, and nothing has moved for two seconds; or the scenario's limit",
        lambda run: run.settle_s,
    ),
    Figure(
        "others_cores",
        "Cores used by others",
        "cores that anything but the bed kept busy in the load phase, on average: with much of it, one pair of runs "
        "tells nothing",
        lambda run: run.others_cores,
        unit="cores",
    ),
    Figure(
        "peak_memory_mb",
        "Peak memory",
        "highest sum of the memory (RSS) of all processes of a role, from samples every second; pages that processes "
        "share count in each",
        lambda run: run.peak_memory_mb,
        unit="MB",
        better="lower",
    ),
)
_WORDS = {"p50": "median", "p95": "95 %", "p99": "99 %"}


def _fields(entries: Iterable[Figure]) -> Iterator[Figure]:
    """Yield the fields of the entries; of a time with percentiles each of these."""
    for entry in entries:
        for name, word in _WORDS.items() if entry.percentiles else ():
            definition = f"{entry.definition}; given from {LEAST[name]} times on, as fewer have no such percentile"
            yield replace(entry, name=f"{entry.name}.{name}", label=f"{entry.label}, {word}", definition=definition)
        if not entry.percentiles:
            yield entry


FIGURES = tuple(_fields(ENTRIES))
BY_NAME = {figure.name: figure for figure in FIGURES}
# fields that hold one value for each role of a process, such as peak_memory_mb.MWorker
BY_ROLE = ("peak_memory_mb", "cpu_s")


def known(field: str) -> bool:
    """Return whether results have one value at `field`, which may be dotted; those by role need a role."""
    name, _, rest = field.partition(".")
    return bool(rest) and "." not in rest if name in BY_ROLE else field in BY_NAME
