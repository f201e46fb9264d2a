"""PostgreSQL in a container of the Docker engine.

A container is the engine's child and not the bed's, so a process of the bed holds it: it starts the container and
removes it when the bed ends, even if the harness is killed.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.database import NAME, Place, Postgres, UnavailableError, wait_ready
from harness.errors import StartError
from harness.processes import deadline
from harness.processes.ports import HOST, listens

if TYPE_CHECKING:
    from collections.abc import Mapping

    from docker import DockerClient

IMAGE_VARIABLE = "HARNESS_PG_IMAGE"
IMAGE = "postgres:16-alpine"
PASSWORD_VARIABLE = "POSTGRES_PASSWORD"  # noqa: S105 - the name of a variable
SOCKET = "/var/run/docker.sock"
UNIX = "unix://"
PING_S = 5
ANSWER_S = 600
# of which pulling the image takes most
READY_S = 180.0
SERVER_OPTIONS = ("-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "max_connections=200")


def address(environment: Mapping[str, str]) -> str:
    """Return where the engine of this environment is."""
    return environment.get("DOCKER_HOST") or f"{UNIX}{SOCKET}"


def engine(environment: Mapping[str, str]) -> DockerClient:
    """Return a client of the Docker engine that answers; raise UnavailableError if there is none."""
    host = address(environment)
    if host.startswith(UNIX) and not listens(socket.AF_UNIX, host.removeprefix(UNIX)):
        raise UnavailableError(f"no Docker engine answers at {host}")
    import docker  # noqa: PLC0415 - slow to import, and most beds need none
    from docker.errors import DockerException  # noqa: PLC0415 - slow to import, and most beds need none

    try:
        ping_s = int(deadline.patient(PING_S))
        with contextlib.closing(docker.from_env(timeout=ping_s, environment=dict(environment))) as client:
            client.ping()
        return docker.from_env(timeout=ANSWER_S, environment=dict(environment))
    except (DockerException, OSError) as error:
        raise UnavailableError(f"no Docker engine answers at {host}") from error


def start(place: Place) -> Postgres:
    """Start a server in a container, whose image is pulled if the engine lacks it."""
    engine(place.environment).close()
    image = place.environment.get(IMAGE_VARIABLE, IMAGE)
    port = place.ports.take("PostgreSQL", place.port)
    postgres = Postgres(f"Docker, image {image}", HOST, port, NAME, secrets.token_hex(16), NAME)
    process = place.start("container", image, str(port), **{PASSWORD_VARIABLE: postgres.password})
    try:
        wait_ready(postgres, process, READY_S)
    except StartError as error:
        process.stop()
        raise UnavailableError(f"Docker brings no server of the image {image}: {process.tail(1) or error}") from error
    return replace(postgres, process=process)


def hold(client: DockerClient, image: str, port: int, password: str) -> None:
    """Run the server's container until told to stop."""
    from docker.errors import ImageNotFound  # noqa: PLC0415 - slow to import, and most beds need none

    try:
        client.images.get(image)
    except ImageNotFound:
        print(f"pulling {image}", flush=True)
        client.images.pull(image)
    # not earlier: there is nothing to remove before, and the pull of an image may be interrupted
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])
    container = client.containers.create(
        image,
        list(SERVER_OPTIONS),
        environment={"POSTGRES_USER": NAME, "POSTGRES_DB": NAME, PASSWORD_VARIABLE: password},
        labels={NAME: str(os.getpid())},
        ports={"5432/tcp": (HOST, port)},
        shm_size="256m",
    )
    try:
        container.start()
        signal.sigwait([signal.SIGTERM, signal.SIGINT])
    finally:
        container.remove(force=True, v=True)


def main(image: str, port: str) -> int:
    """Hold a container until SIGTERM."""
    import docker  # noqa: PLC0415 - slow to import, and most beds need none
    from docker.errors import DockerException  # noqa: PLC0415 - slow to import, and most beds need none

    try:
        hold(docker.from_env(), image, int(port), os.environ[PASSWORD_VARIABLE])
    except DockerException as error:
        print(f"{image} can't be run: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
