"""What has become of a job on the minions of a worker: the counts behind `TallyRow`.

A worker keeps those of its latest jobs, some hundred bytes each: a job may reach a minion long after the others, when
its network heals.

Plain integers in one object, as one is added to them with every message.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

from evil_minions.samples.rows import TallyRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass(slots=True)
class Counters:
    """Cumulative counts of one worker, or of a fleet."""

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


class Tally:
    """The counts of one job, see `evil_minions.samples.files.TallyRow`.

    `asked` holds one bit for each minion of the worker, the first one's is the lowest: whether the job was for it, and
    the master knows it. `stream` is where the random numbers for this job begin, see `evil_minions.rng`; it is the
    `nth` job with its function.
    """

    __slots__ = (
        "acknowledged",
        "asked",
        "ended",
        "fun",
        "given_up",
        "jid",
        "nth",
        "number",
        "reached",
        "returns",
        "stream",
        "targeted",
    )  # fmt: skip

    def __init__(self, number: int, jid: str, fun: str) -> None:
        """Begin with nothing."""
        self.number = number
        self.jid = jid
        self.fun = fun
        self.asked = self.stream = self.nth = 0
        self.targeted = self.reached = self.returns = self.acknowledged = self.given_up = self.ended = 0

    def asks(self, index: int) -> None:
        """Count a minion that the job is for, once."""
        if not self.asked >> index & 1:
            self.asked |= 1 << index
            self.targeted += 1

    def row(self) -> TallyRow:
        """Return the counts as of now."""
        return TallyRow(
            time.time(),
            self.number,
            self.jid,
            self.fun,
            self.targeted,
            self.reached,
            self.returns,
            self.acknowledged,
            self.given_up,
            self.ended,
        )


class Tallies:
    """The tallies that have changed since they were written last."""

    def __init__(self) -> None:
        """Begin with none."""
        self._changed: dict[Tally, None] = {}
        self.closed = False

    def reached(self, tally: Tally, index: int) -> None:
        """Count a minion that took a job; one that the master came to know only now was meant all the same."""
        tally.asks(index)
        tally.reached += 1
        self.changed(tally)

    def ended(self, tally: Tally) -> None:
        """Count a job that will have no return."""
        tally.ended += 1
        self.changed(tally)

    def returned(self, tally: Tally) -> None:
        """Count a return that is to be sent."""
        tally.returns += 1
        self.changed(tally)

    def over(self, tally: Tally, *, acknowledged: bool) -> None:
        """Count a return that the master has, or never will."""
        if acknowledged:
            tally.acknowledged += 1
        else:
            tally.given_up += 1
        self.changed(tally)

    def changed(self, tally: Tally) -> None:
        """Have a tally written with the next flush; a fleet that is being ended writes no more."""
        if not self.closed:
            self._changed[tally] = None

    def take(self) -> Iterator[TallyRow]:
        """Return what is to be written, once."""
        changed, self._changed = self._changed, {}
        return (tally.row() for tally in changed)
