"""The figures of a result: names, units and definitions, in one place.

The report prints these definitions beside the figures, `python -m harness result --help` lists them, and the thresholds
of a scenario may name these fields and no others.
"""

from __future__ import annotations

from dataclasses import dataclass

MEASURED = ("s", "ms", "KB", "MB", "/s")


@dataclass(frozen=True)
class Figure:
    """One field of a tree's result.

    `better` is `lower`, `higher` or `` where neither is. `unit` is printed after the value; `x` marks a ratio of
    counts, and `%` a share, which is stored as a number from 0 to 1. A value below `floor` is bad even where lower is
    better: something that should have happened did not.
    """

    name: str
    label: str
    definition: str
    unit: str = ""
    better: str = ""
    floor: float | None = None

    @property
    def measured(self) -> bool:
        """Return whether two runs of the same differ by chance: times, CPU, memory and rates do, counts do not."""
        return self.unit in MEASURED


_ENOUGH = "; given from {} on, as fewer have no such percentile"


def percentiles(field: str, label: str, definition: str) -> tuple[Figure, ...]:
    """Return the figures of the three percentiles of a time."""
    names = {"p50": ("median", "2 times"), "p95": ("95 %", "20 times"), "p99": ("99 %", "100 times")}
    return tuple(
        Figure(f"{field}.{name}", f"{label}, {word}", definition + _ENOUGH.format(least), unit="s", better="lower")
        for name, (word, least) in names.items()
    )


def costs(kind: str, label: str, definition: str) -> tuple[Figure, ...]:
    """Return the figures of the CPU time of a return, for fleet and master."""
    sides = {"fleet": "the fleet's workers", "master": "all processes of the master"}
    return tuple(
        Figure(f"{side}_cpu_ms_per_{kind}", f"{side.title()} CPU per {label}", definition.format(what), "ms", "lower")
        for side, what in sides.items()
    )


_DUE = "from the moment a request was due by the schedule, not from when it could be sent, to its last byte"
_LATENCY = (
    f"{_DUE}; from the raw samples of all requests, failed ones included, which may be quick or slow to fail; of an "
    "asynchronous request to its job id"
)
_COMPLETE = f"{_DUE}; of the requests with a complete answer alone; of an asynchronous request to its job id"
_ACKNOWLEDGEMENT = (
    "from a minion's first attempt to send a return until the master acknowledged it; given-up returns are not in it, "
    "those of find_job are"
)
_LOGIN = (
    "from the request for a token to its arrival, or to the error; it is in the latency of a request that waits for it"
)
_PER_RETURN = (
    "CPU time of {} in the load phase, divided by the distinct returns of the requested functions; what find_job costs "
    "is in the time, and its returns are not counted, for master and fleet alike"
)
_PER_ANY = (
    "CPU time of {} in the load phase, divided by all distinct returns, those of find_job included, for master and "
    "fleet alike: what one return of any kind costs"
)


FIGURES = (
    Figure("minions", "Simulated minions", "minions in the fleet, each with a connection and a session key of its own"),
    Figure(
        "ramp_up_s",
        "Ramp-up",
        "from the start of the fleet's command until every minion has authenticated, got its pillar and sent its "
        "start events",
        unit="s",
        better="lower",
    ),
    Figure(
        "kb_per_minion",
        "Memory per minion",
        "memory (RSS) of the fleet's workers above what they hold before their first minion, divided by the "
        "minions, when all are ready",
        unit="KB",
        better="lower",
    ),
    *costs("return", "requested return", _PER_RETURN),
    *costs("any_return", "return of any kind", _PER_ANY),
    Figure(
        "jobs_requested",
        "Jobs requested",
        "requests that clients sent for one job each: not those of batches and runners, nor for functions that these "
        "have the master publish as well",
    ),
    Figure(
        "jobs_accepted",
        "Jobs accepted",
        "distinct job ids of the requested functions that the master gave out, by its job cache, its answers to "
        "clients and what the fleet heard of; more than requested means that timed-out publish requests were repeated",
    ),
    Figure("publications", "Jobs published", "of the accepted jobs, those that a minion heard of"),
    Figure(
        "jobs_unpublished",
        "Jobs never published",
        "accepted jobs that no minion had heard of when the run had settled: they waited in the master, were dropped "
        "there, or nobody listened",
        better="lower",
    ),
    Figure(
        "publications_per_job",
        "Publications per job",
        "jobs published divided by jobs requested, both of the functions of which each request is one job; 1 is best, "
        "below it jobs are missing",
        unit="x",
        better="lower",
        floor=1.0,
    ),
    Figure(
        "returns_expected",
        "Returns expected",
        "the sum of the minions that the master targeted over all accepted jobs of the requested functions: dead ones, "
        "such as are cut off and those of jobs never published included; each is one of the next four",
    ),
    Figure(
        "returns_kept",
        "Returns kept",
        "returns of those jobs that the master's job cache holds at the end, read through Salt's own returner",
    ),
    Figure(
        "never_reached",
        "Never reached",
        "targeted minions that never got the job: dead, cut off or not connected when it was published, or it never "
        "was; nothing was executed there",
        better="lower",
    ),
    Figure(
        "returns_unfinished",
        "Unfinished",
        "minions that got the job and had sent no return when the run had settled, or not to its end: still at work "
        "when the scenario's limit ended the run, dead in mid-job, or silent by their behaviour",
        better="lower",
    ),
    Figure(
        "returns_lost",
        "Lost after execution",
        "returns that minions sent, acknowledged by the master or given up after all attempts, and that its job cache "
        "does not hold at the end",
        better="lower",
    ),
    Figure(
        "returns_per_s",
        "Returns kept per second",
        "returns kept, divided by the seconds from the start of the load to the last return acknowledged",
        unit="/s",
        better="higher",
    ),
    Figure(
        "acknowledged_ratio",
        "Sends acknowledged",
        "returns that the master acknowledged, divided by all attempts to send one, repeats included",
        unit="%",
        better="higher",
    ),
    Figure(
        "duplicate_ratio",
        "Duplicate sends",
        "attempts to send a return beyond the first of each, divided by the distinct returns",
        unit="%",
        better="lower",
    ),
    Figure(
        "heard_mb",
        "Publications heard",
        "what the publications of the load phase took, added up over all minions that they came to, whoever they were "
        "for: polling, refreshes and each wave of a job included",
        unit="MB",
    ),
    Figure(
        "heard_per_execution",
        "Publications heard per execution",
        "how often a publication came to a minion, whoever it was for, divided by executions of the requested "
        "functions: 1 where each job is for all and goes out in one piece, more with small targets, polling and waves",
        unit="x",
        better="lower",
    ),
    Figure(
        "find_jobs",
        "find_job executions",
        "executions of saltutil.find_job in the fleet in the load phase: polling, no work",
        better="lower",
    ),
    Figure(
        "find_jobs_per_execution",
        "find_jobs per execution",
        "executions of saltutil.find_job divided by executions of the requested functions",
        unit="x",
        better="lower",
    ),
    Figure(
        "client_requests",
        "Client requests",
        "requests that were sent, each without waiting for earlier ones; how late they were is a figure of its own",
    ),
    Figure(
        "client_errors",
        "Client errors",
        "requests without a complete answer: an error, a timeout, or an answer that lacks some of the targeted "
        "minions; of an asynchronous request the answer is what the job cache holds of its job at the end",
        better="lower",
    ),
    Figure(
        "longest_wait_s",
        "Longest wait",
        "from the moment a request was due by the schedule to its answer, complete or not; of an asynchronous request, "
        "to the last of its job's returns that the master acknowledged",
        unit="s",
        better="lower",
    ),
    *percentiles("client_latency_s", "Client latency", _LATENCY),
    *percentiles("complete_latency_s", "Complete latency", _COMPLETE),
    Figure(
        "sent_late_s.max",
        "Sent late, at most",
        "from the moment a request was due to when it was sent, of the latest: a busy machine holds the clients up; it "
        "is part of the latency",
        unit="s",
        better="lower",
    ),
    Figure("sent_late_s.p95", "Sent late, 95 %", "as the latest; given from 20 requests on", unit="s", better="lower"),
    Figure(
        "sent_late_s.late",
        "Requests sent late",
        "requests that were sent more than 0.1 s after they were due",
        better="lower",
    ),
    Figure(
        "logins",
        "Log-ins",
        "log-ins at salt-api in the load phase: of the scenario's users, and of the bed's own user when its token is "
        "over, as its first log-in is before the load",
    ),
    Figure(
        "login_errors",
        "Failed log-ins",
        "log-ins that were refused or not answered; the request behind one is a client error",
        better="lower",
    ),
    *percentiles("login_s", "Log-in", _LOGIN),
    *percentiles("acknowledgement_s", "Acknowledgement", _ACKNOWLEDGEMENT),
    Figure(
        "settle_s",
        "Settling time",
        "from the last answer to a client until no job waits in the master, no minion is at work or has a return left "
        "to send, and nothing has moved for two seconds; or the scenario's limit",
        unit="s",
        better="lower",
    ),
    Figure(
        "others_cores",
        "Cores used by others",
        "cores that anything but the bed kept busy in the load phase, on average: with much of it, one pair of runs "
        "tells nothing",
        unit="cores",
    ),
    Figure(
        "peak_memory_mb",
        "Peak memory",
        "highest sum of the memory (RSS) of all processes of a role, from samples every second; pages that "
        "processes share count in each",
        unit="MB",
        better="lower",
    ),
)

BY_NAME = {figure.name: figure for figure in FIGURES}
# fields that hold one value for each role of a process, such as peak_memory_mb.MWorker
BY_ROLE = ("peak_memory_mb", "cpu_s")


def known(field: str) -> bool:
    """Return whether results have one value at `field`, which may be dotted; those by role need a role."""
    name, _, rest = field.partition(".")
    return bool(rest) and "." not in rest if name in BY_ROLE else field in BY_NAME
