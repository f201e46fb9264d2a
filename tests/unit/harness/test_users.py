"""The load generator: locust with our users, against a salt-api of the test's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from harness import samples
from harness.load import plan as plans
from harness.load.plan import ApiAccess, Plan
from harness.samples import ClientSample

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

SCENARIO = """
description = "Two API calls a second apart, and a CLI"
minions = 2

[[clients]]
name = "api"
kind = "api"
function = "test.ping"
tgt = "*"
rate = 1
duration_s = 2
arrival = "constant"

[[clients]]
name = "cli"
kind = "cli"
function = "test.ping"
tgt = "m1"
burst = 1
"""
JID = "20260102030405000001"


class Api(ThreadingHTTPServer):
    """A salt-api whose first call is not answered before the second one has arrived."""

    def __init__(self) -> None:
        """Listen on a free port."""
        super().__init__(("127.0.0.1", 0), Handler)
        self.second_arrived = threading.Event()
        self.calls = 0
        self.logins = 0
        self.refuse = False


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of the clients."""

    server: Api

    def do_POST(self) -> None:
        """Answer a login, a first call that waits, and a second one that lacks a minion."""
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.endswith("/login"):
            self.server.logins += 1
            self.reply(401 if self.server.refuse else 200, [{"token": "abc"}])
            return
        self.server.calls += 1
        minions = {f"m{number}": {"jid": JID, "ret": True, "retcode": 0} for number in (1, 2)}
        if self.server.calls == 1:
            self.server.second_arrived.wait(30)
        else:
            self.server.second_arrived.set()
            del minions["m2"]
        self.reply(200, [minions])

    def reply(self, status: int, returned: object) -> None:
        """Send an answer."""
        content = json.dumps({"return": returned}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is the base class's
        """Print nothing."""


@pytest.fixture
def api() -> Iterator[Api]:
    """Return a salt-api that serves."""
    with Api() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def _locust(root: Path, folder: Path, api: Api) -> subprocess.CompletedProcess[str]:
    """Run the clients to their end."""
    scenario = folder / "mine.toml"
    scenario.write_text(SCENARIO)
    plan = Plan(
        scenario_file=scenario,
        minions=2,
        seed=1,
        expected={"api": 2, "cli": 1},
        samples=folder,
        api=ApiAccess((f"http://127.0.0.1:{api.server_port}",), "me", "secret", "sharedsecret"),
        commands={"cli": (sys.executable, "-c", f'print("jid: {JID}"); print("{{\\"m1\\": true}}")')},
        command_environment={"PATH": os.environ["PATH"]},
    )
    command = [
        sys.executable,
        "-m",
        "locust",
        "--headless",
        "-f",
        str(root / "harness" / "load" / "users.py"),
        "-u",
        "2",
        "-r",
        "2",
    ]
    environment = {**os.environ, **plans.to_environment(plan), "PYTHONPATH": str(root)}
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False, timeout=60)


def test_open_model(root: Path, tmp_path: Path, api: Api) -> None:
    """A request leaves when it is due though the one before has no answer, and every one leaves a sample.

    One login is enough for all, and the exit code tells that an answer was incomplete.
    """
    done = _locust(root, tmp_path, api)
    assert done.returncode == 1, done.stderr
    rows = {(row.clients, row.number): row for row in samples.read(tmp_path, ClientSample)}
    assert rows.keys() == {("api", 0), ("api", 1), ("cli", 0)}
    first, second, cli = rows["api", 0], rows["api", 1], rows["cli", 0]
    assert second.started < first.finished
    assert (first.answered, first.error, first.jids) == (2, "", JID)
    assert (second.answered, second.error) == (1, "1 of 2 minions answered")
    assert (cli.answered, cli.expected, cli.error, cli.jids) == (1, 1, "", JID)
    zero = plans.read_zero(tmp_path)
    assert zero is not None
    assert [row.scheduled - zero for row in (first, second, cli)] == pytest.approx([0.0, 1.0, 0.0], abs=1e-4)
    assert api.logins == 1


def test_login_refused(root: Path, tmp_path: Path, api: Api) -> None:
    """Clients that can't log in end with exit code 3 and a sentence, and send nothing."""
    api.refuse = True
    done = _locust(root, tmp_path, api)
    assert done.returncode == 3
    assert "The clients could not log in to salt-api: the log-in of me failed: 401 Client Error" in done.stderr
    assert samples.read(tmp_path, ClientSample) == []
    assert plans.read_zero(tmp_path) is None
