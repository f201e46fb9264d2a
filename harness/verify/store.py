"""The raw samples of one tree in a database of SQLite's own, which lies on disk where it does not fit into memory.

Tables have the names of `harness.samples.KINDS`, columns those of the samples, `file`, the number of a row's
file, and `worker`, the number in that file's name.
"""

from __future__ import annotations

import dataclasses
import sqlite3
from contextlib import AbstractContextManager
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, get_type_hints

from harness.errors import RunError
from harness.samples import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.samples import Samples

WRONG, DOUBT, NOTE = "wrong", "doubt", "note"


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
    def sentence(self) -> str:
        """Return the sentence with its tree."""
        return f"{self.tree}: {self.text}" if self.tree else self.text


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


class Store(AbstractContextManager["Store"]):
    """The samples of one tree's run; a context manager. `findings` has what was wrong with the files."""

    def __init__(self, tree: str, samples: Samples) -> None:
        """Take the samples of `tree`."""
        self.tree = tree
        self.folder = samples.folder
        self.findings = [Finding(tree, WRONG, fault) for fault in samples.faults]
        self.timeline: dict[str, Any] = dataclasses.asdict(samples.timeline) if samples.timeline else {}
        self.zero = samples.zero
        self.names = [name for table in samples.tables.values() for name in table]
        # without a name SQLite makes a temporary file, which it deletes when the connection is closed
        self._db = sqlite3.connect("")
        self._db.execute(f"PRAGMA cache_size = -{_CACHE_KB}")
        self._db.execute("PRAGMA journal_mode = OFF")
        self._db.execute("PRAGMA synchronous = OFF")
        try:
            for table, kind in KINDS.items():
                self._fill(table, kind.row, samples.tables[table])
        except sqlite3.Error as error:
            self._db.close()
            raise RunError(f"{self.folder} could not be looked at ({error}): free some space.") from error

    def __exit__(self, *_error: object) -> None:
        """Drop the database."""
        self._db.close()

    def wrong(self, text: str) -> Finding:
        """Return the finding that sources of these samples disagree."""
        return Finding(self.tree, WRONG, text)

    def doubt(self, text: str) -> Finding:
        """Return the finding that the measuring was disturbed."""
        return Finding(self.tree, DOUBT, text)

    def note(self, text: str) -> Finding:
        """Return what a reader may want to know."""
        return Finding(self.tree, NOTE, text)

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

    def _fill(self, table: str, kind: type, files: Mapping[str, list[Any]]) -> None:
        hints = get_type_hints(kind)
        columns = [field.name for field in dataclasses.fields(kind)]
        typed = [f'"{name}" {"TEXT" if hints[name] is str else "NUMERIC"}' for name in columns]
        self._db.execute(f"CREATE TABLE {table} ({', '.join(typed)}, file INTEGER, worker TEXT)")
        values, places = attrgetter(*columns), ", ".join("?" * (len(columns) + 2))
        for name, rows in files.items():
            own = self.names.index(name), name.rpartition("/")[2].split(".")[1]
            self._db.executemany(f"INSERT INTO {table} VALUES ({places})", ((*values(row), *own) for row in rows))  # noqa: S608 - names of ours
        if table in INDEXES:
            self._db.execute(f"CREATE INDEX {table}_index ON {table} ({INDEXES[table]})")
