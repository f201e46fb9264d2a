"""Calls to a master: what is asked, and when an answer is complete."""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from harness.errors import HarnessError
from harness.load import calls
from harness.load.calls import Answer, ApiCaller, CliCaller
from harness.scenarios.clients import Arrival, Clients

if TYPE_CHECKING:
    from collections.abc import Iterator

JID = "20260102030405000001"
NOW = Arrival("burst", burst=1)


class Api(BaseHTTPRequestHandler):
    """A salt-api of one password; it answers with what the test put into `answers`."""

    answers: list[tuple[int, Any]]
    asked: list[tuple[str, str | None, Any]]

    def do_POST(self) -> None:
        """Answer a request."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append((self.path, self.headers.get("X-Auth-Token"), body))
        status, value = self.answers.pop(0)
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is the base class's
        """Print nothing."""


@pytest.fixture
def api() -> Iterator[str]:
    """Return the address of a salt-api."""
    Api.answers, Api.asked = [], []
    with ThreadingHTTPServer(("127.0.0.1", 0), Api) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def _login(api: str) -> ApiCaller:
    Api.answers.append((200, {"return": [{"token": "abc"}]}))
    return ApiCaller(api, ApiCaller.token(api, "me", "secret", "sharedsecret"))


def test_login_and_call(api: str) -> None:
    """One login gives the token of every call; a sync call counts the minions that succeeded."""
    caller = _login(api)
    answer = {"m1": {"jid": JID, "ret": True, "retcode": 0}, "m2": {"jid": JID, "ret": "Error", "retcode": 1}}
    Api.answers.append((200, {"return": [answer]}))
    clients = Clients("c", "api", "cmd.run", "*", NOW, args=("uptime",), kwarg={"cwd": "/"}, timeout_s=7)
    found = caller.call(clients, 2)
    assert (found.answered, found.jids, found.error, found.gap(2)) == (
        1,
        (JID,),
        "1 of 2 minions that answered failed",
        "1 of 2 minions answered",
    )
    low = {
        "client": "local",
        "tgt": "*",
        "tgt_type": "glob",
        "fun": "cmd.run",
        "timeout": 7,
        "arg": ["uptime"],
        "kwarg": {"cwd": "/"},
        "full_return": True,
    }
    assert Api.asked == [
        ("/login", None, {"username": "me", "password": "secret", "eauth": "sharedsecret"}),
        ("/", "abc", [low]),
    ]


def test_async_call(api: str) -> None:
    """An async call is complete with the job's id and the targeted minions."""
    caller = _login(api)
    Api.answers.append((200, {"return": [{"jid": JID, "minions": ["m1", "m2"]}]}))
    found = caller.call(Clients("c", "api", "test.ping", "*", NOW, mode="async"), 2)
    assert (found.answered, found.jids, found.error) == (2, (JID,), "")
    assert Api.asked[-1][2][0]["client"] == "local_async"


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (503, {}, "HTTP 503 Service Unavailable"),
        (200, {"no": "return"}, "salt-api answered something else: {'no': 'return'}"),
        (
            200,
            {"return": ["No minions matched"]},
            "salt-api answered something else: {'return': ['No minions matched']}",
        ),
    ],
)
def test_api_errors(api: str, status: int, body: object, error: str) -> None:
    """Whatever salt-api answers instead of an answer is the error of the call."""
    caller = _login(api)
    Api.answers.append((status, body))
    assert caller.call(Clients("c", "api", "test.ping", "*", NOW), 1).error == error


def test_login_refused(api: str) -> None:
    """A refused login is an error of the run, not of a call."""
    Api.answers.append((401, {}))
    with pytest.raises(HarnessError, match="The clients could not log in to salt-api at http://127"):
        ApiCaller.token(api, "me", "wrong", "sharedsecret")


def test_arguments() -> None:
    """The command gets the target's option, the arguments, and output that can be counted."""
    clients = Clients("c", "cli", "state.apply", "os:SUSE", NOW, "grain", args=("web",), kwarg={"test": True})
    options = ["--out=json", "--out-indent=-1", "--show-jid", "-t", "5"]
    assert calls.arguments(clients) == [*options, "-G", "os:SUSE", "state.apply", "web", "test=true"]


def test_read_cli() -> None:
    """A minion counts unless Salt says that it did not return."""
    output = f'jid: {JID}\n{{"m1": true}}\n{{"m2": "Minion did not return. [No response]"}}\n{{"m3": true}}\n'
    assert calls.read_cli(output) == Answer(2, (JID,), len(output))


def test_read_cli_async() -> None:
    """An async command is complete with its job's id, and not without."""
    output = f"Executed command with job ID: {JID}\n"
    assert calls.read_cli(output, 5) == Answer(5, (JID,), len(output))
    assert calls.read_cli("", 5) == Answer()


def _cli(program: str) -> CliCaller:
    return CliCaller((sys.executable, "-c", program), {"WORD": "true"})


def test_cli_call() -> None:
    """A command runs with the bed's environment, and its output is counted."""
    program = "import os; print('{\"m1\": ' + os.environ['WORD'] + '}')"
    assert _cli(program).call(Clients("c", "cli", "test.ping", "*", NOW), 1).gap(1) == ""


def test_cli_failure() -> None:
    """A command that fails without an answer has its last words as the error."""
    program = "import sys; sys.exit('first\\nSalt request timed out.')"
    found = _cli(program).call(Clients("c", "cli", "test.ping", "*", NOW), 1)
    assert found.error == "exit code 1: Salt request timed out."


def test_cli_with_minions_missing() -> None:
    """A command that fails because minions are missing has the shortfall as the error."""
    program = "import sys; print('{\"m1\": true}'); sys.exit(1)"
    found = _cli(program).call(Clients("c", "cli", "test.ping", "*", NOW), 2)
    assert (found.error, found.gap(2)) == ("", "1 of 2 minions answered")


def test_cli_gives_up() -> None:
    """A command that runs on is ended when its user gives up."""
    clients = Clients("c", "cli", "test.ping", "*", NOW, give_up_s=0.2)
    assert _cli("import time; time.sleep(60)").call(clients, 1).error == "no answer within 0.2 s"
