"""Workers of other hosts: let in, given their part, listened to, and missed when they have gone."""

from __future__ import annotations

import json
import os
import socket
import threading
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import pytest

from harness import __main__ as cli
from harness.errors import HarnessError, RunError, SettingsError, StartError
from harness.load import clients, coordinator, worker
from harness.load.coordinator import Coordinator, Remote
from harness.load.plan import ApiAccess, Plan, Share, to_values
from harness.load.wire import WORKER, address_of, proof, version
from harness.processes.deadline import Deadline, until
from harness.processes.line import Line
from harness.processes.ports import HOST
from harness.processes.processes import Processes
from harness.scenarios import scenario

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.processes.command import Command
    from harness.processes.processes import Process

QUICK = scenario.find("quick")
PINGS = """
description = "Clients of salt-api"
minions = 1

[[clients]]
name = "pings"
kind = "api"
function = "test.ping"
tgt = "*"
burst = 1
"""
KEY = "aword-of-these-tests"


def _port() -> int:
    with closing(socket.create_server((HOST, 0))) as server:
        return int(server.getsockname()[1])


@pytest.fixture
def remote() -> Remote:
    """Return an order of one worker of another host, which is this one."""
    return Remote(1, HOST, _port(), KEY, Path("word.key"))


def _plan(folder: Path, workers: int = 2) -> Plan:
    return Plan(
        scenario_file=QUICK,
        minions=3,
        seed=1,
        expected={"x": 3},
        samples=folder,
        api=ApiAccess((f"http://{HOST}:8000",), "me", "", "x"),
        commands={"cli": ("touch", str(folder / "started"))},
        command_environment={"PATH": os.environ["PATH"]},
        share=Share(workers, remote=1),
    )


JOINED: list[RemoteWorker] = []


@pytest.fixture(autouse=True)
def _farewell(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Name this host as workers do, and let every worker hang up at the end."""
    monkeypatch.setattr(socket, "gethostname", lambda: "two")
    yield
    while JOINED:
        JOINED.pop().line.close()


class RemoteWorker:
    """A worker of another host."""

    def __init__(self, remote: Remote) -> None:
        """Report at the coordinator."""
        self.line = Line(socket.create_connection((remote.address, remote.port), 10))
        JOINED.append(self)
        worker.introduce(self.line, KEY)

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
        assert (message["plan"]["commands"], message["plan"]["command_environment"]) == ({}, {})
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
    found = ApiAccess(("http://127.0.0.1:8000", "http://127.0.0.1:1"), user="127.0.0.1").reachable_at("10.0.0.1")
    assert found == ApiAccess(("http://10.0.0.1:8000", "http://10.0.0.1:1"), user="127.0.0.1")


def _line(remote: Remote) -> closing[Line]:
    return closing(Line(socket.create_connection((remote.address, remote.port), 10)))


def test_a_worker_of_another_version(remote: Remote) -> None:
    """A worker of another version is told so, before it has to show anything."""
    with Coordinator(remote), _line(remote) as line:
        line.send({"hello": 1, "key": KEY, "version": "0", "host": "two"})
        assert line.receive(10)["error"].startswith("the bed there has version ")


@pytest.mark.parametrize("answer", [{}, {"proof": "\ud800"}, {"proof": ["x"]}, {"key": KEY}, {"proof": "0" * 64}])
def test_a_stranger_without_a_proof(remote: Remote, answer: dict[str, object]) -> None:
    """Whoever does not show the key is told so, and is shown nothing."""
    with Coordinator(remote), _line(remote) as line:
        line.send({"hello": 1, "nonce": "1", "version": version(), "host": "two"})
        assert list(line.receive(10)) == ["nonce"]
        line.send(answer)
        refusal = line.receive(10)
        assert list(refusal) == ["error"]
        assert refusal["error"].startswith("the key is another one than that of this load")


def test_a_proof_is_good_once(remote: Remote) -> None:
    """A proof that somebody has read on its way opens nothing later."""
    with Coordinator(remote):
        for _ in range(2):
            with _line(remote) as line:
                line.send({"hello": 1, "nonce": "1", "version": version(), "host": "two"})
                first = line.receive(10)["nonce"]
                line.send({"proof": proof(KEY, WORKER, ("1", "2"))})
                assert "error" in line.receive(10)
            with _line(remote) as line:
                line.send({"hello": 1, "nonce": "1", "version": version(), "host": "two"})
                line.receive(10)
                line.send({"proof": proof(KEY, WORKER, ("1", first))})
                assert "error" in line.receive(10)


def test_strangers_without_a_word(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strangers who say nothing, or a byte at a time, keep no worker out, and go after a while."""
    monkeypatch.setattr(coordinator, "HELLO_S", 1.0)
    with Coordinator(remote) as found, ExitStack() as stack:
        strangers = [
            stack.enter_context(closing(socket.create_connection((remote.address, remote.port), 10)))
            for _ in range(coordinator.STRANGERS + 20)
        ]
        RemoteWorker(remote)
        found.gather(lambda: None)

        def over() -> bool:
            with suppress(OSError):
                strangers[-1].sendall(b"{")
            return not found._strangers

        until(over, Deadline(20), lambda: f"{len(found._strangers)} still there")


@pytest.mark.parametrize(
    ("said", "start"),
    [
        pytest.param(b'{"key": "\\ud800"}\n', b'{"error": "the bed there', id="no text"),
        pytest.param(b'{"version": "%s", "nonce": [[]]}\n' % version().encode(), b"", id="no nonce"),
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
        pytest.raises(SettingsError, match=r"can't join at 192\.0\.2\.1:4700 .*--workers-address"),
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
    """A worker that the coordinator refuses says so and ends, and the bed that misses it says why."""
    with Coordinator(remote) as found:
        with pytest.raises(SettingsError, match=r"^The load refuses this worker: the key is another one"):
            worker.work(f"{HOST}:{remote.port}", "wrong", 1, lambda _: None)
        with pytest.raises(StartError, match=rf"The last one refused was {HOST}: the key is another one than that of"):
            found.gather(lambda: None, 0.0)


class Impostor:
    """A process that listens at a bed's address and does not know the key."""

    def __init__(self, *answers: dict[str, object] | None) -> None:
        """Answer each message of the first worker with the next of these, None for the message itself."""
        self.heard: list[dict[str, Any]] = []
        self._answers = answers
        self._server = socket.create_server((HOST, 0))
        self.address = f"{HOST}:{self._server.getsockname()[1]}"
        self._thread = threading.Thread(target=self._listen)

    def __enter__(self) -> Self:
        """Listen."""
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Wait for the end of the conversation."""
        self._thread.join()
        self._server.close()

    def _listen(self) -> None:
        connection, _ = self._server.accept()
        with closing(Line(connection)) as line, suppress(OSError):
            for answer in self._answers:
                self.heard.append(line.receive(10))
                line.send(self.heard[-1] if answer is None else answer)
            self.heard.append(line.receive(10))


PLAN = {"plan": {"share": {"worker": 1, "workers": 2}}, "scenario": "", "host": HOST, "port": 1}


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        ([PLAN], "the other end sends something else"),
        ([None, None], "does not know the key"),
        ([{"nonce": "1"}, PLAN], "does not know the key"),
        ([{"nonce": "1"}, {"proof": "0" * 64}], "does not know the key"),
        ([{"nonce": [[]]}], "the other end sends something else"),
        ([{"error": "\033[2Jthe key"}], r"^The load refuses this worker: \[2Jthe key\.$"),
    ],
    ids=["plan", "echo", "no-proof", "another-key", "rubbish", "refusal"],
)
def test_a_bed_that_does_not_know_the_key(
    monkeypatch: pytest.MonkeyPatch, answers: list[dict[str, object] | None], problem: str
) -> None:
    """A worker tells such a bed no key, and starts nothing for it."""
    started: list[object] = []

    def load(*words: object) -> tuple[int, str]:
        started.append(words)
        return 0, ""

    def say(text: str) -> None:
        if text.startswith("Nobody there"):
            raise RunError(text)

    monkeypatch.setattr(worker, "_load", load)
    with Impostor(*answers) as impostor, pytest.raises(HarnessError, match=problem):
        worker.work(impostor.address, KEY, 1, say)
    assert impostor.heard
    assert KEY not in str(impostor.heard)
    assert started == []


def test_a_worker_runs_no_commands(remote: Remote, tmp_path: Path) -> None:
    """A bed that has the key and asks for Salt's own commands is refused, and nothing is started."""
    problems: list[str] = []

    def work() -> None:
        with pytest.raises(SettingsError) as caught:
            worker.work(f"{HOST}:{remote.port}", KEY, 1, lambda _: None)
        problems.append(str(caught.value))

    with Coordinator(remote) as found:
        thread = threading.Thread(target=work)
        thread.start()
        found.gather(lambda: None)
        found.hand_out(_plan(tmp_path), 1)
        thread.join()
    assert problems[0].startswith(
        "Workers of other hosts reach salt-api only, and the clients `cli ping all` (cli) run "
    )
    assert not (tmp_path / "started").exists()


def test_commands_of_a_plan_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever commands a bed names, the clients here get none of them."""
    plans: list[dict[str, Any]] = []

    def start(_: Processes, __: str, command: Command) -> Process:
        plans.append(json.loads(command.environment["SALTBED_PLAN"]))
        raise RunError("enough")

    monkeypatch.setattr(Processes, "start", start)
    message = {"plan": to_values(_plan(tmp_path)), "scenario": PINGS, "host": HOST, "port": 1}
    ours, theirs = socket.socketpair()
    with closing(ours), closing(theirs), pytest.raises(RunError, match="enough"):
        worker._load(Line(ours), message, tmp_path)
    assert [(plan["commands"], plan["command_environment"]) for plan in plans] == [({}, {})]


@pytest.mark.parametrize("text", ["", "\n", "short", "fifteen-letters\n"])
def test_a_key_that_can_be_guessed(tmp_path: Path, text: str) -> None:
    """A key is long: whoever hears a proof can try words."""
    (tmp_path / "key").write_text(text)
    with pytest.raises(SettingsError, match="key: write at least 16 characters into it"):
        coordinator.read_key(tmp_path / "key")


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
