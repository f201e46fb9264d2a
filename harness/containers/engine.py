"""Engines of Docker, and the marks by which everything that a run makes is found again.

Every container, network and image of a run carries its label, so that whoever cleans up needs no list: the janitor at
the run's end (`harness.containers.janitor`), and the next run, for one that ended together with its janitor.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from typing import TYPE_CHECKING, Any

from harness.errors import DockerError, StartError
from harness.processes import pressure
from harness.processes.deadline import Deadline, until
from harness.processes.owner import ended, owner
from harness.processes.ports import listens

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping

    from docker import DockerClient

SOCKET = "/var/run/docker.sock"
UNIX = "unix://"
PING_S = 5
ANSWER_S = 600
RUN, HOST, OWNER, STARTED = "saltbed.run", "saltbed.host", "saltbed.owner", "saltbed.started"
# longer than the start of any run, and than any difference of two machines' clocks
FORGOTTEN_S = 24 * 3600.0


def address(environment: Mapping[str, str]) -> str:
    """Return where the engine of this environment is."""
    return environment.get("DOCKER_HOST") or f"{UNIX}{SOCKET}"


def connect(url: str, environment: Mapping[str, str], timeout: float = ANSWER_S) -> DockerClient:
    """Return a client of the engine at `url`; raise DockerError if none answers there."""
    missing = (
        f"No Docker engine answers at {url}: install one (`apt-get install docker.io`), start it, or name another in "
        "DOCKER_HOST."
    )
    if url.startswith(UNIX) and not listens(socket.AF_UNIX, url.removeprefix(UNIX)):
        raise DockerError(missing)
    # slow to import, and most beds do without
    import docker  # noqa: PLC0415 - slow to import, and most beds need none
    from docker.errors import DockerException  # noqa: PLC0415 - slow to import, and most beds need none

    variables = {**environment, "DOCKER_HOST": url}
    try:
        with contextlib.closing(
            docker.from_env(timeout=int(pressure.patient(PING_S)), environment=variables)
        ) as client:
            client.ping()
        return docker.from_env(timeout=int(timeout), environment=variables)
    except (DockerException, OSError) as error:
        raise DockerError(missing) from error


def labels(run: str) -> dict[str, str]:
    """Return the labels for everything that this process makes for `run`."""
    return {RUN: run, HOST: socket.gethostname(), OWNER: owner(os.getpid()), STARTED: f"{time.time():.0f}"}


def abandoned(marks: Mapping[str, str]) -> bool:
    """Say whether the process that these labels name is known to have ended: one of this machine and this boot."""
    return RUN in marks and ended(marks.get(OWNER, "")) is True


def forgotten(marks: Mapping[str, str], at_work: Container[str], now: float) -> bool:
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
