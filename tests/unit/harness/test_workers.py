"""Locust distributed: one master and two workers send what a single process sends."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, cast

import msgpack
import pytest
import zmq

from harness import samples
from harness.errors import StartError
from harness.load import clients, plan
from harness.load.plan import ApiAccess, Plan, Share
from harness.processes.ports import Ports
from harness.samples import ClientSample
from harness.scenarios import scenario
from harness.scenarios.scenario import requests

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.processes.processes import Process

pytestmark = pytest.mark.slow

SCENARIO = """
description = "Two kinds of API clients and a CLI"
minions = 2
seed = 11

[[clients]]
name = "many"
kind = "api"
function = "test.ping"
tgt = "*"
rate = 15
duration_s = 2

[[clients]]
name = "one"
kind = "api"
function = "test.ping"
tgt = "m1"
burst = 1

[[clients]]
name = "cli"
kind = "cli"
function = "test.ping"
tgt = "m1"
burst = 3
"""
JID = "20260102030405000001"
TOKEN = "5f0c9a1e"


class Api(ThreadingHTTPServer):
    """A salt-api that answers everything for two minions, and counts."""

    daemon_threads = True

    def __init__(self) -> None:
        """Listen on a free port."""
        super().__init__(("127.0.0.1", 0), Handler)
        self.calls: Counter[str] = Counter()
        self.refuse = False
        # logins wait for it
        self.open = threading.Event()
        self.open.set()


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of the clients."""

    server: Api

    def do_POST(self) -> None:
        """Answer a login or a call."""
        self.rfile.read(int(self.headers["Content-Length"]))
        login = self.path.endswith("/login")
        if login:
            self.server.open.wait(60)
        self.server.calls["login" if login else "call"] += 1
        returned = {"token": TOKEN} if login else {name: {"jid": JID, "ret": True} for name in ("m1", "m2")}
        content = json.dumps({"return": [returned]}).encode()
        self.send_response(401 if login and self.server.refuse else 200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is the base class's
        """Print nothing."""


@pytest.fixture
def api() -> Iterator[Api]:
    """Yield a salt-api that serves."""
    with Api() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@contextmanager
def _started(root: Path, folder: Path, api: Api, workers: int) -> Iterator[tuple[list[subprocess.Popen[bytes]], int]]:
    """Start the clients as a bed does; yield the processes, the leading one first, and the port of locust's master."""
    folder.mkdir()
    (folder / "mine.toml").write_text(SCENARIO)
    wanted = Plan(
        scenario_file=folder / "mine.toml",
        minions=2,
        seed=11,
        expected={"many": 2, "one": 2, "cli": 1},
        samples=folder,
        api=ApiAccess((f"http://127.0.0.1:{api.server_port}",), "me", "secret", "sharedsecret"),
        commands={"cli": (sys.executable, "-c", f'print("jid: {JID}"); print("{{\\"m1\\": true}}")')},
        command_environment={"PATH": os.environ["PATH"]},
        share=Share(workers),
    )
    with Ports(SystemRandom()) as ports, (folder / "log").open("w") as log:
        started = []
        port = ports.take("locust")
        for locust in clients.commands(wanted, port):
            environment = {**os.environ, **locust.environment, "PYTHONPATH": str(root)}
            started.append(subprocess.Popen(locust.argv, env=environment, cwd=folder, stdout=log, stderr=log))
        try:
            yield started, port
        finally:
            for process in started:
                process.kill()
                process.wait()


def _run(root: Path, folder: Path, api: Api, workers: int) -> list[int]:
    """Run the clients to their end, and return the exit codes, the leading process's first."""
    with _started(root, folder, api, workers) as (started, _):
        return [process.wait(90) for process in started]


def _sent(folder: Path) -> Counter[tuple[str, int, float]]:
    zero = plan.read_zero(folder)
    assert zero is not None
    return Counter(
        (row.clients, row.number, round(row.scheduled - zero, 3)) for row in samples.read(folder, ClientSample)
    )


def _counted(folder: Path) -> dict[str, int]:
    """Return the number of requests by name, as locust itself counted them to the end."""
    with (folder / "locust_stats.csv").open(newline="") as file:
        return {row["Name"]: int(row["Request Count"]) for row in csv.DictReader(file) if row["Type"]}


def test_two_workers_send_what_one_process_sends(root: Path, tmp_path: Path, api: Api) -> None:
    """The same seed gives the same requests at the same times, each exactly once, and locust counts the same."""
    assert _run(root, tmp_path / "single", api, 1) == [0], (tmp_path / "single" / "log").read_text()
    assert api.calls.pop("login") == 1
    alone = dict(api.calls)
    api.calls.clear()
    assert _run(root, tmp_path / "workers", api, 2) == [0, 0, 0], (tmp_path / "workers" / "log").read_text()
    expected = Counter(
        (request.clients, request.number, round(request.due_s, 3))
        for request in requests(scenario.load(tmp_path / "single" / "mine.toml"))
    )
    assert _sent(tmp_path / "single") == _sent(tmp_path / "workers") == expected
    assert set(expected.values()) == {1}
    # each worker logs in by itself
    assert api.calls.pop("login") == 2
    assert alone == api.calls
    assert _counted(tmp_path / "single") == _counted(tmp_path / "workers")
    shares = [len((tmp_path / "workers" / f"requests.{number}.csv").read_text().splitlines()) for number in (0, 1)]
    assert min(shares) > 5


def test_workers_whose_master_is_refused(root: Path, tmp_path: Path, api: Api) -> None:
    """A refused login ends all processes, the leading one with 3, and nothing is sent."""
    api.refuse = True
    codes = _run(root, tmp_path / "workers", api, 2)
    assert codes[0] == 3
    assert set(api.calls) == {"login"}
    assert (tmp_path / "workers" / "log").read_text().count("could not log in to salt-api") == 1


def _overheard(port: int, api: Api) -> bytes:
    """Join locust's master as a worker of nobody before others log in; return what it sends, up to the begin."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as stranger:
        stranger.setsockopt(zmq.IDENTITY, b"stranger")
        stranger.setsockopt(zmq.LINGER, 0)
        stranger.connect(f"tcp://127.0.0.1:{port}")
        stranger.send(msgpack.dumps(("client_ready", metadata.version("locust"), "stranger")))
        heard = b""
        while b"saltbed_begin" not in heard:
            assert stranger.poll(240_000), heard
            heard += stranger.recv()
            # locust's first message says that we have joined
            api.open.set()
        return heard


def test_a_stranger_at_locusts_port_gets_no_token(root: Path, tmp_path: Path, api: Api) -> None:
    """Whoever joins locust's master reads the schedule's zero, and neither a token nor a password."""
    api.open.clear()
    with _started(root, tmp_path / "workers", api, 2) as (_, port):
        heard = _overheard(port, api)
    assert [secret for secret in (TOKEN.encode(), b"secret") if secret in heard] == []


class Fake:
    """A process of locust with an exit code, None while it runs."""

    def __init__(self, code: int | None) -> None:
        """Take the exit code."""
        self._code = code

    def code(self) -> int | None:
        """Return the exit code."""
        return self._code

    def check(self) -> None:
        """Raise the error of one that has ended."""
        raise StartError("locust-1 ended with exit code 2")


def _at_work(*codes: int | None) -> clients.Clients:
    return clients.Clients(cast("list[Process]", [Fake(code) for code in codes]), Path())


def test_worker_that_fails_is_noticed_at_once() -> None:
    """Nobody waits for the answers of a worker that has ended."""
    with pytest.raises(StartError, match="locust-1 ended with exit code 2"):
        _at_work(None, None, 2).code()


def test_worker_that_is_done_is_no_failure() -> None:
    """A worker may end a moment before the one that directs it, whose exit code is that of all."""
    assert _at_work(None, 0, None).code() is None
    assert _at_work(1, 0, 2).code() == 1
