"""Workers of other hosts: let in, given their part, listened to, and missed when they have gone."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from harness import __main__ as cli
from harness.errors import HarnessError, PortError, RunError, SettingsError, StartError
from harness.load import clients, coordinator, worker
from harness.load.coordinator import Coordinator, Remote
from harness.load.plan import ApiAccess, Plan, Share
from harness.load.wire import Line, address_of, version
from harness.processes.deadline import Deadline, until
from harness.processes.ports import HOST
from harness.scenarios import scenario

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.processes.process import Process

QUICK = scenario.find("quick")


def _port() -> int:
    with closing(socket.create_server((HOST, 0))) as server:
        return int(server.getsockname()[1])


@pytest.fixture
def remote() -> Remote:
    """Return an order of one worker of another host, which is this one."""
    return Remote(1, HOST, _port(), "word", Path("word.key"))


def _plan(folder: Path, workers: int = 2) -> Plan:
    return Plan(
        scenario_file=QUICK,
        minions=3,
        seed=1,
        expected={"x": 3},
        samples=folder,
        api=ApiAccess((f"http://{HOST}:8000",), "me", "", "x"),
        commands={},
        command_environment={"PATH": "/"},
        share=Share(workers, remote=1),
    )


JOINED: list[RemoteWorker] = []


@pytest.fixture(autouse=True)
def _farewell() -> Iterator[None]:
    """Let every worker hang up at the end."""
    yield
    while JOINED:
        JOINED.pop().line.close()


class RemoteWorker:
    """A worker of another host."""

    def __init__(self, remote: Remote, **changes: object) -> None:
        """Report at the coordinator."""
        self.line = Line(socket.create_connection((remote.address, remote.port), 10))
        hello = {"hello": 1, "key": "word", "version": version(), "host": "two"}
        self.line.send({**hello, **changes})
        JOINED.append(self)

    def answer(self) -> dict[str, Any]:
        """Return what the coordinator says."""
        return self.line.receive(10)

    @contextmanager
    def answering(self) -> Iterator[list[dict[str, Any]]]:
        """Answer in a thread, and yield where the first message will be."""
        found: list[dict[str, Any]] = []
        thread = threading.Thread(target=lambda: found.append(self.answer()))
        thread.start()
        yield found
        thread.join()


def _wait(found: Coordinator, words: str) -> None:
    """Wait until the coordinator complains in these words."""

    def complains() -> bool:
        try:
            found.check()
        except RunError as error:
            return words in str(error)
        return False

    until(complains, Deadline(20), lambda: "nobody complains")


def test_a_worker_from_hello_to_the_end(remote: Remote, tmp_path: Path) -> None:
    """A worker gets its number and salt-api's address, and what it writes is in the run's samples."""
    with Coordinator(remote) as found:
        joined = RemoteWorker(remote)
        with joined.answering() as messages:
            found.gather(lambda: None)
            found.hand_out(_plan(tmp_path), 20_123)
        (message,) = messages
        assert (message["plan"]["share"]["worker"], message["plan"]["share"]["workers"], message["port"]) == (
            1,
            2,
            20_123,
        )
        assert message["scenario"] == QUICK.read_text()
        assert (message["plan"]["scenario_file"], message["plan"]["samples"]) == (".", ".")
        joined.line.send({"alive": 1})
        joined.line.send({"name": "requests", "rows": ["a,b\n", "1,2\n"]})
        found.check()
        assert not found.done()
        joined.line.send({"ended": 0, "tail": ""})
        assert joined.line.receive(10) == {"taken": 1}
        until(found.done, Deadline(10), lambda: "not done")
        found.check()
    joined.line.close()
    assert (tmp_path / "requests.1.csv").read_text() == "a,b\n1,2\n"


def test_api_is_elsewhere() -> None:
    """Where salt-api is told by the loopback interface, other hosts get the machine's address."""
    found = ApiAccess(("http://127.0.0.1:8000", "http://127.0.0.1:1"), user="127.0.0.1").seen_from_afar("10.0.0.1")
    assert found == ApiAccess(("http://10.0.0.1:8000", "http://10.0.0.1:1"), user="127.0.0.1")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"key": "wrong"}, "the key is another one than that of this load"),
        ({"version": "0"}, "the bed there has version "),
    ],
)
def test_a_worker_that_is_refused(remote: Remote, changes: dict[str, object], expected: str) -> None:
    """A stranger, or a worker of another version, is told why it can't join."""
    with Coordinator(remote):
        assert RemoteWorker(remote, **changes).answer()["error"].startswith(expected)


@pytest.mark.parametrize(
    ("said", "start"),
    [
        pytest.param(b'{"key": "\\ud800"}\n', b'{"error": "the key ', id="no text"),
        pytest.param(b'{"x": ' + b"[" * 3000 + b"\n", b"", id="deep"),
        pytest.param(b"x" * 100_000, b"", id="long"),
    ],
)
def test_a_stranger_who_says_something_else(remote: Remote, said: bytes, start: bytes) -> None:
    """Whoever has not shown the key is refused or hung up on: nothing long is taken of them."""
    with Coordinator(remote), socket.create_connection((remote.address, remote.port), 10) as stranger:
        try:
            stranger.sendall(said)
            answer = stranger.recv(1000)
        except ConnectionError:
            answer = b""
        assert answer[: len(start) or None] == start


def test_one_worker_too_many(remote: Remote, tmp_path: Path) -> None:
    """A worker that is not needed waits for the next load."""
    with Coordinator(remote) as found:
        with RemoteWorker(remote).answering():
            found.gather(lambda: None)
            assert "wait" in RemoteWorker(remote).answer()
            found.hand_out(_plan(tmp_path), 1)
        assert "wait" in RemoteWorker(remote).answer()


def test_workers_that_never_join(remote: Remote) -> None:
    """Workers that don't come are an error that says what to type where."""
    expected = (
        r"^Only 0 of 1 workers of other hosts joined within 0 s: .*, with a copy of word.key: "
        rf".* -m harness worker {HOST}:\d+ --key-file workers.key$"
    )
    with Coordinator(remote) as found, pytest.raises(StartError, match=expected):
        found.gather(lambda: None, 0.0)


def test_a_worker_that_hangs_up_before_the_load(remote: Remote) -> None:
    """A worker that has gone before the load began is not counted."""
    with Coordinator(remote) as found:
        joined = RemoteWorker(remote)
        until(lambda: len(found._workers) == 1, Deadline(10), lambda: "not there")
        joined.line.close()
        found._drop_gone()
        assert found._workers == []


@pytest.mark.parametrize(
    ("last", "words"),
    [
        (None, "The worker 1 on two has gone at "),
        ({"ended": 2, "tail": "no such file"}, "The worker 1 on two ended with exit code 2 at "),
        ({"name": "requests"}, "The worker 1 on two has gone at "),
    ],
    ids=["hangs-up", "fails", "nonsense"],
)
def test_a_worker_that_dies(remote: Remote, tmp_path: Path, last: dict[str, object] | None, words: str) -> None:
    """A worker that goes in the middle of a load is named, with when."""
    with Coordinator(remote) as found:
        joined = RemoteWorker(remote)
        with joined.answering():
            found.gather(lambda: None)
            found.hand_out(_plan(tmp_path), 1)
        if last:
            joined.line.send(last)
        else:
            joined.line.close()
        _wait(found, words)


def test_a_worker_that_is_silent(remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker whose machine or network has vanished says nothing, not even farewell."""
    monkeypatch.setattr(coordinator, "SILENT_S", 0.0)
    with Coordinator(remote) as found:
        with RemoteWorker(remote).answering():
            found.gather(lambda: None)
            found.hand_out(_plan(tmp_path), 1)
        _wait(found, "The worker 1 on two has been silent since ")


def test_an_address_that_is_none_of_this_machine() -> None:
    """An address of elsewhere is one sentence."""
    with (
        pytest.raises(PortError, match=r"can't join at 192\.0\.2\.1:4700 .*--workers-address"),
        Coordinator(Remote(1, "192.0.2.1")),
    ):
        pass


class Fake:
    """The process that directs the clients."""

    def __init__(self) -> None:
        """Be at work."""
        self.ended: int | None = None

    def code(self) -> int | None:
        """Return the exit code."""
        return self.ended


class Desks:
    """A coordinator that is done when told."""

    is_done = False

    def check(self) -> None:
        """Find nothing wrong."""

    def done(self) -> bool:
        """Say whether all samples are there."""
        return self.is_done


def test_clients_end_when_all_samples_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The load is over when the workers of other hosts have handed in what they wrote, or an error if they don't."""
    lead, coordinators = Fake(), Desks()
    found = clients.Clients(cast("list[Process]", [lead]), Path(), cast("Coordinator", coordinators))
    assert found.code() is None
    lead.ended = 1
    assert found.code() is None
    coordinators.is_done = True
    assert found.code() == 1
    coordinators.is_done = False
    lead.ended = 3
    assert found.code() == 3
    monkeypatch.setattr(clients, "LAST_S", 0.0)
    lead.ended = None
    assert found.code() is None
    lead.ended = 0
    with pytest.raises(RunError, match="has not handed in its samples"):
        found.code()


def test_rows_are_handed_in_whole(tmp_path: Path) -> None:
    """What is half written waits for its end."""
    ours, theirs = socket.socketpair()
    path = tmp_path / "requests.1.csv"
    path.write_text("a\n1\n2")
    sent = worker._hand_in(Line(ours), "requests", path, 0)
    path.write_text("a\n1\n22\n")
    sent += worker._hand_in(Line(ours), "requests", path, sent)
    other = Line(theirs)
    assert [other.receive(5)["rows"] for _ in range(2)] == [["a\n", "1\n"], ["22\n"]]
    assert sent == len(path.read_text())
    ours.close()
    theirs.close()


@pytest.mark.parametrize("text", ["", ":4700", "host:", "host:x", "host:0", "host:70000"])
def test_addresses_that_are_none(text: str) -> None:
    """Half an address is refused; the port has a default."""
    if text == "host:":
        assert address_of(text) == ("host", 4700)
    else:
        with pytest.raises(SettingsError, match="is no address: give one such as"):
            address_of(text)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--remote-workers", "1"], "--remote-workers and --workers-address belong together: give both."),
        (["--workers-address", "10.0.0.1"], "--remote-workers and --workers-address belong together: give both."),
        (["--remote-workers", "0", "--workers-address", "10.0.0.1"], "--remote-workers has to be at least 1."),
        (
            ["--docker", "--remote-workers", "1", "--workers-address", "10.0.0.1"],
            "--remote-workers and --docker exclude each other: leave one out.",
        ),
        (
            ["--scenario", "quick", "--remote-workers", "1", "--workers-address", "10.0.0.1"],
            "Workers of other hosts reach salt-api only, and the clients `cli ping all` (cli) run ",
        ),
    ],
)
def test_orders_that_cannot_be(
    tmp_path: Path, words: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What can't work is refused before anything starts."""
    assert cli.main(["load", "--tree", "stock", "--folder", str(tmp_path), *words]) == 2
    assert capsys.readouterr().err.startswith(problem)
    assert list(tmp_path.iterdir()) == []


def test_a_worker_without_a_right(remote: Remote) -> None:
    """A worker that the coordinator refuses says so and ends."""
    with (
        Coordinator(remote),
        pytest.raises(HarnessError, match=r"^The load refuses this worker: the key is another one"),
    ):
        worker.work(f"{HOST}:{remote.port}", "wrong", 1, lambda _: None)


def test_a_worker_before_its_bed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that finds nobody says so once, tries again, and says what else is wrong when that changes."""
    errors = iter([ConnectionRefusedError(111, "Connection refused")] * 3 + [OSError(113, "No route to host")])

    def connect(*_: object) -> socket.socket:
        raise next(errors, KeyboardInterrupt)

    monkeypatch.setattr(socket, "create_connection", connect)
    monkeypatch.setattr(worker, "AGAIN_S", 0.0)
    said: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        worker.work(f"{HOST}:4700", "word", None, said.append)
    assert said == [
        f"Waiting for a load at {HOST}:4700; Ctrl-C ends it.",
        "Nobody there ([Errno 111] Connection refused); trying again every 0 s.",
        "Nobody there ([Errno 113] No route to host); trying again every 0 s.",
    ]


def test_messages_that_are_none() -> None:
    """Whoever speaks another protocol is hung up on."""
    ours, theirs = socket.socketpair()
    theirs.sendall(b"GET / HTTP/1.1\r\n" + json.dumps([1]).encode() + b"\n")
    line = Line(ours)
    for _ in range(2):
        with pytest.raises(ConnectionError, match="sends something else"):
            line.receive(5)
    theirs.close()
    with pytest.raises(ConnectionError, match="hung up"):
        line.receive(5)
    ours.close()
