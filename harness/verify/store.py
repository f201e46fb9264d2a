"""The raw samples of one tree in a database of SQLite's own, which lies on disk where it does not fit into memory.

Files are read as they are: a truncated line, a missing column or a time that is no number does not end the reading,
it becomes a finding. Tables have the names of `KINDS`, columns those of the samples, `file`, the number of the
file that a row is from, and `worker`, the number in that file's name.
"""

from __future__ import annotations

import csv
import dataclasses
import json
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, get_type_hints

from evil_minions import JobRow, ReturnRow, StartRow, TallyRow
from harness.errors import RunError
from harness.samples import rows as kinds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

WRONG, DOUBT, NOTE = "wrong", "doubt", "note"
# how many things are named before the rest is only counted
NAMED = 3


@dataclass(frozen=True)
class Finding:
    """One thing that was found in what a run left.

    `tree` is that of the samples, "" for the run as a whole. `weight` is `wrong` where two sources that know the same
    disagree, `doubt` where the figures are as measured but the measuring was disturbed, `note` for what a reader may
    want to know. `text` is a sentence.
    """

    tree: str
    weight: str
    text: str

    @property
    def told(self) -> str:
        """Return the sentence with its tree."""
        return f"{self.tree}: {self.text}" if self.tree else self.text


def some(names: Iterable[object]) -> str:
    """Return the first names of many, and how many more there are."""
    found = [str(name) for name in names]
    shown = ", ".join(found[:NAMED])
    return f"{shown} and {len(found) - NAMED:,} more" if len(found) > NAMED else shown


# table: kind of sample, files, and whether there has to be one
KINDS: dict[str, tuple[type, str, bool]] = {
    "requests": (kinds.ClientSample, "requests*.csv", True),
    "processes": (kinds.ProcessSample, "processes.csv", True),
    "fleet": (kinds.FleetSample, "fleet.csv", True),
    "machine": (kinds.MachineSample, "machine.csv", False),
    "accepted": (kinds.AcceptedJob, "accepted.csv", True),
    "clocks": (kinds.ClockSample, "clocks*.csv", False),
    "kept": (kinds.KeptReturn, "kept.csv", True),
    "runners": (kinds.RunnerSample, "runners.csv", False),
    "logins": (kinds.LoginSample, "logins*.csv", False),
    "moments": (kinds.MomentSample, "timeline.csv", False),
    "jobs": (JobRow, "fleet/jobs.*.csv", True),
    "tallies": (TallyRow, "fleet/tallies.*.csv", True),
    "returns": (ReturnRow, "fleet/returns.*.csv", True),
    "starts": (StartRow, "fleet/starts.*.csv", True),
}
# an index for each search; the one of returns and kept pairs them
INDEXES = {
    "returns": "jid, minion, attempts, acknowledged, time",
    "kept": "jid, minion",
    "jobs": "jid, worker",
    "tallies": "jid, worker",
    "processes": "pid, time",
}
# pages of 4 KB that stay in memory, as SQLite counts them below zero: in KB
_CACHE_KB = 64 * 1024


class Store:
    """The samples in a folder; a context manager. `findings` has what was wrong with the files."""

    def __init__(self, tree: str, folder: Path) -> None:
        """Read the samples of `tree` in `folder`."""
        self.tree = tree
        self.folder = folder
        self.findings: list[Finding] = []
        self.names: list[str] = []
        # without a name SQLite makes a temporary file, which it deletes when the connection is closed
        self._db = sqlite3.connect("")
        self._db.execute(f"PRAGMA cache_size = -{_CACHE_KB}")
        self._db.execute("PRAGMA journal_mode = OFF")
        self._db.execute("PRAGMA synchronous = OFF")
        try:
            for table, (kind, pattern, needed) in KINDS.items():
                self._fill(table, kind, pattern, needed=needed)
            self.timeline = self._timeline()
            self.zero = self._zero()
        except sqlite3.Error as error:
            self._db.close()
            raise RunError(f"The samples in {folder} could not be looked at ({error}): free some space.") from error

    def __enter__(self) -> Self:
        """Return the store."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Drop the database."""
        self._db.close()

    def rows(self, query: str, **values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a query; `values` are those that it names."""
        return self._db.execute(query, values).fetchall()

    def each(self, query: str, **values: object) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query, one by one."""
        yield from self._db.execute(query, values)

    def row(self, query: str, **values: object) -> tuple[Any, ...]:
        """Return the one row of a query."""
        found: tuple[Any, ...] = self._db.execute(query, values).fetchone()
        return found

    def value(self, query: str, **values: object) -> Any:
        """Return the one value of a query."""
        return self.row(query, **values)[0]

    def make(self, statement: str, **values: object) -> None:
        """Make a table or a view."""
        self._db.execute(statement, values)

    def wrong(self, text: str) -> None:
        """Note something wrong with the files."""
        self.findings.append(Finding(self.tree, WRONG, text))

    def _fill(self, table: str, kind: type, pattern: str, *, needed: bool) -> None:
        hints = get_type_hints(kind)
        columns = [field.name for field in dataclasses.fields(kind)]
        typed = [f'"{name}" {"TEXT" if hints[name] is str else "NUMERIC"}' for name in columns]
        self._db.execute(f"CREATE TABLE {table} ({', '.join(typed)}, file INTEGER, worker TEXT)")
        paths = sorted(self.folder.glob(pattern))
        if needed and not paths:
            self.wrong(f"there is no {pattern}.")
        places = ", ".join("?" * len(columns))
        for path in paths:
            self.names.append(path.relative_to(self.folder).as_posix())
            number, worker = len(self.names) - 1, path.name.split(".")[1]
            # the same for all rows of a file, so it is worked out once
            statement = f"INSERT INTO {table} VALUES ({places}, {number}, {_quoted(worker)})"  # noqa: S608 - see there
            self._db.executemany(statement, self._lines(path, columns, number))
        if table in INDEXES:
            self._db.execute(f"CREATE INDEX {table}_index ON {table} ({INDEXES[table]})")
        self._check_numbers(table, [name for name in columns if hints[name] is not str])

    def _lines(self, path: Path, columns: list[str], number: int) -> Iterator[list[Any]]:
        """Yield the values of each whole line, in the order of `columns`."""
        name, broken = self.names[number], list[int]()
        with path.open(newline="", encoding="utf-8", errors="replace") as file:
            reader = csv.reader(file)
            try:
                header = next(reader, [])
                missing = [column for column in columns if column not in header]
                if missing:
                    self.wrong(f"{name} has no column {', '.join(missing)}: cut, or written by another version.")
                    return
                order = None if header == columns else [header.index(column) for column in columns]
                for row in reader:
                    if len(row) != len(header):
                        broken.append(reader.line_num)
                    else:
                        yield row if order is None else [row[place] for place in order]
            except csv.Error as error:
                self.wrong(f"{name} line {reader.line_num} can't be read ({error}), nor what follows it.")
        if broken:
            self.wrong(f"{name} has {len(broken):,} lines that are no whole row: {some(broken)}.")
        elif path.stat().st_size and not _ends_well(path):
            self.wrong(f"{name} ends in the middle of a line.")

    def _check_numbers(self, table: str, columns: Iterable[str]) -> None:
        """Find what should be a number and isn't; such a row counts nowhere."""
        bad = " OR ".join(f"typeof(\"{name}\") = 'text'" for name in columns)
        if not bad:
            return
        found = self.rows(f"SELECT file, count(*) FROM {table} WHERE {bad} GROUP BY file")  # noqa: S608 - names of ours
        for file, count in found:
            self.wrong(f"{self.names[file]} has {count:,} rows with something that is no number.")
        if found:
            self._db.execute(f"DELETE FROM {table} WHERE {bad}")  # noqa: S608 - names of ours

    def _timeline(self) -> dict[str, Any]:
        try:
            found = json.loads((self.folder / "timeline.json").read_text(encoding="utf-8"))
            moments = ("fleet_start", "ready", "load_start", "clients_done", "settled")
            return {**found, **{name: float(found[name]) for name in moments}}
        except (OSError, ValueError, LookupError, TypeError):
            self.wrong("timeline.json is missing or broken: the run was not finished.")
            return {}

    def _zero(self) -> float | None:
        try:
            return float((self.folder / "zero").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            self.wrong("`zero`, the start of the load as the clients told it, is missing or broken.")
            return None


def _quoted(text: str) -> str:
    """Return a part of a file's name as SQL has a text."""
    return "'" + text.replace("'", "''") + "'"


def _ends_well(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read(1) == b"\n"
