"""All raw samples of one tree's run, read into memory once, and what became of each request and of each job.

Result and report look at the same samples; a run of a few hundred thousand returns fits easily.

Three sources tell of a job, and each knows what the others can't: the master's job cache has every job that it
accepted, also one that waits to be published; a client's answer has the job's id; the fleet knows which minions it
reached and what became of it there.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from harness.errors import SettingsError
from harness.samples import KINDS, Samples
from harness.scenarios.clients import RUNNERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from evil_minions import JobRow, ReturnRow, StartRow, TallyRow
    from harness import samples as raw
    from harness.samples import ClientSample, KeptReturn, RunnerSample
    from harness.scenarios.clients import Asked


COMPLETE, INCOMPLETE, NONE = "complete", "incomplete", "none"


ASYNC = "async"


@dataclass(frozen=True)
class Answer:
    """The end of one request, see `harness.samples.ClientSample` for what it was.

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


@dataclass(frozen=True)
class Evidence:
    """The samples of one tree's run; each list is in order of time, as written."""

    timeline: raw.Timeline
    clients: list[raw.ClientSample]
    processes: list[raw.ProcessSample]
    fleet: list[raw.FleetSample]
    accepted: list[raw.AcceptedJob]
    kept: list[raw.KeptReturn]
    jobs: list[JobRow]
    tallies: list[TallyRow]
    returns: list[ReturnRow]
    starts: list[StartRow]
    moments: list[raw.EventSample]
    clocks: list[raw.ClockSample]
    runners: list[raw.RunnerSample] = field(default_factory=list)
    logins: list[raw.LoginSample] = field(default_factory=list)
    machine: list[raw.MachineSample] = field(default_factory=list)

    @cached_property
    def answers(self) -> list[Answer]:
        """Return what became of each request of a client, in order of when they were due."""
        return answers(self.clients, self.returns, self.kept, self.runners)

    def load_jobs(self) -> dict[str, list[JobRow]]:
        """Return the rows, one for each worker, of each job that the fleet first saw in the load phase, by job id."""
        jobs: dict[str, list[JobRow]] = {}
        for job in self.jobs:
            if job.time >= self.timeline.load_start:
                jobs.setdefault(job.jid, []).append(job)
        return jobs


def of(samples: Samples) -> Evidence:
    """Return the evidence in samples.

    Raises:
        SettingsError: if they are not those of a finished run.
    """
    if samples.unusable or samples.timeline is None:
        raise SettingsError(f"{samples.folder}: {samples.unusable[0]}")
    rows = {name: samples.of(name) for name in KINDS}
    for name in ("jobs", "returns", "moments"):
        rows[name].sort(key=lambda row: row.time)
    # the last row of each number counts
    latest = [{row.number: row for row in of_worker} for of_worker in samples.tables["tallies"].values()]
    rows["tallies"] = [row for of_worker in latest for row in of_worker.values()]
    return Evidence(samples.timeline, clients=rows.pop("requests"), **rows)


def read(folder: Path) -> Evidence:
    """Return the evidence in the samples in `folder`.

    Raises:
        SettingsError: if the run was not finished.
    """
    return of(Samples(folder))


@dataclass(frozen=True)
class Followed:
    """One job and its minions: `targeted` by the master, of these `reached`, and of these again `kept` and `lost`.

    `published` is false for a job that no minion has heard of. `lost` are returns that were over when the run had
    settled, acknowledged or given up, and that the job cache does not hold.
    """

    jid: str
    fun: str
    published: bool
    targeted: int
    reached: int
    kept: int
    lost: int

    @property
    def unreached(self) -> int:
        """Return how many targeted minions never got the job."""
        return self.targeted - self.reached

    @property
    def unfinished(self) -> int:
        """Return how many minions got the job and had not sent a return when the run had settled."""
        return self.reached - self.kept - self.lost


def follow(samples: Evidence, functions: Asked) -> list[Followed]:
    """Return every job of `functions` in the load phase, in the order of their ids."""
    early = {row.jid for row in samples.jobs} - samples.load_jobs().keys()
    names, asked = _asked(samples, functions)
    tallies: dict[str, list[TallyRow]] = defaultdict(list)
    for row in samples.tallies:
        if row.fun in functions:
            tallies[row.jid].append(row)
            names.setdefault(row.jid, row.fun)
    kept: dict[str, set[str]] = defaultdict(set)
    for entry in samples.kept:
        kept[entry.jid].add(entry.minion)
    over: dict[str, set[str]] = defaultdict(set)
    for sent in samples.returns:
        # a return without an attempt was never sent, as its minion died before
        if sent.attempts and sent.fun in functions and sent.time <= samples.timeline.settled:
            over[sent.jid].add(sent.minion)
    found = []
    for jid in sorted(names.keys() - early):
        rows = tallies.get(jid, [])
        found.append(
            Followed(
                jid=jid,
                fun=names[jid],
                published=bool(rows),
                # a worker without a living minion hears of no job, and some parts of a job may never be published
                targeted=max(asked.get(jid, 0), sum(row.targeted for row in rows)),
                reached=sum(row.reached for row in rows),
                kept=len(kept.get(jid, ())),
                lost=len(over.get(jid, set()) - kept.get(jid, set())),
            )
        )
    return found


def _asked(samples: Evidence, functions: Asked) -> tuple[dict[str, str], Mapping[str, int]]:
    """Return the function of each accepted job, and how many minions it is for as far as master or client said."""
    names = {row.jid: row.fun for row in samples.accepted if row.fun in functions}
    asked = Counter({row.jid: row.targeted for row in samples.accepted})
    for request in samples.clients:
        # a runner's id is not the id of a job on minions; master and fleet know the functions of jobs that it published
        for jid in () if request.kind in RUNNERS else request.jids.split():
            names.setdefault(jid, request.function)
            if not asked[jid]:
                asked[jid] = request.expected
    return names, asked
