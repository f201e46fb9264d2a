"""The figures of one tree, as `result.json` has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.results.percentiles import Percentiles


@dataclass(frozen=True)
class Lateness:
    """How late the clients sent their requests: seconds after each was due, how many more than `LATE_S`."""

    p95: float | None
    max: float | None
    n: int
    late: int


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
    complete_latency_s: Percentiles
    acknowledgement_s: Percentiles


@dataclass(frozen=True)
class TreeResult:
    """The figures of one tree; see `harness.figures.FIGURES` for the definition of each.

    `cpu_s` and `peak_memory_mb` are by role of process, `per_function` by function, `time` holds the lengths of the
    phases. `left_out` counts the rows from before the load, which no figure includes; `clocks` holds what was
    measured of the clocks of other machines, in seconds.
    `gaps` says what was not sampled for a while: figures that need it are None, or missing from a table.
    """

    minions: int
    ramp_up_s: float
    kb_per_minion: float
    fleet_cpu_ms_per_return: float | None
    master_cpu_ms_per_return: float | None
    fleet_cpu_ms_per_any_return: float | None
    master_cpu_ms_per_any_return: float | None
    jobs_requested: int
    jobs_accepted: int
    jobs_unpublished: int
    publications: int
    publications_per_job: float | None
    returns_expected: int
    returns_kept: int
    never_reached: int
    returns_unfinished: int
    returns_lost: int
    returns_per_s: float | None
    acknowledged_ratio: float | None
    duplicate_ratio: float | None
    heard_mb: float | None
    heard_per_execution: float | None
    find_jobs: int
    find_jobs_per_execution: float | None
    client_requests: int
    client_errors: int
    longest_wait_s: float | None
    client_latency_s: Percentiles
    complete_latency_s: Percentiles
    sent_late_s: Lateness
    logins: int
    login_errors: int
    login_s: Percentiles
    acknowledgement_s: Percentiles
    settle_s: float
    settled_in_time: bool
    peak_memory_mb: dict[str, float]
    cpu_s: dict[str, float]
    per_function: dict[str, FunctionResult]
    time: dict[str, float]
    left_out: dict[str, int]
    clocks: dict[str, dict[str, float]]
    gaps: tuple[str, ...] = ()
    others_cores: float | None = None
