"""What a worker has counted since it started.

Plain integers in one object, as one is added to them with every message.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(slots=True)
class RequestCounters:
    """Counts of signing in, and of requests of every kind."""

    auth_sent: int = 0
    auth_ok: int = 0
    auth_retries: int = 0
    requests_sent: int = 0
    requests_acked: int = 0
    # tries after the first one
    requests_retried: int = 0
    # requests of which every try has failed
    requests_given_up: int = 0
    pillar_requests: int = 0
    pillar_ok: int = 0
    events_sent: int = 0


@dataclass(slots=True)
class JobCounters(RequestCounters):
    """Counts of jobs and their returns."""

    # distinct pairs of job and minion
    returns: int = 0
    # tries to send a return
    return_sends: int = 0
    returns_acked: int = 0
    returns_given_up: int = 0
    # what a behaviour sends again
    return_copies: int = 0
    # jobs that ran
    executions: int = 0
    # those of them that ran saltutil.find_job
    find_jobs: int = 0
    # distinct job ids
    publications: int = 0


@dataclass(slots=True)
class Counters(JobCounters):
    """Cumulative counts of one worker, or of a fleet."""

    # how often a publication came to a minion, whoever it was for, and the bytes of these
    heard: int = 0
    heard_bytes: int = 0
    reconnects: int = 0
    # messages or publications that were dropped
    bad_frames: int = 0
    disconnects: int = 0
    # exceptions that no real minion would have had
    errors: int = 0

    def hear(self, size: int) -> None:
        """Count a publication of so many bytes that came to a minion."""
        self.heard += 1
        self.heard_bytes += size

    def as_dict(self) -> dict[str, int]:
        """Return the counts by name."""
        return asdict(self)


def total(workers: Iterable[Counters]) -> Counters:
    """Return the counts of a fleet from those of its workers.

    Every worker sees every publication, so that those aren't added up: the fleet has seen what its best worker has.
    """
    result = Counters()
    for counters in workers:
        for field in fields(Counters):
            mine, theirs = getattr(result, field.name), getattr(counters, field.name)
            setattr(result, field.name, max(mine, theirs) if field.name == "publications" else mine + theirs)
    return result
