"""Raw samples of a fleet: counters, the tally of each job, and the files that workers write and anybody may read.

Times are seconds since the epoch, durations seconds. Each worker has files of its own, comma-separated, so that nothing
is shared. The readers raise SampleError at a line that is no sample.

A worker keeps the tallies of its latest jobs, some hundred bytes each: a job may reach a minion long after the others,
when its network heals.
"""

from __future__ import annotations

import csv
import io
import time
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, get_type_hints

from evil_minions.errors import EvilMinionsError, SampleError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job when a worker first saw it; `targeted` counts its minions that match and are subscribed."""

    time: float
    jid: str
    fun: str
    targeted: int


@dataclass(frozen=True, slots=True)
class TallyRow:
    """What has become of a job on the minions of one worker, up to `time`; only the last row of a `number` counts.

    A worker that had forgotten a job, after some thousand others, counts later events of it under another number.

    `targeted` are the minions that the job is for and that have ever signed in, also if they are dead or cut off now:
    the master expects their returns. `reached` are those that took it, at once or later. `returns` have been handed to
    the connection; of these `acknowledged` and `given_up` are over. `ended` took the job and will never have a return:
    the minion died, was told to stop the job, or keeps silent. The rest of `reached` is at work.
    """

    time: float
    number: int
    jid: str
    fun: str
    targeted: int
    reached: int
    returns: int
    acknowledged: int
    given_up: int
    ended: int


@dataclass(frozen=True, slots=True)
class ReturnRow:
    """A return that is over: acknowledged, or given up after `attempts`; `seconds` since its first send.

    One of a minion that died before the return's turn has no attempt.
    """

    time: float
    jid: str
    fun: str
    minion: str
    attempts: int
    acknowledged: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class StartRow:
    """A minion that got ready: seconds from the start of its worker to signed in, pillar there, start events out."""

    minion: str
    auth_s: float
    pillar_s: float
    ready_s: float


@dataclass(frozen=True, slots=True)
class DecisionRow:
    """What a minion with a behaviour decided on: before a job (`test.ping#2`), or before a round of a timer.

    Nothing in it depends on time, so that two runs can be compared.
    """

    minion: str
    what: str
    behaviour: str
    rule: str
    seconds: float
    returns: str
    next: str


@dataclass(slots=True)
class Counters:
    """Cumulative counts of one worker, or of a fleet."""

    auth_sent: int = 0
    auth_ok: int = 0
    # tries after the first one
    requests_retried: int = 0
    # requests of which every try has failed
    requests_given_up: int = 0
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


@dataclass(slots=True, eq=False)
class Tally:
    """The counts of one job, see `TallyRow`.

    `asked` holds one bit for each minion of the worker, the first one's is the lowest: whether the job was for it, and
    the master knows it. `stream` is where the random numbers for this job begin, see `evil_minions.rng`; it is the
    `nth` job with its function.
    """

    number: int
    jid: str
    fun: str
    targeted: int = 0
    reached: int = 0
    returns: int = 0
    acknowledged: int = 0
    given_up: int = 0
    ended: int = 0
    asked: int = 0
    stream: int = 0
    nth: int = 0

    def asks(self, index: int) -> None:
        """Count a minion that the job is for, once."""
        if not self.asked >> index & 1:
            self.asked |= 1 << index
            self.targeted += 1

    def row(self) -> TallyRow:
        """Return the counts as of now."""
        return TallyRow(time.time(), *_COUNTS(self))


_COUNTS: Final = attrgetter(*[field.name for field in fields(TallyRow)][1:])


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


Row = TypeVar("Row", JobRow, TallyRow, ReturnRow, StartRow, DecisionRow)
AnyRow: TypeAlias = JobRow | TallyRow | ReturnRow | StartRow | DecisionRow


_BUFFERED_ROWS: Final = 2000


_NAMES: Final[dict[type, str]] = {
    JobRow: "jobs",
    TallyRow: "tallies",
    ReturnRow: "returns",
    StartRow: "starts",
    DecisionRow: "decisions",
}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return f"{value:.6f}" if isinstance(value, float) else str(value)


class SampleWriter:
    """Writes the rows of one kind of one worker; they are on disk after `flush`."""

    def __init__(self, folder: Path, kind: type, worker: int) -> None:
        """Create the file with its header.

        Raises:
            SampleError: if it can't be written.
        """
        self._path = folder / f"{_NAMES[kind]}.{worker}.csv"
        names = [field.name for field in fields(kind)]
        self._values = attrgetter(*names)
        self._kept = io.StringIO()
        self._rows = 0
        self._csv = csv.writer(self._kept, lineterminator="\n")
        self._csv.writerow(names)
        self._write("w")

    def add(self, row: AnyRow) -> None:
        """Keep a row for the next flush."""
        self._csv.writerow([value if type(value) is str else _text(value) for value in self._values(row)])
        self._rows += 1
        if self._rows >= _BUFFERED_ROWS:
            self.flush()

    def flush(self) -> None:
        """Write what is kept.

        Raises:
            SampleError: if the disk doesn't take it.
        """
        if self._rows:
            self._write("a")

    def _write(self, mode: str) -> None:
        try:
            with self._path.open(mode) as file:
                file.write(self._kept.getvalue())
        except OSError as error:
            raise SampleError(
                f"{self._path} can't be written ({error.strerror}): free space or another folder."
            ) from error
        self._kept.seek(0)
        self._kept.truncate()
        self._rows = 0


def read_samples(folder: Path, kind: type[Row]) -> Iterator[Row]:
    """Return the rows of one kind over all workers, worker by worker."""
    for path in _files(folder, kind):
        yield from _rows(path, kind)


def _files(folder: Path, kind: type) -> list[Path]:
    """Return the files of one kind, in the order of the workers."""
    return sorted(folder.glob(f"{_NAMES[kind]}.*.csv"), key=lambda found: int(found.suffixes[-2][1:]))


def _rows(path: Path, kind: type[Row]) -> Iterator[Row]:
    types = get_type_hints(kind)
    with path.open(newline="") as file:
        for number, cells in enumerate(csv.DictReader(file), start=2):
            try:
                values: dict[str, Any] = {
                    name: bool(int(cells[name])) if form is bool else form(cells[name]) for name, form in types.items()
                }
            except (KeyError, TypeError, ValueError) as error:
                raise SampleError(f"{path} line {number} is no sample of this fleet: {error}.") from error
            yield kind(**values)


def read_tallies(folder: Path) -> list[TallyRow]:
    """Return what became of each job on the minions of each worker: the last row of each number."""
    found: list[TallyRow] = []
    for path in _files(folder, TallyRow):
        found += {row.number: row for row in _rows(path, TallyRow)}.values()
    return found


class Journal:
    """Writes the samples of one worker; a disk that takes none ends the fleet, as its figures would be wrong."""

    def __init__(self, folder: Path, worker: int, fail: Callable[[EvilMinionsError], None]) -> None:
        """Create the files; `fail` is called with an error that comes later.

        Raises:
            SampleError: if a file can't be written.
        """
        self.tallies = Tallies()
        self._folder = folder
        self._worker = worker
        self._fail = fail
        self._writers: dict[type[AnyRow], SampleWriter] = {
            kind: SampleWriter(folder, kind, worker) for kind in (JobRow, TallyRow, ReturnRow, StartRow)
        }

    def open_decisions(self) -> None:
        """Create the file of what behaviours decide, unless it is there: a fleet without behaviours has none."""
        if DecisionRow not in self._writers:
            self._writers[DecisionRow] = SampleWriter(self._folder, DecisionRow, self._worker)

    def add(self, row: AnyRow) -> None:
        """Keep a row for the next flush."""
        try:
            self._writers[type(row)].add(row)
        except EvilMinionsError as error:
            self._fail(error)

    def flush(self) -> None:
        """Put all samples on disk."""
        for row in self.tallies.take():
            self.add(row)
        for writer in self._writers.values():
            try:
                writer.flush()
            except EvilMinionsError as error:
                self._fail(error)
