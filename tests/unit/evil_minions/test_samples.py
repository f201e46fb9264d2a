"""Sample files: what the workers write is what readers get."""

from __future__ import annotations

from pathlib import Path

import pytest

from evil_minions.errors import SampleError
from evil_minions.samples import JobRow, ReturnRow, SampleWriter, StartRow, read_samples

JOBS = [JobRow(1.5, "20261121034757208012", "test.ping", 3), JobRow(2.0, "20261121034757208013", 'odd,"name"', 0)]
RETURNS = [
    ReturnRow(3.25, "20261121034757208012", "test.ping", "minion-00001", 1, True, 0.125),
    ReturnRow(4.0, "20261121034757208012", "test.ping", "minion-00002", 3, False, 22.5),
]
STARTS = [StartRow("minion-00001", 0.5, 1.5, 1.75)]


def write(folder: Path, worker: int, *rows: JobRow | ReturnRow | StartRow) -> None:
    """Write rows of one kind."""
    writer = SampleWriter(folder, type(rows[0]), worker)
    for row in rows:
        writer.add(row)
    writer.flush()


def test_rows_come_back(tmp_path: Path) -> None:
    """Every kind of row is read as it was written."""
    write(tmp_path, 0, *JOBS)
    write(tmp_path, 0, *RETURNS)
    write(tmp_path, 0, *STARTS)
    assert list(read_samples(tmp_path, JobRow)) == JOBS
    assert list(read_samples(tmp_path, ReturnRow)) == RETURNS
    assert list(read_samples(tmp_path, StartRow)) == STARTS


def test_all_workers_are_read_in_order(tmp_path: Path) -> None:
    """Readers go over the workers by number."""
    for worker in (10, 2, 0):
        write(tmp_path, worker, StartRow(f"minion-{worker}", 0.0, 0.0, 0.0))
    assert [row.minion for row in read_samples(tmp_path, StartRow)] == ["minion-0", "minion-2", "minion-10"]


def test_header_is_there_before_the_first_row(tmp_path: Path) -> None:
    """A file without rows has its header, and reads as nothing."""
    SampleWriter(tmp_path, ReturnRow, 0)
    assert (tmp_path / "returns.0.csv").read_text() == "time,jid,fun,minion,attempts,acknowledged,seconds\n"
    assert list(read_samples(tmp_path, ReturnRow)) == []


def test_rows_are_kept_until_the_flush(tmp_path: Path) -> None:
    """A row costs no write of its own."""
    writer = SampleWriter(tmp_path, JobRow, 0)
    writer.add(JOBS[0])
    before = list(read_samples(tmp_path, JobRow))
    writer.flush()
    assert (before, list(read_samples(tmp_path, JobRow))) == ([], JOBS[:1])


def test_other_lines_are_an_error(tmp_path: Path) -> None:
    """A file that holds something else is named, with the line."""
    (tmp_path / "jobs.0.csv").write_text("time,jid,fun,targeted\n1.0,2,test.ping,3\nx,2,test.ping,3\n")
    with pytest.raises(SampleError, match=r"jobs\.0\.csv line 3 is no sample"):
        list(read_samples(tmp_path, JobRow))


def test_no_place_to_write(tmp_path: Path) -> None:
    """A folder that can't be written says so."""
    with pytest.raises(SampleError, match="can't be written"):
        SampleWriter(tmp_path / "nosuch", JobRow, 0)


def test_full_disk(tmp_path: Path) -> None:
    """A disk that is full says so in one sentence."""
    writer = SampleWriter(tmp_path, JobRow, 0)
    writer._path = Path("/dev/full")
    writer.add(JOBS[0])
    with pytest.raises(SampleError, match="No space left on device"):
        writer.flush()
