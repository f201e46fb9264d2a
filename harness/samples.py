"""Raw samples of one tree's run: writers and readers of their files.

Every figure of a result is computed from these files alone, so that a result can be computed again later, and by
others, with better definitions. The fleet's own files are read by `evil_minions.samples.files`.
"""

from __future__ import annotations

import csv
import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from harness.errors import SettingsError
from harness.scenarios.timeline import OF_MASTER

if TYPE_CHECKING:
    from _csv import Writer
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import TextIO

Sample = TypeVar("Sample")
FORMAT = 1


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
    """One process at one time, in `processes.csv`; `cpu_s` is cumulative, see `harness.processes.monitor`."""

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
    """The machine at the time of a sample of the fleet, in `machine.csv`; see `harness.processes.machine`.

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
class MomentSample:
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
        return self.do in OF_MASTER


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


def read_clients(folder: Path) -> Iterator[ClientSample]:
    """Return the requests of clients of the run whose samples are in `folder`, of all workers."""
    for path in sorted(folder.glob("requests.*.csv")) or [folder / "requests.csv"]:
        yield from _read(path, ClientSample)


def read_logins(folder: Path) -> list[LoginSample]:
    """Return the log-ins in the load phase, of all workers; most loads have none."""
    return [row for path in sorted(folder.glob("logins*.csv")) for row in _read(path, LoginSample)]


def read_runners(folder: Path) -> list[RunnerSample]:
    """Return the answers of asynchronous runners; a scenario without them has none."""
    path = folder / "runners.csv"
    return list(_read(path, RunnerSample)) if path.exists() else []


def read_processes(folder: Path) -> Iterator[ProcessSample]:
    """Return the samples of every process of the bed, in order of time."""
    return _read(folder / "processes.csv", ProcessSample)


def read_fleet(folder: Path) -> Iterator[FleetSample]:
    """Return the samples of the fleet's state, in order of time."""
    return _read(folder / "fleet.csv", FleetSample)


def read_machine(folder: Path) -> list[MachineSample]:
    """Return the samples of the machine, in order of time; a run of before has none."""
    path = folder / "machine.csv"
    return list(_read(path, MachineSample)) if path.exists() else []


def read_accepted(folder: Path) -> Iterator[AcceptedJob]:
    """Return the jobs of the scenario's functions that the master accepted."""
    return _read(folder / "accepted.csv", AcceptedJob)


def read_clocks(folder: Path) -> list[ClockSample]:
    """Return the clocks of the bed's other machines and containers; where all is one machine there are none."""
    return [clock for path in sorted(folder.glob("clocks*.csv")) for clock in _read(path, ClockSample)]


def read_kept(folder: Path) -> Iterator[KeptReturn]:
    """Return the returns that the master kept."""
    return _read(folder / "kept.csv", KeptReturn)


def read_moments(folder: Path) -> list[MomentSample]:
    """Return the moments of the scenario's timeline as they came; a scenario without one has none."""
    path = folder / "timeline.csv"
    return sorted(_read(path, MomentSample), key=lambda moment: moment.time) if path.exists() else []


def read_timeline(folder: Path) -> Timeline:
    """Return the moments of the run. Raises SettingsError if they are missing, as for a run that was stopped."""
    path = folder / "timeline.json"
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return Timeline(**{column.name: values[column.name] for column in dataclasses.fields(Timeline)})
    except (OSError, ValueError, KeyError) as error:
        raise SettingsError(
            f"{path} is missing or incomplete: this run was not finished, so it has no result."
        ) from error


def write_timeline(folder: Path, timeline: Timeline) -> None:
    """Write the moments of the run into `folder`."""
    values = {"format": FORMAT, **dataclasses.asdict(timeline)}
    (folder / "timeline.json").write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")


def _read(path: Path, kind: type[Sample]) -> Iterator[Sample]:
    """Yield a `kind` for each row; a last line that a killed process left unfinished is skipped."""
    hints = get_type_hints(kind)
    columns = [(column.name, hints[column.name]) for column in dataclasses.fields(kind)]  # type: ignore[arg-type]
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if None not in row.values():
                    yield kind(**{name: _value(convert, row, name, path) for name, convert in columns})
    except FileNotFoundError as error:
        raise SettingsError(f"{path} is missing: this run was not finished, so it has no result.") from error


def _value(convert: Callable[[str], object], row: dict[str, str], name: str, path: Path) -> object:
    try:
        return convert(row[name])
    except (KeyError, ValueError) as error:
        raise SettingsError(f"{path} has no usable column `{name}`: was it written by another version?") from error
