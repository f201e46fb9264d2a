"""Raw samples of one tree's run: writers and readers of their files.

Every figure of a result is computed from these files alone, so that a result can be computed again later, and by
others, with better definitions. The fleet's own files are read by `evil_minions.samples.files`.

Whatever happens to a file afterwards (rows lost in a copy, a file cut by a full disk, an edit) can be named with it.
"""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import json
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from harness.errors import SettingsError
from harness.samples.rows import (
    AcceptedJob,
    ClientSample,
    ClockSample,
    FleetSample,
    KeptReturn,
    LoginSample,
    MachineSample,
    MomentSample,
    ProcessSample,
    RunnerSample,
    Timeline,
)

if TYPE_CHECKING:
    from _csv import Writer
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import TextIO

FILE = "manifest.json"
# what samples are: the fleet's keys lie beside its files
PATTERNS = ("*.csv", "fleet/*.csv", "timeline.json", "zero")
_BLOCK = 1 << 20


def write(samples: Path) -> None:
    """Write the manifest of the folder `samples`; nothing may write there any more."""
    text = json.dumps({"format": FORMAT, "files": entries(samples)}, indent=1) + "\n"
    (samples / FILE).write_text(text, encoding="utf-8")


def read(samples: Path) -> dict[str, dict[str, Any]]:
    """Return the entries that were written; raises OSError, ValueError or LookupError if there are none to read."""
    files: dict[str, dict[str, Any]] = json.loads((samples / FILE).read_text(encoding="utf-8"))["files"]
    return files


def entries(samples: Path) -> dict[str, dict[str, Any]]:
    """Return the `lines`, `bytes` and `sha256` of each file as it is now, by its path below the folder `samples`."""
    return {path.relative_to(samples).as_posix(): _entry(path) for path in _files(samples)}


def _files(samples: Path) -> Iterator[Path]:
    for pattern in PATTERNS:
        yield from sorted(samples.glob(pattern))


def _entry(path: Path) -> dict[str, Any]:
    digest, lines, size = hashlib.sha256(), 0, 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            lines += block.count(b"\n")
            size += len(block)
    return {"lines": lines, "bytes": size, "sha256": digest.hexdigest()}


Sample = TypeVar("Sample")
FORMAT = 1


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
    """Return the samples of the machine, in order of time; a run of an older version has none."""
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
    columns = [(column.name, hints[column.name]) for column in dataclasses.fields(kind)]  # type: ignore[arg-type]  # each has the field's type
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
