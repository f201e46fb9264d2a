"""Both ends of the line to a task of a swarm: `python -m harness.containers.relay` is the one beside the master.

A manager of a swarm reaches no program on other nodes. So a container of the manager stands for each task, and the task
connects to it on the swarm's network. It gets the code, as its image has the environment alone; then the program inside
has the relay's input, output and errors for its own, and ends when the relay does.

A task has the text of this file as its command line, so it imports the standard library only.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
import tarfile
import time
from io import FileIO
from pathlib import Path
from threading import Thread

VARIABLE = "SALTBED_RELAY"
ALIAS = "relay-"
"""Before the number of a task, from 1: the relay's name on the network."""
PORT = 4500
HOME = Path("/opt/saltbed")
FOLDERS = ("harness", "evil_minions", "tree")
# for a task to connect to its relay
CONNECT_S = 180.0


def relay() -> int:
    """Send the code to the task that connects, then pass on what goes to and fro; return the exit code."""
    with socket.create_server(("", PORT)) as server:
        server.settimeout(CONNECT_S)
        try:
            code = server.accept()[0]
            with code, code.makefile("wb") as output, tarfile.open(fileobj=output, mode="w|gz") as archive:
                for folder in FOLDERS:
                    archive.add(HOME / folder, folder)
            line, errors = server.accept()[0], server.accept()[0]
        except TimeoutError:
            print("No task has connected: nodes of a swarm need UDP 4789, TCP and UDP 7946 open.", file=sys.stderr)
            return 1
    Thread(target=_copy, args=(errors.fileno(), 2), daemon=True).start()
    Thread(target=_copy, args=(0, line.fileno(), line), daemon=True).start()
    _copy(line.fileno(), 1)
    return 0


def _copy(source: int, target: int, line: socket.socket | None = None) -> None:
    """Copy until the source's end, which is then that of what the `line` sends."""
    with contextlib.suppress(OSError):
        shutil.copyfileobj(FileIO(source, closefd=False), FileIO(target, "w", closefd=False))
        if line:
            line.shutdown(socket.SHUT_WR)


def task() -> None:
    """Fetch the code, then be the program inside."""
    with _connect() as code, code.makefile("rb") as archived, tarfile.open(fileobj=archived, mode="r|gz") as archive:
        archive.extractall(HOME)  # noqa: S202 - the code of this very run
    line, errors = _connect(), _connect()
    for connection, descriptor in ((line, 0), (line, 1), (errors, 2)):
        os.dup2(connection.fileno(), descriptor)
    os.chdir(HOME)
    os.execv(sys.executable, [sys.executable, "-m", "harness.containers.inside"])  # noqa: S606 - its own Python


def _connect() -> socket.socket:
    """Return a connection to the relay, whose name is known on this node a moment after the task starts."""
    end = time.monotonic() + CONNECT_S
    while True:
        try:
            connection = socket.create_connection((os.environ[VARIABLE], PORT))
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)
        else:
            # a manager that is cut off hangs up as well, at last
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            return connection


if __name__ == "__main__":
    if VARIABLE in os.environ:
        task()
    sys.exit(relay())
