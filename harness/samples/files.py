"""Raw samples of one tree's run: the writer and the one reader of their files.

Every figure of a result is computed from these files alone, so that a result can be computed again later, and by
others, with better definitions. Whatever happened to a file (rows lost in a copy, a file cut by a full disk, an edit)
is named with it.
"""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from evil_minions import JobRow, ReturnRow, StartRow, TallyRow
from harness.samples import rows

if TYPE_CHECKING:
    from _csv import Writer
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path
    from typing import TextIO

FILE = "manifest.json"
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
    "requests": Kind(rows.ClientSample, "requests*.csv"),
    "processes": Kind(rows.ProcessSample, "processes.csv"),
    "fleet": Kind(rows.FleetSample, "fleet.csv"),
    # none on several machines, and in runs of older versions
    "machine": Kind(rows.MachineSample, "machine.csv", needed=False),
    "accepted": Kind(rows.AcceptedJob, "accepted.csv"),
    "clocks": Kind(rows.ClockSample, "clocks*.csv", needed=False),
    "kept": Kind(rows.KeptReturn, "kept.csv"),
    "runners": Kind(rows.RunnerSample, "runners.csv", needed=False),
    "logins": Kind(rows.LoginSample, "logins*.csv", needed=False),
    "moments": Kind(rows.MomentSample, "timeline.csv", needed=False),
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
    (samples / FILE).write_text(text, encoding="utf-8")


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

    def _timeline(self) -> rows.Timeline | None:
        try:
            values = json.loads((self.folder / "timeline.json").read_text(encoding="utf-8"))
            return rows.Timeline(**{column.name: values[column.name] for column in dataclasses.fields(rows.Timeline)})
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


def write_timeline(folder: Path, timeline: rows.Timeline) -> None:
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
