"""What a run leaves on disk for its figures: the rows, the writer and the one reader of their files, and the manifest.

Every figure of a result is computed from these files alone, so that a result can be computed again later, and by
others, with better definitions. Whatever happened to a file (rows lost in a copy, a file cut by a full disk, an edit)
is named with it. Each field of a row is a column of its file.
"""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from evil_minions import ORDERS, JobRow, ReturnRow, StartRow, TallyRow

if TYPE_CHECKING:
    from _csv import Writer
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path
    from typing import TextIO


@dataclass(frozen=True)
class ClientSample:
    """One request of a client, in `requests.csv`; times are seconds since the epoch.

    `scheduled` is when it was due, `started` when it was sent. `jids` are the ids of the jobs that its answer names,
    separated by spaces. `expected` and `answered` count minions. `error` is empty for a complete answer.
    """

    clients: str
    kind: str
    function: str
    mode: str
    number: int
    scheduled: float
    started: float
    finished: float
    jids: str
    expected: int
    answered: int
    error: str

    @property
    def latency_s(self) -> float:
        """Return the seconds from when the request was due to when it was answered."""
        return self.finished - self.scheduled


@dataclass(frozen=True)
class LoginSample:
    """One log-in at salt-api in the load phase, in `logins.csv`.

    `time` (seconds since the epoch) is when it began, `seconds` how long it took. `why` is `start` (the load began),
    `request` (the user logs in for each) or `expired` (the token was not valid any more). `error` is empty unless it
    failed.
    """

    time: float
    user: str
    why: str
    seconds: float
    error: str


@dataclass(frozen=True)
class RunnerSample:
    """The answer of an asynchronous runner that the master's job cache held at the end, in `runners.csv`.

    `jid` is the runner's own id, `jids` are those of the jobs that its answer names, separated by spaces. `answered`
    counts minions. `error` is empty unless the answer tells of one.
    """

    jid: str
    answered: int
    jids: str
    error: str


APART = 10_000_000
"""Between the numbers of the processes of two containers, which are a container's own."""


@dataclass(frozen=True)
class ProcessSample:
    """One process at one time, in `processes.csv`; `cpu_s` is cumulative, see `harness.samples.monitor`."""

    time: float
    role: str
    pid: int
    cpu_s: float
    rss_kb: int


@dataclass(frozen=True)
class FleetSample:
    """The fleet at one time, in `fleet.csv`: states up to `ready`, memory, and counters since the fleet's start.

    `executing` counts the jobs that minions have got and have no return for yet. `heard` is how often a publication
    came to a minion, whoever it was for, and `heard_bytes` what these took.
    """

    time: float
    minions: int
    connected: int
    authenticated: int
    ready: int
    rss_kb: int
    base_rss_kb: int
    cpu_s: float
    publications: int
    heard: int
    heard_bytes: int
    executions: int
    find_jobs: int
    returns: int
    return_sends: int
    returns_acked: int
    returns_given_up: int
    executing: int


@dataclass(frozen=True)
class AcceptedJob:
    """One job that the master accepted, as its job cache has it, in `accepted.csv`: published, or in a queue.

    `targeted` is how many minions the master counts on; 0 if its job cache does not say.
    """

    jid: str
    fun: str
    targeted: int


@dataclass(frozen=True)
class ClockSample:
    """The clock of another machine or container of the bed, in `clocks.csv` and `clocks.K.csv`.

    `offset_s` is how far it was ahead of the clock that all samples are in, to `error_s` (half of the quickest round
    trip); its samples have been corrected by that. `drift_s` is by how much that changed until the end of the run. What
    is within its error is 0.
    """

    name: str
    offset_s: float
    error_s: float
    drift_s: float


@dataclass(frozen=True)
class MachineSample:
    """The machine at the time of a sample of the fleet, in `machine.csv`; see `harness.processes.kernel`.

    `monotonic` is the clock that nobody sets. `busy_s` is the CPU time of all processes of the machine since its start,
    `stolen_s` what a hypervisor gave to others, `harness_s` that of the process that takes the samples. `available_mb`
    is the memory that is left, `swapped_mb` what was swapped out since the machine's start.
    """

    time: float
    monotonic: float
    busy_s: float
    stolen_s: float
    harness_s: float
    available_mb: int
    swapped_mb: int
    load_average: float


@dataclass(frozen=True)
class KeptReturn:
    """One return that the master's job cache holds, in `kept.csv`."""

    jid: str
    minion: str


@dataclass(frozen=True)
class EventSample:
    """One moment of the scenario's timeline that came, in `timeline.csv`.

    `time` (seconds since the epoch) is when it began, `seconds` how long it took until done, `at_s` when it was due
    after the load's start. `minions` counts those that it affected. `error` is empty unless it was refused.
    """

    time: float
    at_s: float
    seconds: float
    do: str
    name: str
    minions: int
    error: str

    @property
    def of_master(self) -> bool:
        """Return whether it was done to the master, not to the fleet."""
        return self.do not in ORDERS


@dataclass(frozen=True)
class Timeline:
    """The phases of a run, in `timeline.json`; seconds since the epoch.

    `fleet_start`: the fleet's command was started; `ready`: all minions were ready; `load_start`: the schedule's zero;
    `clients_done`: the last client had its answer; `settled`: nothing was on its way any more, or the limit was
    reached (`settled_in_time` is false then).
    """

    fleet_start: float
    ready: float
    load_start: float
    clients_done: float
    settled: float
    settled_in_time: bool


MANIFEST = "manifest.json"
# what samples are: the fleet's keys lie beside its files
PATTERNS = ("*.csv", "fleet/*.csv", "timeline.json", "zero")
FORMAT = 1
_BLOCK = 1 << 20
# how many things are named before the rest is only counted
NAMED = 3
UNFINISHED = "this run was not finished, so it has no result"

Sample = TypeVar("Sample")


@dataclass(frozen=True)
class Kind:
    """One kind of samples: what a row is, the files, and whether each finished run has one."""

    row: type[Any]
    pattern: str
    needed: bool = True


KINDS = {
    "requests": Kind(ClientSample, "requests*.csv"),
    "processes": Kind(ProcessSample, "processes.csv"),
    "fleet": Kind(FleetSample, "fleet.csv"),
    # none on several machines, and in runs of older versions
    "machine": Kind(MachineSample, "machine.csv", needed=False),
    "accepted": Kind(AcceptedJob, "accepted.csv"),
    "clocks": Kind(ClockSample, "clocks*.csv", needed=False),
    "kept": Kind(KeptReturn, "kept.csv"),
    "runners": Kind(RunnerSample, "runners.csv", needed=False),
    "logins": Kind(LoginSample, "logins*.csv", needed=False),
    "moments": Kind(EventSample, "timeline.csv", needed=False),
    "jobs": Kind(JobRow, "fleet/jobs.*.csv"),
    "tallies": Kind(TallyRow, "fleet/tallies.*.csv"),
    "returns": Kind(ReturnRow, "fleet/returns.*.csv"),
    "starts": Kind(StartRow, "fleet/starts.*.csv"),
}


def some(names: Iterable[object]) -> str:
    """Return the first names of many, and how many more there are."""
    found = [str(name) for name in names]
    shown = ", ".join(found[:NAMED])
    return f"{shown} and {len(found) - NAMED:,} more" if len(found) > NAMED else shown


def write(samples: Path) -> None:
    """Write the manifest of the folder `samples`; nothing may write there any more."""
    text = json.dumps({"format": FORMAT, "files": entries(samples)}, indent=1) + "\n"
    (samples / MANIFEST).write_text(text, encoding="utf-8")


def entries(samples: Path) -> dict[str, dict[str, Any]]:
    """Return the `lines`, `bytes` and `sha256` of each file as it is now, by its path below the folder `samples`."""
    paths = [path for pattern in PATTERNS for path in sorted(samples.glob(pattern))]
    return {path.relative_to(samples).as_posix(): _entry(path) for path in paths}


def _entry(path: Path) -> dict[str, Any]:
    digest, lines, size = hashlib.sha256(), 0, 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            lines += block.count(b"\n")
            size += len(block)
    return {"lines": lines, "bytes": size, "sha256": digest.hexdigest()}


class SampleFile:
    """A CSV file of samples of one kind that is being written; each row is on disk when `write` returns."""

    def __init__(self, path: Path, kind: type[Any]) -> None:
        """Create `path` with the header for `kind`, one of the dataclasses of this module."""
        self._columns = [column.name for column in dataclasses.fields(kind)]
        self._file: TextIO = path.open("w", newline="", encoding="utf-8")
        self._rows: Writer = csv.writer(self._file)
        self._rows.writerow(self._columns)
        self._file.flush()

    def write(self, sample: object) -> None:
        """Append `sample`."""
        values = (getattr(sample, column) for column in self._columns)
        self._rows.writerow([f"{value:.6f}" if isinstance(value, float) else value for value in values])
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Samples:
    """The samples in a folder, each file read once.

    tables: by the kind's name, the rows of each file, by its path below the folder
    timeline, zero: the run's phases, and the start of the load as the clients told it; None where that is missing
    faults: what is wrong with the files, in sentences; a row that is none counts nowhere
    unusable: those of them without which there is no result
    """

    def __init__(self, folder: Path) -> None:
        """Read the samples in `folder`."""
        self.folder = folder
        self.faults: list[str] = []
        self.unusable: list[str] = []
        self.tables = {name: self._table(kind) for name, kind in KINDS.items()}
        self.timeline = self._timeline()
        self.zero = self._zero()

    def of(self, name: str) -> list[Any]:
        """Return the rows of all files of a kind."""
        return [row for of_file in self.tables[name].values() for row in of_file]

    def _table(self, kind: Kind) -> dict[str, list[Any]]:
        paths = sorted(self.folder.glob(kind.pattern))
        if kind.needed and not paths:
            self._spoil(f"there is no {kind.pattern}: {UNFINISHED}.")
        found = {}
        for path in paths:
            name = path.relative_to(self.folder).as_posix()
            found[name] = list(_rows(path, name, kind.row, self.faults.append, self._spoil))
        return found

    def _spoil(self, fault: str) -> None:
        self.faults.append(fault)
        self.unusable.append(fault)

    def _timeline(self) -> Timeline | None:
        try:
            values = json.loads((self.folder / "timeline.json").read_text(encoding="utf-8"))
            return Timeline(**{column.name: values[column.name] for column in dataclasses.fields(Timeline)})
        except (OSError, ValueError, LookupError, TypeError):
            self._spoil(f"timeline.json is missing or broken: {UNFINISHED}.")
            return None

    def _zero(self) -> float | None:
        try:
            return float((self.folder / "zero").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            self.faults.append("`zero`, the start of the load as the clients told it, is missing or broken.")
            return None


def read(folder: Path, kind: type[Sample]) -> list[Sample]:
    """Return the whole rows of one kind in `folder` so far, of all files; there may be none yet."""
    (pattern,) = (one.pattern for one in KINDS.values() if one.row is kind)
    paths = sorted(folder.glob(pattern))
    return [row for path in paths for row in _rows(path, path.name, kind, lambda _: None, lambda _: None)]


def write_timeline(folder: Path, timeline: Timeline) -> None:
    """Write the moments of the run into `folder`."""
    values = {"format": FORMAT, **dataclasses.asdict(timeline)}
    (folder / "timeline.json").write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")


def _rows(
    path: Path, name: str, kind: type[Sample], fault: Callable[[str], None], spoil: Callable[[str], None]
) -> Iterator[Sample]:
    """Yield a `kind` for each whole row of a file; tell `fault`, or `spoil`, what is wrong with the others."""
    hints = get_type_hints(kind)
    columns = [column.name for column in dataclasses.fields(kind)]  # type: ignore[arg-type]  # each kind is a dataclass
    broken, odd = list[int](), 0
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        reader = csv.reader(file)
        try:
            header = next(reader, [])
            if missing := [column for column in columns if column not in header]:
                spoil(f"{name} has no column {', '.join(missing)}: cut, or written by another version.")
                return
            cells = [(header.index(column), _flag if hints[column] is bool else hints[column]) for column in columns]
            for row in reader:
                if len(row) != len(header):
                    broken.append(reader.line_num)
                    continue
                try:
                    values = [convert(row[place]) for place, convert in cells]
                except ValueError:
                    odd += 1
                else:
                    yield kind(*values)
        except csv.Error as error:
            fault(f"{name} line {reader.line_num} can't be read ({error}), nor what follows it.")
    if odd:
        spoil(f"{name} has {odd:,} rows with something that is no number.")
    if broken:
        fault(f"{name} has {len(broken):,} lines that are no whole row: {some(broken)}.")
    elif path.stat().st_size and not _ends_well(path):
        fault(f"{name} ends in the middle of a line.")


def _flag(text: str) -> bool:
    return bool(int(text))


def _ends_well(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read(1) == b"\n"
