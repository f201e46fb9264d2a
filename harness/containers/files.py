"""Files on their way to and from containers: through the engine alone, so that it may be on another machine."""

from __future__ import annotations

import csv
import io
import os
import tarfile
import tempfile
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING

from harness.errors import RunError
from harness.load import plan as plans
from harness.samples import files as samples
from harness.samples.files import SampleFile
from harness.samples.rows import APART, ProcessSample

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from docker.models.containers import Container

SKIPPED = frozenset({"__pycache__", ".git", "tests", "doc"})
# columns of samples that hold a moment, by the clock of whoever wrote them
MOMENTS = frozenset({"time", "scheduled", "started", "finished"})


def pack(entries: Mapping[str, Path | bytes]) -> IO[bytes]:
    """Return a tar archive of files, folders (without what is compiled and tests) and contents, by their path in it."""
    output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by whoever sends it
    with tarfile.open(fileobj=output, mode="w") as archive:
        for name, entry in entries.items():
            if isinstance(entry, bytes):
                fact = tarfile.TarInfo(name)
                fact.size = len(entry)
                archive.addfile(fact, io.BytesIO(entry))
            else:
                archive.add(entry, name, filter=_wanted)
    output.seek(0)
    return output


def _wanted(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if Path(entry.name).name in SKIPPED or entry.name.endswith(".pyc") else entry


def fetch(container: Container, path: str, folder: Path) -> Path:
    """Copy a container's file or folder `path` into `folder` and return the copy's path."""
    with tempfile.TemporaryFile() as received:
        for chunk in container.get_archive(path)[0]:
            received.write(chunk)
        received.seek(0)
        with tarfile.open(fileobj=received) as archive:
            # filters came with Python 3.11.4, and Debian 12 has 3.11.2
            archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, _folder: member)
            archive.extractall(folder, [_own(member) for member in archive])  # noqa: S202 - each was looked at
    return folder / Path(path).name


def _own(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return a member as this user's; raise RunError for what is no file or folder below the place to unpack in."""
    path = PurePosixPath(member.name)
    if not (member.isreg() or member.isdir()) or path.is_absolute() or ".." in path.parts:
        raise RunError(f"A container sent '{member.name}', which is no file of the bed's: use another image.")
    member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
    return member


def merge_processes(folders: Iterable[tuple[Path, float]], output: Path) -> None:
    """Write the process samples in each of `folders`, one for a container, as those of one machine.

    Beside each folder stand the seconds by which its clock is ahead. Times are rounded to seconds, or the memory of one
    role in two containers would never be of the same time.
    """
    rows: list[ProcessSample] = []
    for number, (folder, ahead) in enumerate(folders):
        if (folder / "processes.csv").exists():
            latest = {(round(row.time - ahead), row.pid): row for row in samples.read_processes(folder)}
            rows += [
                ProcessSample(float(time), row.role, number * APART + pid, row.cpu_s, row.rss_kb)
                for (time, pid), row in latest.items()
            ]
    file = SampleFile(output, ProcessSample)
    for row in sorted(rows, key=lambda row: row.time):
        file.write(row)
    file.close()


def merge_fleet(folders: Iterable[tuple[Path, float]], output: Path) -> None:
    """Copy the samples of the workers of several fleets into one folder, numbered through.

    Beside each folder stand the seconds by which its clock is ahead.
    """
    output.mkdir(parents=True, exist_ok=True)
    for number, (folder, ahead) in enumerate(folders):
        for path in folder.glob("*.*.csv"):
            kind, worker, _ = path.name.split(".")
            set_back(path, output / f"{kind}.{number * 1000 + int(worker)}.csv", ahead)


def set_back(path: Path, output: Path, ahead: float) -> None:
    """Copy a file; of samples, with all moments set back by the seconds that the clock they are of is ahead."""
    if path.name == plans.ZERO:
        plans.write_zero(output.parent, float(path.read_text(encoding="utf-8")) - ahead)
        return
    with path.open(newline="", encoding="utf-8", errors="surrogateescape") as source:
        header = next(csv.reader(source), []) if ahead and path.suffix == ".csv" else []
        columns = [number for number, name in enumerate(header) if name in MOMENTS]
        if not columns:
            output.write_bytes(path.read_bytes())
            return
        with output.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(header)
            for row in csv.reader(source):
                # a process that was killed may have left half a line
                for column in columns if len(row) == len(header) else ():
                    row[column] = f"{float(row[column]) - ahead:.6f}"
                rows.writerow(row)
