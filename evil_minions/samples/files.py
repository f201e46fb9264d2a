"""Raw samples of a fleet: comma-separated files that the workers write and anybody may read.

Times are seconds since the epoch, durations seconds. Each worker has files of its own, so that nothing is shared. The
readers raise SampleError at a line that is no sample.
"""

from __future__ import annotations

import csv
import io
from dataclasses import fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, get_type_hints

from evil_minions.errors import EvilMinionsError, SampleError
from evil_minions.samples.rows import DecisionRow, JobRow, ReturnRow, StartRow, TallyRow
from evil_minions.samples.tally import Tallies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


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
    """Return a field as it is written."""
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
        """Write the lines kept to the file."""
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
