"""The figures of a result: names, units and definitions, in one place.

The report prints these definitions beside the figures, `python -m harness result --help` lists them, and the thresholds
of a scenario may name these fields and no others.
"""

from __future__ import annotations

from harness.clientfigures import OF_CLIENTS
from harness.figure import Figure

_PER_RETURN = (
    "CPU time of {} in the load phase, divided by the distinct returns of the requested functions; what find_job costs "
    "is in the time, and its returns are not counted, for master and fleet alike"
)
_PER_ANY = (
    "CPU time of {} in the load phase, divided by all distinct returns, those of find_job included, for master and "
    "fleet alike: the price of one return, whoever wanted it"
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
        "Fleet CPU per requested return",
        "ms",
        "lower",
        _PER_RETURN.format("the fleet's workers"),
    ),
    Figure(
        "master_cpu_ms_per_return",
        "Master CPU per requested return",
        "ms",
        "lower",
        _PER_RETURN.format("all processes of the master"),
    ),
    Figure(
        "fleet_cpu_ms_per_any_return",
        "Fleet CPU per return of any kind",
        "ms",
        "lower",
        _PER_ANY.format("the fleet's workers"),
    ),
    Figure(
        "master_cpu_ms_per_any_return",
        "Master CPU per return of any kind",
        "ms",
        "lower",
        _PER_ANY.format("all processes of the master"),
    ),
    Figure(
        "jobs_requested",
        "Jobs requested",
        "",
        "",
        "requests that clients sent for one job each: not those of batches and runners, nor for functions that these "
        "have the master publish as well",
    ),
    Figure(
        "jobs_accepted",
        "Jobs accepted",
        "",
        "",
        "distinct job ids of the requested functions that the master gave out, by its job cache, its answers to "
        "clients and what the fleet heard of; more than requested means that timed-out publish requests were repeated",
    ),
    Figure(
        "publications",
        "Jobs published",
        "",
        "",
        "of the accepted jobs, those that a minion heard of",
    ),
    Figure(
        "jobs_unpublished",
        "Jobs never published",
        "",
        "lower",
        "accepted jobs that no minion had heard of when the run had settled: they waited in the master, were dropped "
        "there, or nobody listened",
    ),
    Figure(
        "publications_per_job",
        "Publications per job",
        "x",
        "lower",
        "jobs published divided by jobs requested, both of the functions of which each request is one job; 1 is best, "
        "below it jobs are missing",
        floor=1.0,
    ),
    Figure(
        "returns_expected",
        "Returns expected",
        "",
        "",
        "the sum of the minions that the master targeted over all accepted jobs of the requested functions: dead ones, "
        "such as are cut off and those of jobs never published included; each is one of the next four",
    ),
    Figure(
        "returns_kept",
        "Returns kept",
        "",
        "",
        "returns of those jobs that the master's job cache holds at the end, read through Salt's own returner",
    ),
    Figure(
        "never_reached",
        "Never reached",
        "",
        "lower",
        "targeted minions that never got the job: dead, cut off or not connected when it was published, or it never "
        "was; nothing was executed there",
    ),
    Figure(
        "returns_unfinished",
        "Unfinished",
        "",
        "lower",
        "minions that got the job and had sent no return when the run had settled, or not to its end: still at work "
        "when the scenario's limit ended the run, dead in mid-job, or silent by their behaviour",
    ),
    Figure(
        "returns_lost",
        "Lost after execution",
        "",
        "lower",
        "returns that minions sent, acknowledged by the master or given up after all attempts, and that its job cache "
        "does not hold at the end",
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
        "heard_mb",
        "Publications heard",
        "MB",
        "",
        "what the publications of the load phase took, added up over all minions that they came to, whoever they were "
        "for: polling, refreshes and each wave of a job included",
    ),
    Figure(
        "heard_per_execution",
        "Publications heard per execution",
        "x",
        "lower",
        "how often a publication came to a minion, whoever it was for, divided by executions of the requested "
        "functions: 1 where each job is for all and goes out in one piece, more with small targets, polling and waves",
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
    *OF_CLIENTS,
    Figure(
        "settle_s",
        "Settling time",
        "s",
        "lower",
        "from the last answer to a client until no job waits in the master, no minion is at work or has a return left "
        "to send, and nothing has moved for two seconds; or the scenario's limit",
    ),
    Figure(
        "others_cores",
        "Cores used by others",
        "cores",
        "",
        "cores that anything but the bed kept busy in the load phase, on average: with much of it, one pair of runs "
        "tells nothing",
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
