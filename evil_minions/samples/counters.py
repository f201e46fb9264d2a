"""What a worker has counted since it started.

Plain integers in one object: an addition on the way of every message has to cost next to nothing.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(slots=True)
class Counters:
    """Cumulative counts of one worker, or of a fleet.

    `returns` are distinct (job, minion) pairs, `return_sends` attempts, `return_copies` what a
    behaviour sends again; `executions` are all jobs that ran, of which
    `find_jobs` ran saltutil.find_job. `publications` are distinct job ids; `heard` is how often a publication came to a
    minion, whoever it was for, and `heard_bytes` what these took. `bad_frames` are messages or publications
    that were dropped, `errors` exceptions that no real minion would have had.
    """

    auth_sent: int = 0
    auth_ok: int = 0
    auth_retries: int = 0
    requests_sent: int = 0
    requests_acked: int = 0
    requests_retried: int = 0
    requests_given_up: int = 0
    returns: int = 0
    return_sends: int = 0
    returns_acked: int = 0
    returns_given_up: int = 0
    return_copies: int = 0
    find_jobs: int = 0
    executions: int = 0
    pillar_requests: int = 0
    pillar_ok: int = 0
    publications: int = 0
    heard: int = 0
    heard_bytes: int = 0
    events_sent: int = 0
    reconnects: int = 0
    bad_frames: int = 0
    disconnects: int = 0
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
