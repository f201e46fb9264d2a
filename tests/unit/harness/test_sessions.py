"""Log-ins: who sends which request, where, and when a user logs in."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, cast

import pytest

from harness.load.sessions import LoginError, Sessions
from harness.processes.deadline import Deadline, until
from harness.scenarios.clients import Arrival, Clients, Group

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.samples import LoginSample

pytestmark = pytest.mark.slow

NOW = Arrival("burst", burst=1)
OURS = Clients("ours", "api", "test.ping", "*", NOW)
OPS = Clients("ops", "api", "test.ping", "*", NOW, user="ops")
GUESTS = Clients("workers", "runner", "jobs.active", "", NOW, user="workers")
GROUPS = {"ops": Group("ops", 3, ("test.*",)), "workers": Group("workers", 2, ("@runner",), "request")}


class Api(ThreadingHTTPServer):
    """A salt-api that only lets users in, each log-in with another token."""

    def __init__(self) -> None:
        """Listen on a free port."""
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[dict[str, str]] = []
        self.refused = ""
        self.may_answer = threading.Event()
        self.may_answer.set()

    @property
    def url(self) -> str:
        """Return its address."""
        return f"http://127.0.0.1:{self.server_port}"


class Line:
    """A lock that counts who came to it."""

    def __init__(self) -> None:
        """Be free."""
        self.came = 0
        self._count, self._lock = threading.Lock(), threading.Lock()

    def __enter__(self) -> None:
        """Take it."""
        with self._count:
            self.came += 1
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        """Give it back."""
        self._lock.release()


class Handler(BaseHTTPRequestHandler):
    """Answers log-ins."""

    server: Api

    def do_POST(self) -> None:
        """Give a token, or none to the user who is refused."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(asked)
        self.server.may_answer.wait(20)
        content = json.dumps({"return": [{"token": f"{asked['username']} {len(self.server.asked)}"}]}).encode()
        self.send_response(401 if asked["username"] == self.server.refused else 200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is the base class's
        """Print nothing."""


@pytest.fixture
def apis() -> Iterator[list[Api]]:
    """Return two processes of salt-api."""
    with Api() as first, Api() as second:
        threads = [threading.Thread(target=server.serve_forever) for server in (first, second)]
        for thread in threads:
            thread.start()
        yield [first, second]
        for server in (first, second):
            server.shutdown()
        for thread in threads:
            thread.join()


@pytest.fixture
def noted() -> list[LoginSample]:
    """Return the list that log-ins are noted in."""
    return []


def _sessions(apis: list[Api], noted: list[LoginSample]) -> Sessions:
    return Sessions([api.url for api in apis], "saltbed", "secret", "sharedsecret", GROUPS, noted.append)


def test_own_user(apis: list[Api], noted: list[LoginSample]) -> None:
    """The bed's own user logs in at every process before the load, so that is no sample; requests go round."""
    sessions = _sessions(apis, noted)
    sessions.begin()
    assert apis[0].asked == [{"username": "saltbed", "password": "secret", "eauth": "sharedsecret"}]
    assert [sessions.of(OURS, number).url for number in range(3)] == [apis[0].url, apis[1].url, apis[0].url]
    assert sessions.of(OURS, 1).token == "saltbed 1"
    assert (len(apis[0].asked), len(apis[1].asked), noted) == (1, 1, [])


def test_users_take_turns(apis: list[Api], noted: list[LoginSample]) -> None:
    """Each request is the next user's, who logs in once and stays with one process."""
    sessions = _sessions(apis, noted)
    found = [sessions.of(OPS, number) for number in range(6)]
    assert [session.user for session in found] == ["ops-001", "ops-002", "ops-003"] * 2
    assert found[:3] == found[3:]
    assert [session.url for session in found[:3]] == [apis[0].url, apis[1].url, apis[0].url]
    assert [(sample.user, sample.why, sample.error) for sample in noted] == [
        ("ops-001", "start", ""), ("ops-002", "start", ""), ("ops-003", "start", ""),
    ]  # fmt: skip


def test_who_logs_in_at_the_start(apis: list[Api], noted: list[LoginSample]) -> None:
    """Those who send a request of these numbers, and not who logs in for each request, nor the bed's own user."""
    sessions = _sessions(apis, noted)
    assert sessions.places(OPS, [0, 2, 3]) == [("ops-001", apis[0].url), ("ops-003", apis[0].url)]
    assert sessions.places(GUESTS, [0, 1]) == sessions.places(OURS, [0, 1]) == []
    sessions.start("ops-002", apis[1].url)
    assert sessions.of(OPS, 1).token == "ops-002 1"
    assert len(noted) == 1


def test_log_in_for_each_request(apis: list[Api], noted: list[LoginSample]) -> None:
    """Users who log in for each request have another token each time."""
    sessions = _sessions(apis, noted)
    tokens = [sessions.of(GUESTS, number).token for number in (0, 2, 4)]
    assert tokens == ["workers-001 1", "workers-001 2", "workers-001 3"]
    assert {sample.why for sample in noted} == {"request"}


def test_token_that_is_over(apis: list[Api], noted: list[LoginSample]) -> None:
    """Of several requests that find the same token over only the first logs in again."""
    sessions = _sessions(apis, noted)
    old = sessions.of(OPS, 0)
    new = sessions.again(old)
    assert new.token != old.token
    assert sessions.again(old) == sessions.of(OPS, 0) == new
    assert [sample.why for sample in noted] == ["start", "expired"]


def test_who_waits_for_a_log_in_that_fails_has_failed_with_it(apis: list[Api], noted: list[LoginSample]) -> None:
    """Ten requests of a user whose log-in is refused slowly are one attempt, not ten one after the other."""
    apis[0].refused = "ops-001"
    apis[0].may_answer.clear()
    sessions = _sessions(apis, noted)
    line = Line()
    sessions._locks["ops-001", apis[0].url] = cast("threading.Lock", line)
    errors: list[str] = []

    def ask() -> None:
        with pytest.raises(LoginError) as caught:
            sessions.of(OPS, 0)
        errors.append(str(caught.value)[:33])

    threads = [threading.Thread(target=ask) for _ in range(10)]
    for thread in threads:
        thread.start()
    until(lambda: line.came == 10, Deadline(20), lambda: f"{line.came} of 10 came")
    apis[0].may_answer.set()
    for thread in threads:
        thread.join()
    assert errors == ["the log-in of ops-001 failed: 401"] * 10
    assert len(noted) == 1
    # whoever comes later tries again
    with pytest.raises(LoginError):
        sessions.of(OPS, 0)
    assert len(noted) == 2


def test_refused_user(apis: list[Api], noted: list[LoginSample]) -> None:
    """A log-in that fails as the load begins is a sample, and the user's request tries again."""
    apis[0].refused = "ops-001"
    sessions = _sessions(apis, noted)
    sessions.start("ops-001", apis[0].url)
    with pytest.raises(LoginError, match="the log-in of ops-001 failed: 401"):
        sessions.of(OPS, 0)
    assert [sample.error[:35] for sample in noted] == ["the log-in of ops-001 failed: 401 C"] * 2
    apis[0].refused = ""
    assert sessions.of(OPS, 0).user == "ops-001"
