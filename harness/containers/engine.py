"""Docker's engine, its swarm, and the marks by which everything that a run makes is found again.

Every service, container, network and image of a run carries its label, so that whoever cleans up needs no list: the
janitor at the run's end, and the next run, for one that ended together with it.

`python -m harness.containers.engine RUN URL` is the janitor, a process of the bed that outlives a harness that is
killed: it waits for SIGTERM, which the warden sends at the end of the bed, however that comes; then it removes every
service, container, network and image that carries the run's label.
"""

from __future__ import annotations

import base64
import contextlib
import csv
import io
import os
import signal
import socket
import sys
import tarfile
import tempfile
import time
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any

from harness import samples
from harness.database import UnavailableError
from harness.database.container import engine
from harness.errors import DockerError, RunError, StartError
from harness.load import plan as plans
from harness.paths import ROOT
from harness.processes.command import Command, Layer, tail
from harness.processes.deadline import Deadline, until
from harness.processes.kernel import ended, owner
from harness.samples import APART, ProcessSample, SampleFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from docker import DockerClient

    from harness.containers.channel import Channel
    from harness.processes.processes import Processes


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


def fetch(channel: Channel, path: str, output: Path) -> None:
    """Copy a file of a container to `output`, over the line to it: no engine copies files of other machines."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("wb") as file:
        while data := base64.b64decode(channel.ask("read", {"path": path, "offset": file.tell()})["data"]):
            file.write(data)


def fetch_folder(channel: Channel, path: str, output: Path) -> Path:
    """Copy all files below a container's folder into `output`, and return that.

    Raises:
        RunError: if the container names a file that would lie elsewhere.
    """
    for name in channel.ask("files", {"path": path})["files"]:
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise RunError(f"A container sent '{name}', which is no file of the bed's: use another image.")
        fetch(channel, f"{path}/{name}", output / name)
    return output


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


RUN, HOST, OWNER = "saltbed.run", "saltbed.host", "saltbed.owner"


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
    return {RUN: run, HOST: socket.gethostname(), OWNER: owner(os.getpid())}


def abandoned(marks: Mapping[str, str]) -> bool:
    """Say whether the process that these labels name is known to have ended: one of this machine and this boot."""
    return RUN in marks and ended(marks.get(OWNER, "")) is True


def remove(client: DockerClient, wanted: Callable[[Mapping[str, str]], bool]) -> list[str]:
    """Remove everything of runs whose labels are `wanted`; return what could not be removed.

    What disappears by itself meanwhile counts as removed.
    """
    from docker.errors import APIError, NotFound  # noqa: PLC0415 - slow to import, and most beds need none

    problems: list[str] = []

    def each(entries: Iterable[Any], **options: bool) -> None:
        for entry in entries:
            attributes = entry.attrs.get("Spec") or entry.attrs.get("Config") or entry.attrs
            if not wanted(attributes.get("Labels") or {}):
                continue
            try:
                entry.remove(**options)
            except NotFound:
                continue
            except APIError as error:
                if error.status_code != 409 or "already in progress" not in str(error):  # noqa: PLR2004 - conflict
                    problems.append(str(error.explanation))

    chosen = {"label": RUN}
    if manages(client):
        each(client.services.list(filters=chosen))
    each(_containers(client), force=True, v=True)
    _await_none(client, wanted)
    each(client.networks.list(filters=chosen))
    each(client.images.list(filters=chosen), force=True)
    return problems


def _containers(client: DockerClient) -> list[Any]:
    return list(client.containers.list(all=True, filters={"label": RUN}, ignore_removed=True))


def _marks(client: DockerClient) -> list[Mapping[str, str]]:
    """Return the labels of all containers and tasks, also of those whose service is removed already."""
    api: Any = client.api
    tasks = api.tasks() if manages(client) else []
    found = [task["Spec"].get("ContainerSpec", {}).get("Labels") or {} for task in tasks]
    return found + [entry.labels for entry in _containers(client)]


def _await_none(client: DockerClient, wanted: Callable[[Mapping[str, str]], bool]) -> None:
    """Wait until containers and tasks have gone: some end by themselves, and a network can't go before them."""
    with contextlib.suppress(StartError):
        until(lambda: not any(map(wanted, _marks(client))), Deadline(20.0), lambda: "")


TRIES = 3
AGAIN_S = 1.0
JANITOR_S = 60.0


def clean(url: str, run: str) -> list[str]:
    """Remove all of `run` on the engine at `url`, and return what could not be removed.

    A container may have been under way to the engine when the harness ended, so it looks again.
    """
    problems: list[str] = []
    with contextlib.closing(connect(url, os.environ)) as client:
        for _ in range(TRIES):
            problems = remove(client, lambda marks: marks.get(RUN) == run)
            if not problems:
                break
            time.sleep(AGAIN_S)
    return problems


def manages(client: DockerClient) -> bool:
    """Say whether the engine is a manager of a swarm."""
    return bool(client.info().get("Swarm", {}).get("ControlAvailable"))


def start_janitor(processes: Processes, logs: Path, run: str, url: str, seconds: float) -> Callable[[], None]:
    """Start the program, before there is anything to remove, and return what ends it; `seconds` limit its start.

    What is returned raises DockerError if something of the run could not be removed.
    """
    logs.mkdir(parents=True, exist_ok=True)
    log = logs / "janitor.out"
    command = Command(
        role="harness",
        argv=[sys.executable, "-m", "harness.containers.engine", run, url],
        environment={**os.environ, "PYTHONPATH": str(ROOT)},
        output=log,
        layer=Layer.DATABASE,
        patience=JANITOR_S,
    )
    process = processes.start("janitor", command)

    def ready() -> bool:
        process.check()
        return "ready" in tail(log)

    until(ready, Deadline(seconds), lambda: f"The janitor does not start, see {log}.")

    def stop() -> None:
        if process.stop(JANITOR_S):
            raise DockerError(f"Not everything of this run could be removed: {process.tail(1)} (see {log})")

    return stop


def main(run: str, url: str) -> int:
    """Wait for SIGTERM, then clean up."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])
    # loaded now, as there is little time when it has to clean up
    import docker  # noqa: F401, PLC0415 - slow to import, and most beds need none

    print("ready", flush=True)
    signal.sigwait([signal.SIGTERM, signal.SIGINT])
    try:
        problems = clean(url, run)
    except DockerError as error:
        problems = [str(error)]
    for problem in problems:
        print(problem, file=sys.stderr)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
