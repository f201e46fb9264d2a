"""Calls to a master: what is asked, and when an answer is complete."""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from harness.load import calls, reading
from harness.load.calls import ApiCaller, CliCaller
from harness.load.reading import Answer
from harness.load.sessions import LoginError, Sessions
from harness.scenarios.clients import Arrival, Clients, Expected

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


def _sessions(api: str) -> Sessions:
    return Sessions([api], "me", "secret", "sharedsecret", {})


def _login(api: str) -> ApiCaller:
    Api.answers.append((200, {"return": [{"token": "abc"}]}))
    sessions = _sessions(api)
    sessions.begin()
    return ApiCaller(sessions)


def _call(caller: ApiCaller | CliCaller, clients: Clients, expected: int) -> Answer:
    return caller.call(clients, 0, Expected(expected))


def test_login_and_call(api: str) -> None:
    """One login gives the token of every call; a sync call counts the minions that succeeded."""
    caller = _login(api)
    answer = {"m1": {"jid": JID, "ret": True, "retcode": 0}, "m2": {"jid": JID, "ret": "Error", "retcode": 1}}
    Api.answers.append((200, {"return": [answer]}))
    clients = Clients("c", "api", "cmd.run", "*", NOW, args=("uptime",), kwarg={"cwd": "/"}, timeout_s=7)
    found = _call(caller, clients, 2)
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
    found = _call(caller, Clients("c", "api", "test.ping", "*", NOW, mode="async"), 2)
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
    assert _call(caller, Clients("c", "api", "test.ping", "*", NOW), 1).error == error


def test_login_refused(api: str) -> None:
    """A refused login is an error of the run, not of a call."""
    Api.answers.append((401, {}))
    with pytest.raises(LoginError, match="the log-in of me failed: 401 Client Error"):
        _sessions(api).begin()


def test_arguments() -> None:
    """The command gets the target's option, the arguments, and output that can be counted."""
    clients = Clients("c", "cli", "state.apply", "os:SUSE", NOW, "grain", args=("web",), kwarg={"test": True})
    options = ["--out=json", "--out-indent=-1", "--show-jid", "-t", "5"]
    assert calls.arguments(clients) == [*options, "-G", "os:SUSE", "state.apply", "web", "test=true"]


def test_read_cli() -> None:
    """A minion counts unless Salt says that it did not return."""
    output = f'jid: {JID}\n{{"m1": true}}\n{{"m2": "Minion did not return. [No response]"}}\n{{"m3": true}}\n'
    assert reading.read_cli(output) == Answer(2, (JID,), len(output))


def test_read_cli_async() -> None:
    """An async command is complete with its job's id, and not without."""
    output = f"Executed command with job ID: {JID}\n"
    assert reading.read_cli(output, 5) == Answer(5, (JID,), len(output))
    assert reading.read_cli("", 5) == Answer()


def _cli(program: str) -> CliCaller:
    command = (sys.executable, "-c", program)
    return CliCaller({"cli": command, "salt-run": command}, {"WORD": "true"})


def test_cli_call() -> None:
    """A command runs with the bed's environment, and its output is counted."""
    program = "import os; print('{\"m1\": ' + os.environ['WORD'] + '}')"
    assert _call(_cli(program), Clients("c", "cli", "test.ping", "*", NOW), 1).gap(1) == ""


def test_cli_failure() -> None:
    """A command that fails without an answer has its last words as the error."""
    program = "import sys; sys.exit('first\\nSalt request timed out.')"
    found = _call(_cli(program), Clients("c", "cli", "test.ping", "*", NOW), 1)
    assert found.error == "exit code 1: Salt request timed out."


def test_cli_with_minions_missing() -> None:
    """A command that fails because minions are missing has the shortfall as the error."""
    program = "import sys; print('{\"m1\": true}'); sys.exit(1)"
    found = _call(_cli(program), Clients("c", "cli", "test.ping", "*", NOW), 2)
    assert (found.error, found.gap(2)) == ("", "1 of 2 minions answered")


def test_cli_gives_up() -> None:
    """A command that runs on is ended when its user gives up."""
    clients = Clients("c", "cli", "test.ping", "*", NOW, give_up_s=0.2)
    assert _call(_cli("import time; time.sleep(60)"), clients, 1).error == "no answer within 0.2 s"


def test_batch_over_api(api: str) -> None:
    """A batch is asked for with the events of its returns: a minion that timed out is one without a job id."""
    caller = _login(api)
    events = [
        {"data": {"id": "m1", "jid": JID, "return": True, "retcode": 0}, "tag": "t"},
        {"data": {"id": "m2", "return": {}, "retcode": 0}},
        {"data": {"id": "m3", "jid": JID, "return": "Error", "retcode": 2}, "tag": "t"},
    ]
    Api.answers.append((200, {"return": events}))
    found = _call(caller, Clients("c", "api", "test.ping", "*", NOW, batch="10%", batch_wait=2), 3)
    assert (found.answered, found.jids, found.error) == (1, (JID,), "1 of 2 minions that answered failed")
    low = {"client": "local_batch", "tgt": "*", "tgt_type": "glob", "fun": "test.ping", "timeout": 5}
    assert Api.asked[-1][2] == [low | {"batch": "10%", "batch_wait": 2, "raw": True}]


@pytest.mark.parametrize("minions", [0, 1])
def test_small_batches(api: str, minions: int) -> None:
    """A batch of one minion, or of none, is read as such."""
    caller = _login(api)
    events = [{"data": {"id": "m1", "jid": JID, "return": True, "retcode": 0}, "tag": "t"}][:minions]
    Api.answers.append((200, {"return": events}))
    assert _call(caller, Clients("c", "api", "test.ping", "*", NOW, batch="1"), 1).answered == minions


def test_batch_of_a_command() -> None:
    """Of a batch's lines only minions count, and not those with a return code."""
    lines = [
        "",
        "Executing run on ['m1', 'm2']",
        f'{{"retcode": 0, "jid": "{JID}", "m1": true}}',
        f'{{"retcode": 1, "jid": "{JID}", "m2": "broken"}}',
        f'{{"m3": "Minion did not return. [No response]", "retcode": 0, "jid": "{JID}"}}',
        "Minion m4 did not respond. No job will be sent.",
    ]
    output = "\n".join(lines)
    assert reading.read_batch(output) == Answer(1, (JID,), len(output), "1 of 2 minions that answered failed")
    found = _call(_cli(f"print({output!r}); raise SystemExit(1)"), Clients("c", "cli", "x.y", "*", NOW, batch="2"), 4)
    assert (found.answered, found.error) == (1, "1 of 2 minions that answered failed")


def test_arguments_of_a_batch() -> None:
    """The command gets the size of the batch and the wait, in sync and async."""
    clients = Clients("c", "cli", "test.ping", "*", NOW, batch="10%", batch_wait=3)
    assert calls.arguments(clients)[3:] == ["--batch-size", "10%", "--batch-wait", "3", "-t", "5", "*", "test.ping"]
    clients = Clients("c", "cli", "test.ping", "*", NOW, mode="async", batch="7")
    assert calls.arguments(clients) == ["--async", "--batch-size", "7", "-t", "5", "*", "test.ping"]


def _runner(function: str, kind: str = "runner", tgt: str = "", **more: Any) -> Clients:
    return Clients("c", kind, function, tgt, NOW, **more)


def test_runner_over_api(api: str) -> None:
    """A runner that pings gets target and timeout as arguments of its own, and salt-api waits as long as the client."""
    caller = _login(api)
    event = {"jid": JID, "return": {"up": ["m1"], "down": ["m2"]}, "success": True}
    Api.answers.append((200, {"return": [{"data": event, "tag": "salt/run/1/ret"}]}))
    found = _call(caller, _runner("manage.status", tgt="os:x", tgt_type="grain", timeout_s=7, give_up_s=90), 2)
    assert (found.error, found.gap(2)) == ("", "1 of 2 minions answered")
    kwarg = {"tgt": "os:x", "tgt_type": "grain", "timeout": 7}
    low = {"client": "runner", "fun": "manage.status", "kwarg": kwarg, "full_return": True, "timeout": 90}
    assert Api.asked[-1][2] == [low]


def test_asynchronous_runner_over_api(api: str) -> None:
    """An asynchronous runner is content with its job id."""
    caller = _login(api)
    Api.answers.append((200, {"return": [{"jid": JID, "tag": f"salt/run/{JID}"}]}))
    found = _call(caller, _runner("state.orchestrate", tgt="*", mode="async", args=("rollout",)), 2)
    assert (found.answered, found.jids, found.error) == (2, (JID,), "")
    assert Api.asked[-1][2] == [{"client": "runner_async", "fun": "state.orchestrate", "arg": ["rollout"]}]


@pytest.mark.parametrize("body", [{"return": ["Exception"]}, {"return": []}, {"no": 1}, [], {"return": [{"x": 1}]}])
def test_no_answer_of_a_runner(api: str, body: object) -> None:
    """What is no answer of a runner is an error, in both modes."""
    for mode in ("sync", "async"):
        caller = _login(api)
        Api.answers.append((200, body))
        found = _call(caller, _runner("jobs.active", mode=mode), 0)
        assert found.error == f"salt-api answered something else: {body}"


def test_salt_run() -> None:
    """`salt-run` prints JSON; a text in it says why there is no answer, and its exit code counts."""
    clients = _runner("manage.up", "salt-run", tgt="*", timeout_s=9)
    assert calls.arguments(clients) == [
        "--out=json", "--out-indent=-1", "manage.up", 'tgt="*"', 'tgt_type="glob"', "timeout=9",
    ]  # fmt: skip
    assert _call(_cli('print(\'["m1", "m2"]\')'), clients, 2) == Answer(2, (), 13)
    found = _call(_cli('print(\'["m1", "m2"]\'); raise SystemExit(1)'), clients, 2)
    assert found.error == "exit code 1"
    assert _call(_cli("print('\"x is not available.\"')"), clients, 2).error == "exit code 0: x is not available."
    assert _call(_cli("raise SystemExit('no key')"), clients, 2).error == "exit code 1: no key"
    assert _call(_cli("pass"), clients, 2).error == "exit code 0: no answer"


def test_asynchronous_salt_run() -> None:
    """The job id of `salt-run --async` stands in a warning only; without one nothing was started."""
    clients = _runner("state.orchestrate", "salt-run", tgt="*", mode="async", args=("rollout",), kwarg={"pillar": {}})
    assert calls.arguments(clients) == [
        "--async", "--log-level=warning", "state.orchestrate", "rollout", "pillar={}",
    ]  # fmt: skip
    program = f"import sys; sys.stderr.write('[WARNING ] running under tag salt/run/{JID}\\n')"
    assert _call(_cli(program), clients, 3) == Answer(3, (JID,))
    assert _call(_cli("raise SystemExit('no master')"), clients, 3).error == "exit code 1: no master"


def test_user_of_a_command() -> None:
    """A command of a user is that of somebody who became root."""
    program = "import os; print('{\"' + os.environ['SUDO_USER'] + '\": true}')"
    caller = CliCaller({"cli": (sys.executable, "-c", program)}, {}, lambda _, number: f"ops-{number}")
    assert caller.call(Clients("c", "cli", "test.ping", "*", NOW, user="ops"), 4, Expected(1)).answered == 1
    caller = CliCaller({"cli": (sys.executable, "-c", program)}, {}, lambda *_: "")
    assert "KeyError" in caller.call(Clients("c", "cli", "test.ping", "*", NOW), 4, Expected(1)).error


def test_log_in_that_is_over(api: str) -> None:
    """Who is told that the token is not valid logs in again and asks once more; a second refusal is the answer."""
    caller = _login(api)
    Api.answers += [(401, {}), (200, {"return": [{"token": "def"}]}), (200, {"return": [{"m1": {"jid": JID}}]})]
    assert _call(caller, Clients("c", "api", "test.ping", "*", NOW), 1).answered == 1
    assert [token for _, token, _ in Api.asked] == [None, "abc", None, "def"]
    Api.answers += [(401, {}), (200, {"return": [{"token": "ghi"}]}), (401, {})]
    assert _call(caller, Clients("c", "api", "test.ping", "*", NOW), 1).error == "HTTP 401 Unauthorized"
    Api.answers += [(401, {}), (503, {})]
    error = _call(caller, Clients("c", "api", "test.ping", "*", NOW), 1).error
    assert error.startswith("the log-in of me failed: 503 Server Error")


def test_denied(api: str) -> None:
    """Who may not do what was asked for does not log in again."""
    caller = _login(api)
    Api.answers.append((401, {"return": "Authorization error occurred."}))
    assert _call(caller, Clients("c", "api", "test.ping", "*", NOW), 1).error == "HTTP 401 Unauthorized"
    assert len(Api.asked) == 2
