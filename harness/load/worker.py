"""A worker of another host: `python -m harness worker ADDRESS`.

It reports to the bed's coordinator (see `harness.load.wire`), starts a worker of locust for its part of the load, and
hands in what that writes. It joins one load after the other until Ctrl-C, as a run has one for each tree. It takes a
load only of a bed that knows the key, and only requests to salt-api: never a command line.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import RunError, SettingsError
from harness.load import plan as plans
from harness.load.clients import LOCUST
from harness.load.coordinator import FILES, HELLO_S, Remote
from harness.load.wire import BED, LONGEST_HELLO, WORKER, address_of, nonce_of, proof, shows, version
from harness.paths import ROOT
from harness.processes.command import Command
from harness.processes.line import Line
from harness.processes.processes import Processes
from harness.scenarios import scenario as scenarios

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.processes.processes import Process

BEAT_S = 1.0
# between two tries to find a bed
AGAIN_S = 1.0
# how long a bed takes to get ready: its fleet, and the workers of yet other hosts
PATIENCE_S = 24 * 3600.0
ROWS = 5000
KEEPALIVE_S = 30


def work(address: str, key: str, loads: int | None, say: Callable[[str], None]) -> None:
    """Join loads until there have been `loads` of them, without end by default; `say` takes lines to print.

    Raises SettingsError if the coordinator refuses, does not know the key or wants commands to be run, RunError if the
    clients here fail.
    """
    where = address_of(address)
    done, told = 0, ""
    say(f"Waiting for a load at {where[0]}:{where[1]}; Ctrl-C ends it.")
    while loads is None or done < loads:
        try:
            with contextlib.closing(socket.create_connection(where, HELLO_S)) as connection:
                # a bed whose machine has vanished says nothing
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_S)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_S)
                done += _join(Line(connection), key, say)
        except OSError as error:
            # no bed is there yet, or not any more; what else it may be, such as a mistyped name, is for people to see
            if str(error) != told:
                told = str(error)
                say(f"Nobody there ({told}); trying again every {AGAIN_S:g} s.")
            time.sleep(AGAIN_S)


def introduce(line: Line, key: str) -> None:
    """Show the bed that we know the key, and have it show the same. Raises SettingsError if one of them does not."""
    nonce = secrets.token_hex(16)
    line.send({"hello": 1, "nonce": nonce, "version": version(), "host": socket.gethostname()})
    nonces = nonce, nonce_of(_said(line))
    line.send({"proof": proof(key, WORKER, nonces)})
    if not shows(_said(line), key, BED, nonces):
        raise SettingsError("The other end does not know the key, so it is not the bed: check the address.")


def _said(line: Line) -> dict[str, Any]:
    """Return what the bed says before it has shown the key. Raises SettingsError if it refuses this worker."""
    message = line.receive(HELLO_S, LONGEST_HELLO)
    if "error" in message:
        # it may come from anybody, and goes to a terminal
        problem = "".join(filter(str.isprintable, str(message["error"])))
        raise SettingsError(f"The load refuses this worker: {problem}.")
    return message


def _join(line: Line, key: str, say: Callable[[str], None]) -> bool:
    """Take part in one load; return whether it came to that."""
    introduce(line, key)
    message = line.receive(PATIENCE_S)
    if "wait" in message:
        time.sleep(AGAIN_S)
        return False
    share = message["plan"]["share"]
    say(f"A load begins: this is worker {share['worker']} of {share['workers']}.")
    with tempfile.TemporaryDirectory(prefix="saltbed-worker-") as folder:
        code, last = _load(line, message, Path(folder))
        line.send({"ended": code, "tail": last})
        # the bed may hang up as soon as it has everything
        with contextlib.suppress(OSError):
            line.receive(HELLO_S)
    if code:
        raise RunError(f"The clients ended with exit code {code}: {last}")
    say("The load is over, its samples are handed in.")
    return True


def _load(line: Line, message: dict[str, Any], folder: Path) -> tuple[int, str]:
    """Run the clients to their end, handing in what they write; return their exit code and last words."""
    scenario = folder / "scenario.toml"
    scenario.write_text(message["scenario"], encoding="utf-8")
    Remote.check(scenarios.load(scenario))
    no_commands: dict[str, Any] = {"commands": {}, "command_environment": {}}
    plan = {**message["plan"], **no_commands, "scenario_file": str(scenario), "samples": str(folder)}
    argv = [sys.executable, "-m", "locust", "--headless", "-f", str(LOCUST), "--worker"]
    argv += ["--master-host", message["host"], "--master-port", str(message["port"])]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), plans.VARIABLE: json.dumps(plan)}
    with Processes(Path(tempfile.gettempdir())) as processes:
        command = Command("locust", argv, environment, folder / "locust.out", cwd=folder)
        process = processes.start("locust", command)
        code = _watch(line, process, folder, int(plan["share"]["worker"]))
        return code, process.tail()


def _watch(line: Line, process: Process, folder: Path, number: int) -> int:
    """Hand in rows until the clients have ended, and return their exit code."""
    sent = dict.fromkeys(FILES, 0)
    while True:
        code = process.code()
        for name in FILES:
            sent[name] += _hand_in(line, name, folder / f"{name}.{number}.csv", sent[name])
        if code is not None:
            return code
        line.send({"alive": 1})
        if line.gone():
            raise ConnectionError("the bed has hung up")
        time.sleep(BEAT_S)


def _hand_in(line: Line, name: str, path: Path, start: int) -> int:
    """Send the whole lines of a file from byte `start` on, and return how many bytes that were."""
    try:
        with path.open("rb") as file:
            file.seek(start)
            data = file.read()
    except FileNotFoundError:
        return 0
    whole = data[: data.rfind(b"\n") + 1]
    rows = whole.decode().splitlines(keepends=True)
    for first in range(0, len(rows), ROWS):
        line.send({"name": name, "rows": rows[first : first + ROWS]})
    return len(whole)
