"""What became of each request of a client: how long it waited, and whether it got all that it asked for.

Who waits for an answer has it when it comes. Who is content with a job's id asks for the returns later, so such a
request is over when the last of them has reached the master, and complete if the job cache holds one of each minion.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.scenarios.clients import RUNNERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from evil_minions import ReturnRow
    from harness.samples.rows import ClientSample, KeptReturn, RunnerSample

COMPLETE, INCOMPLETE, NONE = "complete", "incomplete", "none"
ASYNC = "async"


@dataclass(frozen=True)
class Answer:
    """The end of one request, see `harness.samples.rows.ClientSample` for what it was.

    `due` and `over` are seconds since the epoch. `answered` counts the minions whose returns the client has, of
    `expected`. `error` is empty for a complete answer.
    """

    clients: str
    function: str
    number: int
    due: float
    over: float
    expected: int
    answered: int
    error: str

    @property
    def wait_s(self) -> float:
        """Return the seconds from when the request was due to its end."""
        return self.over - self.due

    @property
    def state(self) -> str:
        """Return whether the answer is complete, incomplete, or none."""
        if not self.error:
            return COMPLETE
        return INCOMPLETE if self.answered else NONE


def answers(
    requests: Iterable[ClientSample],
    returns: Iterable[ReturnRow],
    kept: Iterable[KeptReturn],
    runners: Iterable[RunnerSample] = (),
) -> list[Answer]:
    """Return what became of each request, in order of when they were due.

    `returns` are those that minions sent, `kept` those that the master's job cache held at the end, `runners` the
    answers of asynchronous runners in it.
    """
    last: dict[str, float] = {}
    for row in returns:
        if row.acknowledged:
            last[row.jid] = max(row.time, last.get(row.jid, 0.0))
    minions: dict[str, set[str]] = defaultdict(set)
    for entry in kept:
        minions[entry.jid].add(entry.minion)
    ended = {row.jid: row for row in runners}
    found = [
        _runner(row, last, ended) if row.mode == ASYNC and row.kind in RUNNERS else _answer(row, last, minions)
        for row in requests
    ]
    return sorted(found, key=lambda answer: (answer.due, answer.number))


def longest(found: Sequence[Answer]) -> float | None:
    """Return the seconds of the longest wait, None if there was no request."""
    return max((answer.wait_s for answer in found), default=None)


def _answer(row: ClientSample, last: dict[str, float], minions: dict[str, set[str]]) -> Answer:
    over, answered, error = row.finished, row.answered, row.error
    if row.mode == ASYNC:
        jids = row.jids.split()
        answered = len(set().union(*(minions[jid] for jid in jids if jid in minions)))
        over = max([over, *(last[jid] for jid in jids if jid in last)])
        if not error and answered < row.expected:
            error = f"{answered} of {row.expected} minions' returns were kept"
    return Answer(row.clients, row.function, row.number, row.scheduled, over, row.expected, answered, error)


def _runner(row: ClientSample, last: dict[str, float], ended: dict[str, RunnerSample]) -> Answer:
    """Return what became of an asynchronous runner: the last return of the jobs that its answer names ends it."""
    over, answered, error = row.finished, 0, row.error
    found = next((ended[jid] for jid in row.jids.split() if jid in ended), None)
    if found:
        answered = found.answered
        over = max([over, *(last[jid] for jid in found.jids.split() if jid in last)])
        error = error or found.error
        if not error and answered < row.expected:
            error = f"{answered} of {row.expected} minions answered"
    elif not error:
        error = "the runner had not ended"
    return Answer(row.clients, row.function, row.number, row.scheduled, over, row.expected, answered, error)
