"""The journal of a worker: every file of samples that it writes, and the tallies of its jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evil_minions.errors import EvilMinionsError
from evil_minions.samples.files import SampleWriter
from evil_minions.samples.rows import AnyRow, DecisionRow, JobRow, ReturnRow, StartRow, TallyRow
from evil_minions.samples.tally import Tallies

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


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
