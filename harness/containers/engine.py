"""Engines of Docker, and the marks by which everything that a run makes is found again.

Every container, network and image of a run carries its label, so that whoever cleans up needs no list: the janitor at
the run's end (`harness.containers.janitor`), and the next run, for one that ended together with its janitor.
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import socket
import tarfile
import tempfile
import time
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any

from harness.database.container import engine
from harness.database.postgres import UnavailableError
from harness.errors import DockerError, RunError, StartError
from harness.load import plan as plans
from harness.processes.deadline import Deadline, until
from harness.processes.kernel import ended, owner
from harness.samples import files as samples
from harness.samples.files import SampleFile
from harness.samples.rows import APART, ProcessSample

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from docker import DockerClient
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
        latest = {(round(row.time - ahead), row.pid): row for row in samples.read(folder, ProcessSample)}
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


RUN, HOST, OWNER, STARTED = "saltbed.run", "saltbed.host", "saltbed.owner", "saltbed.started"
# longer than the start of any run, and than any difference of two machines' clocks
FORGOTTEN_S = 24 * 3600.0


def connect(url: str, environment: Mapping[str, str]) -> DockerClient:
    """Return a client of the engine at `url`; raise DockerError if none answers there."""
    try:
        return engine({**environment, "DOCKER_HOST": url})
    except UnavailableError as error:
        raise DockerError(
            f"N{str(error)[1:]}: install one (`apt-get install docker.io`), start it, or name another in DOCKER_HOST."
        ) from error


def labels(run: str) -> dict[str, str]:
    """Return the labels for everything that this process makes for `run`."""
    return {RUN: run, HOST: socket.gethostname(), OWNER: owner(os.getpid()), STARTED: f"{time.time():.0f}"}


def abandoned(marks: Mapping[str, str]) -> bool:
    """Say whether the process that these labels name is known to have ended: one of this machine and this boot."""
    return RUN in marks and ended(marks.get(OWNER, "")) is True


def forgotten(marks: Mapping[str, str], at_work: Collection[str], now: float) -> bool:
    """Say whether a run of another machine or boot left this: it started long ago and has no container.

    `at_work` are the runs that have containers, whose life depends on their harness; `now` is in seconds since the
    epoch.
    """
    if RUN not in marks or ended(marks.get(OWNER, "")) is not None or marks[RUN] in at_work:
        return False
    try:
        return now - float(marks[STARTED]) > FORGOTTEN_S
    except (KeyError, ValueError):
        return False


def sweep(client: DockerClient) -> list[str]:
    """Remove what earlier runs left on an engine, and nothing that may be at work; return what could not be removed."""
    at_work = {entry.labels.get(RUN, "") for entry in _containers(client)}
    now = time.time()
    return remove(client, lambda marks: abandoned(marks) or forgotten(marks, at_work, now))


def remove(client: DockerClient, wanted: Callable[[Mapping[str, str]], bool]) -> list[str]:
    """Remove all containers, networks and images of runs whose labels are `wanted`; return what could not be removed.

    What disappears by itself meanwhile counts as removed.
    """
    from docker.errors import APIError, NotFound  # noqa: PLC0415 - slow to import, and most beds need none

    problems: list[str] = []

    def each(
        entries: Iterable[Any], marks: Callable[[Any], Mapping[str, str] | None], do: Callable[[Any], None]
    ) -> None:
        for entry in entries:
            if not wanted(marks(entry) or {}):
                continue
            try:
                do(entry)
            except NotFound:
                continue
            except APIError as error:
                if error.status_code != 409 or "already in progress" not in str(error):  # noqa: PLR2004 - conflict
                    problems.append(str(error.explanation))

    def remove_container(entry: Any) -> None:
        entry.remove(force=True, v=True)

    chosen = {"label": RUN}
    each(_containers(client), lambda entry: entry.labels, remove_container)
    _await_none(client, wanted)
    each(client.networks.list(filters=chosen), lambda entry: entry.attrs.get("Labels"), lambda entry: entry.remove())
    each(
        client.images.list(filters=chosen),
        lambda entry: entry.labels,
        lambda entry: client.images.remove(entry.id, force=True),
    )
    return problems


def _containers(client: DockerClient) -> list[Any]:
    return list(client.containers.list(all=True, filters={"label": RUN}, ignore_removed=True))


def _await_none(client: DockerClient, wanted: Callable[[Mapping[str, str]], bool]) -> None:
    """Wait until the containers have gone: some end by themselves, and a network can't go before them."""
    with contextlib.suppress(StartError):
        until(lambda: not any(wanted(entry.labels) for entry in _containers(client)), Deadline(10.0), lambda: "")
