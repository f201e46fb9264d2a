"""The figures of a result: names, units and definitions, in one place.

A figure without its definition is an opinion. The report prints these texts beside the figures, `python -m harness
result --help` lists them, and the thresholds of a scenario may name these fields and no others.
"""

from __future__ import annotations

from dataclasses import dataclass

MEASURED = ("s", "ms", "KB", "MB", "/s")


@dataclass(frozen=True)
class Figure:
    """One field of a tree's result.

    `better` is `lower`, `higher` or `` where neither is. `unit` is printed after the value; `x` marks a ratio of
    counts, and `%` a share, which is stored as a number from 0 to 1.
    """

    name: str
    label: str
    unit: str
    better: str
    definition: str

    @property
    def measured(self) -> bool:
        """Return whether two runs of the same differ by chance: times, CPU, memory and rates do, counts do not."""
        return self.unit in MEASURED


_LATENCY = (
    "from the moment a request was due by the schedule, not from when it could be sent, to its last byte; "
    "from the raw samples of all requests, failed ones included; of an asynchronous request to its job id"
)

FIGURES = (
    Figure(
        "minions",
        "Simulated minions",
        "",
        "",
        "minions in the fleet, each with a connection and a session key of its own",
    ),
    Figure(
        "ramp_up_s",
        "Ramp-up",
        "s",
        "lower",
        "from the start of the fleet's command until every minion has authenticated, got its pillar and sent its "
        "start events",
    ),
    Figure(
        "kb_per_minion",
        "Memory per minion",
        "KB",
        "lower",
        "memory (RSS) of the fleet's workers above what they hold before their first minion, divided by the "
        "minions, when all are ready",
    ),
    Figure(
        "fleet_cpu_ms_per_return",
        "Fleet CPU per return",
        "ms",
        "lower",
        "CPU time of the fleet's workers in the load phase, divided by the distinct returns sent in it",
    ),
    Figure(
        "master_cpu_ms_per_return",
        "Master CPU per return",
        "ms",
        "lower",
        "CPU time of all processes of the master in the load phase, divided by the distinct returns sent in it",
    ),
    Figure(
        "jobs_requested",
        "Jobs requested",
        "",
        "",
        "requests that clients sent; each asks for one job",
    ),
    Figure(
        "publications",
        "Jobs published",
        "",
        "",
        "distinct job ids of the requested functions that the fleet received in the load phase; more than "
        "requested means that timed-out publish requests were repeated",
    ),
    Figure(
        "publications_per_job",
        "Publications per job",
        "x",
        "lower",
        "jobs published divided by jobs requested",
    ),
    Figure(
        "returns_expected",
        "Returns expected",
        "",
        "",
        "the sum of targeted minions over all published jobs of the requested functions",
    ),
    Figure(
        "returns_kept",
        "Returns kept",
        "",
        "",
        "returns of those jobs that the master's job cache holds at the end, read through Salt's own returner",
    ),
    Figure(
        "returns_lost",
        "Returns lost",
        "",
        "lower",
        "returns expected minus returns kept; those still on their way when the scenario's limit ended the run "
        "are among them",
    ),
    Figure(
        "returns_per_s",
        "Returns kept per second",
        "/s",
        "higher",
        "returns kept, divided by the seconds from the start of the load to the last return acknowledged",
    ),
    Figure(
        "acknowledged_ratio",
        "Sends acknowledged",
        "%",
        "higher",
        "returns that the master acknowledged, divided by all attempts to send one, repeats included",
    ),
    Figure(
        "duplicate_ratio",
        "Duplicate sends",
        "%",
        "lower",
        "attempts to send a return beyond the first of each, divided by the distinct returns",
    ),
    Figure(
        "find_jobs",
        "find_job executions",
        "",
        "lower",
        "executions of saltutil.find_job in the fleet in the load phase: polling, no work",
    ),
    Figure(
        "find_jobs_per_execution",
        "find_jobs per execution",
        "x",
        "lower",
        "executions of saltutil.find_job divided by executions of the requested functions",
    ),
    Figure(
        "client_requests",
        "Client requests",
        "",
        "",
        "requests of the schedule, all of which were sent at their time, whatever became of earlier ones",
    ),
    Figure(
        "client_errors",
        "Client errors",
        "",
        "lower",
        "requests without a complete answer: an error, a timeout, or an answer that lacks some of the targeted "
        "minions; of an asynchronous request the answer is what the job cache holds of its job at the end",
    ),
    Figure(
        "longest_wait_s",
        "Longest wait",
        "s",
        "lower",
        "from the moment a request was due by the schedule to its answer, complete or not; of an asynchronous request, "
        "to the last of its job's returns that the master acknowledged",
    ),
    Figure(
        "client_latency_s.p50",
        "Client latency, median",
        "s",
        "lower",
        _LATENCY,
    ),
    Figure(
        "client_latency_s.p95",
        "Client latency, 95 %",
        "s",
        "lower",
        _LATENCY,
    ),
    Figure(
        "client_latency_s.p99",
        "Client latency, 99 %",
        "s",
        "lower",
        _LATENCY,
    ),
    Figure(
        "acknowledgement_s.p50",
        "Acknowledgement, median",
        "s",
        "lower",
        "from a minion's first attempt to send a return until the master acknowledged it; given-up returns are not "
        "in it",
    ),
    Figure(
        "acknowledgement_s.p95",
        "Acknowledgement, 95 %",
        "s",
        "lower",
        "as its median",
    ),
    Figure(
        "acknowledgement_s.p99",
        "Acknowledgement, 99 %",
        "s",
        "lower",
        "as its median",
    ),
    Figure(
        "settle_s",
        "Settling time",
        "s",
        "lower",
        "from the last answer to a client until no minion has a return left to send, or the scenario's limit",
    ),
    Figure(
        "peak_memory_mb",
        "Peak memory",
        "MB",
        "lower",
        "highest sum of the memory (RSS) of all processes of a role, from samples every second; pages that "
        "processes share count in each",
    ),
)

BY_NAME = {figure.name: figure for figure in FIGURES}
# fields that hold one value for each role of a process, such as peak_memory_mb.MWorker
BY_ROLE = ("peak_memory_mb", "cpu_s")


def known(field: str) -> bool:
    """Return whether results have one value at `field`, which may be dotted; those by role need a role."""
    name, _, rest = field.partition(".")
    return bool(rest) and "." not in rest if name in BY_ROLE else field in BY_NAME
