"""Whatever comes to the job handler's socket, the event bus or salt-api, all processes stay and go on answering.

Seed and duration are those of `test_fuzz`.
"""

from __future__ import annotations

import http.client
import json
import random
import socket
import struct
import time
import zlib
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

import pytest

from harness.bed.settings import ApiSettings
from harness.processes.ports import HOST
from tests.live.helpers.fuzz import loads, values
from tests.live.helpers.fuzz.fuzzer import WARM, Plan
from tests.live.helpers.fuzz.witness import Events, Log, Processes, framed
from tests.live.helpers.handler_bed import answers, handler_bed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.live.helpers.handler_bed import HandlerBed

PACKETS: Final = 300
LONG: Final = Plan.of_environment()
MINIONS: Final = 3
BLOCK: Final = 50
RATE: Final = 150
JOB: Final = {"jid": loads.JID, "fun": "test.ping", "arg": [], "tgt": "*", "tgt_type": "glob", "user": "root"}

# a sound request for every command of the job handler
COMMANDS: Final[list[dict[str, Any]]] = [
    {"cmd": "status"},
    {"cmd": "order", "jid": loads.JID, "priority": 1, "held": False},
    {"cmd": "list", "limit": 5},
    {"cmd": "show", "jid": loads.JID},
    {"cmd": "owners", "jid": loads.JID},
    {"cmd": "history", "limit": 5},
    {"cmd": "reconcile"},
    {"cmd": "reload"},
    {"cmd": "cancel", "jid": loads.JID, "minions": zlib.compress(values.pack(["minion-00000"]))},
    {"cmd": "pause", "paused": True, "seconds": 1.0},
    {"cmd": "pause", "paused": True, "rule": {"function": "test.*", "user": "root", "target": "minion-0*"}},
    {"cmd": "check", "fun": "test.ping", "user": "root", "minions": zlib.compress(values.pack(["minion-00000"]))},
    {"cmd": "submitted", "seq": 1},
]
# events that somebody on the master acts upon
EVENTS: Final[list[tuple[str, Any]]] = [
    (f"salt/job/{loads.JID}/ret/minion-00000", {**JOB, "id": "minion-00000", "return": True, "retcode": 0}),
    (f"salt/job/{loads.JID}/new", {**JOB, "minions": ["minion-00000"]}),
    (f"salt/job/{loads.JID}/publish", {**JOB, "__peer_id": "peer"}),
    (f"salt/job/{loads.JID}/excluded", {"jid": loads.JID, "excluded": {"minion-00000": "busy"}, "ticket": "0" * 32}),
    ("salt/minion/minion-00000/start", {"id": "minion-00000", "cmd": "_minion_event", "data": "started"}),
    ("salt/key", {"id": "minion-00000", "act": "delete", "result": True}),
    ("salt/batch/20260101T000000/start", {"available_minions": [], "metadata": {}}),
    ("salt/beacon/minion-00000/pkgset/changed", {"id": "minion-00000", "digest": "0" * 64}),
    ("minion/refresh/minion-00000", {"Minion data cache refresh": "minion-00000"}),
]
# requests to salt-api: a method, a path, what is sent
REQUESTS: Final[list[tuple[str, str, Any]]] = [
    ("POST", "/", [{"client": "local", "tgt": "*", "fun": "test.ping", "arg": [], "kwarg": {}, "timeout": 1}]),
    ("POST", "/", [{"client": "runner", "fun": "query.items", "kwarg": {"query": ["node", "name"]}}]),
    ("POST", "/run", {"client": "local", "tgt": "*", "fun": "test.ping", "token": "0" * 40}),
    ("POST", "/login", {"username": "reader", "password": "wrong", "eauth": "sharedsecret"}),
    ("POST", "/minions", {"tgt": "*", "fun": "test.ping"}),
    ("POST", "/query/node", {"fields": ["name", "os"], "filter": ["=", "name", "x"], "limit": 5, "offset": 0}),
    ("GET", "/query/node", None),
    ("GET", "/query/nope", None),
    ("GET", "/jobs/" + loads.JID, None),
    ("GET", "/minions/minion-00000", None),
    ("GET", "/keys", None),
    ("GET", "/stats", None),
    ("POST", "/hook/x", {"a": 1}),
    ("POST", "/logout", {}),
]
# only the master's own user reaches its sockets: these messages say to him what was wrong
OWN: Final = ("salt.job_handler.control: ", "salt.transport.tcp: ", "salt.utils.minions: Failed ")
# what salt-api answers to somebody without a session; its own pages, and hooks that are off, say nothing
REFUSALS: Final = frozenset({400, 401, 404, 405, 406, 411, 413, 415, 500})
OPEN: Final = frozenset({"/", "/login", "/logout"})

pytestmark = [pytest.mark.live, pytest.mark.timeout(LONG.seconds + 1500)]


@pytest.fixture(scope="module")
def setup(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HandlerBed]:
    """Yield a patched master with its job handler and salt-api, and a user who may run one runner."""
    # two processes end by themselves each hour
    own_ends = dict.fromkeys(("maintenance_interval", "fileserver_interval"), 86400)
    options = {"log_level": "quiet", "log_level_logfile": "warning", **own_ends}
    limits = {"criteria": "capacity", "max_master_jobs": 10, "max_minion_jobs": 5}
    api = ApiSettings(users={"reader": [{"@runner": ["query.items"]}]})
    folder = tmp_path_factory.mktemp("sockets")
    with handler_bed(root, folder, MINIONS, limits, master_options=options, api=api) as found:
        yield found


class Check(Protocol):
    """Looks whether all is well."""

    def __call__(self, *, warm: bool = False) -> None:
        """Fail if it is not."""


@contextmanager
def watched(setup: HandlerBed) -> Iterator[Check]:
    """Yield a check that all processes live and answer; at the end, nothing is in a log, and no memory has grown.

    A `warm` check takes note of the memory: the first thousands of packets fill caches that have bounds.
    """
    logs = setup.bed.logs
    log = Log(*(path for path in logs.iterdir() if path.is_file() and path.name.startswith("master")))
    with Events(setup.bed) as events:
        processes, pid = Processes(setup.bed.master_pid), setup.pid()

        def check(*, warm: bool = False) -> None:
            assert processes.ended() == []
            events.since()
            setup.ask("pause", paused=False)
            assert setup.pid() == pid
            if warm:
                processes.note_memory()

        check(warm=True)
        yield check
        check()
        assert processes.grown() == []
        done = setup.bed.salt(["*", "test.ping", "--out=json"])
        assert answers(done.stdout) == {f"minion-{number:05d}": True for number in range(MINIONS)}
        assert [one for one in log.tracebacks() if not one[0].startswith(OWN)] == []


def numbers(plan: Plan, check: Check) -> Iterator[random.Random]:
    """Yield a random generator for each packet of a plan, and check now and then."""
    number, begin, warm = plan.first, time.monotonic(), False
    while (done := plan.progress(number, begin)) < 1:
        if done >= WARM and not warm:
            check(warm=True)
            warm = True
        due = time.monotonic() + 1 / RATE
        yield random.Random(f"{plan.seed}/{number}")  # noqa: S311 - a repeatable test is no secret
        number += 1
        if number % BLOCK == 0:
            check()
        time.sleep(max(0, due - time.monotonic()))


def send(path: Path, data: bytes, answered: float) -> bytes:
    """Send bytes to a Unix socket and return the first of what comes back in some seconds, if anything does."""
    with socket.socket(socket.AF_UNIX) as line, suppress(OSError):
        line.settimeout(10)
        line.connect(str(path))
        line.sendall(data)
        line.settimeout(answered)
        return line.recv(1 << 16)
    return b""


def fuzz_handler(setup: HandlerBed, plan: Plan) -> None:
    """Send requests to the socket of the job handler."""
    path = setup.bed.master.sock_dir / "job_handler.ipc"
    with watched(setup) as check:
        for rng in numbers(plan, check):
            request = values.mutated(rng, rng.choice(COMMANDS), rng.choice((0, 1, 1, 2, 4)))
            body = values.pack(request)
            if rng.random() < 0.2:
                body = values.damaged(rng, body)
            length = len(body) if rng.random() < 0.95 else rng.choice((0, 1, 1 << 20, (1 << 32) - 1))
            send(path, struct.pack("!I", length) + body, 2 if length == len(body) else 0.01)


def fuzz_bus(setup: HandlerBed, plan: Plan) -> None:
    """Fire events."""
    path = setup.bed.master.sock_dir / "master_event_pull.ipc"
    with watched(setup) as check:
        for rng in numbers(plan, check):
            tag, data = rng.choice(EVENTS)
            body = values.pack(values.mutated(rng, {"_stamp": "2026-01-01T00:00:00", **data}, rng.choice((0, 1, 2, 4))))
            if rng.random() < 0.1:
                body = values.damaged(rng, body)
            if rng.random() < 0.1:
                tag = rng.choice(("", "salt/job/", "x" * 4096, tag + "/x", tag + "\udcff", "salt/job//ret/"))
            message = tag.encode(errors="surrogateescape") + b"\n\n" + body
            send(path, framed(message) if rng.random() < 0.95 else values.damaged(rng, framed(message)), 0.001)


def fuzz_api(setup: HandlerBed, plan: Plan) -> None:
    """Send requests to salt-api, as nobody and as a user who may read."""
    api = setup.bed.api
    token = log_in(api.port, api.password)
    with watched(setup) as check:
        for rng in numbers(plan, check):
            method, path, body = rng.choice(REQUESTS)
            body = values.mutated(rng, body, rng.choice((0, 1, 2)))
            data = json.dumps(body, default=repr, skipkeys=True).encode()
            if rng.random() < 0.1:
                data = values.damaged(rng, data)
            known = rng.random() < 0.5
            headers = {"Accept": "application/json", "Content-Type": "application/json"}
            if known:
                headers["X-Auth-Token"] = token
            elif rng.random() < 0.3:
                headers["X-Auth-Token"] = rng.choice(("0" * 40, "../x", "", "'" * 40, "x" * 5000))
            if rng.random() < 0.1:
                headers["Content-Type"] = rng.choice(("application/x-yaml", "text/plain", "x", "a/b;charset=x"))
            status, text = ask(api.port, method, path, data if method == "POST" else None, headers)
            where = f"{method} {path} {data[:200]!r} {headers}: {status} {text[:200]!r}"
            assert b"Traceback" not in text, where
            if not known and path not in OPEN:
                assert status in REFUSALS, where
            if path == "/logout" and known:
                token = log_in(api.port, api.password)


def ask(port: int, method: str, path: str, data: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
    """Return the status and the body of an answer."""
    connection = http.client.HTTPConnection(HOST, port, timeout=120)
    try:
        connection.request(method, path, data, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def log_in(port: int, password: str) -> str:
    """Return the token of a session of the user who may read."""
    credentials = {"username": "reader", "password": password, "eauth": "sharedsecret"}
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    status, text = ask(port, "POST", "/login", json.dumps(credentials).encode(), headers)
    assert status == 200, text
    return str(json.loads(text)["return"][0]["token"])


SURFACES: Final = {"handler": fuzz_handler, "bus": fuzz_bus, "api": fuzz_api}


@pytest.mark.parametrize("surface", SURFACES)
def test_requests(setup: HandlerBed, surface: str) -> None:
    """A few hundred, always the same."""
    SURFACES[surface](setup, Plan(packets=PACKETS))


@pytest.mark.long
@pytest.mark.parametrize("surface", SURFACES)
def test_requests_for_long(setup: HandlerBed, surface: str) -> None:
    """As many as come in half an hour."""
    SURFACES[surface](setup, LONG)
