"""Dialogues with other processes: one that dies or hangs is an error with its name and its last output, in time."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

import evil_minions
from evil_minions.errors import CompilerError, ControlError
from evil_minions.fleet import supervisor
from evil_minions.line import AsyncLine, MalformedError
from evil_minions.states import planner
from harness.containers.channel import Channel
from harness.errors import RunError, SaltProcessError, WardenError
from harness.paths import ROOT, TREES
from harness.processes import kernel, processes
from harness.processes.line import Child
from harness.saltprocess import process
from tests.unit.evil_minions import fleets

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

# prints, sends what the other end waits for at first, and answers nothing
MUTE = """
import os, socket, sys, time
from evil_minions import Line
line = Line(socket.socket(fileno=int(sys.argv[1])))
print("early words", file=sys.stderr)
print("last words", file=sys.stderr, flush=True)
line.send({"folder": "/", "warden": os.getpid(), "salt": os.environ["TREE"]})
time.sleep(1000)
"""
LAST = "The last lines that it printed are:\nearly words\nlast words"
SECONDS = 0.3
Answers = tuple[int, "Callable[[], object]"]


@pytest.fixture(autouse=True)
def _mute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every process that is started for a dialogue run `MUTE`."""
    (tmp_path / "mute.py").write_text(MUTE)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(ROOT)]))
    monkeypatch.setenv("TREE", str(TREES["patched"]))

    def child(name: str, _module: str, *rest: Any, **more: Any) -> Child:
        return Child(name, "mute", *rest, **{**more, "env": dict(os.environ)})

    for module in (processes, process):
        monkeypatch.setattr(module, "Child", child)
    monkeypatch.setattr(supervisor, "_WORKER", "mute")
    monkeypatch.setattr(planner, "_MODULE", "mute")
    monkeypatch.setattr(processes, "ANSWER_S", SECONDS)
    monkeypatch.setattr(kernel, "KILL_S", 0.0)


def _warden(stack: ExitStack, folder: Path) -> Answers:
    found = processes.Processes(folder)
    found.__enter__()
    # the bed of a mute warden is not there to be stopped
    stack.callback(found._child.close, 0.0)
    return found.warden, lambda: found.request({"do": "state", "pid": 1})


def _salt(stack: ExitStack, _folder: Path) -> Answers:
    found = process.SaltProcess("patched", "some.task", {})
    stack.callback(found._child.close, 0.0)
    return found.pid, lambda: found.run(seconds=SECONDS)


class Container:
    """A container that a process stands for."""

    id = "1"

    def __init__(self, stack: ExitStack) -> None:
        """Start the process, and be the client of its engine as well."""
        self.api = self
        self.child = Child("x", "mute", [], RunError, "", env=dict(os.environ))
        stack.callback(self.child.close, 0.0)

    def attach_socket(self, *_args: object, **_more: object) -> socket.socket:
        """Return its end of the line."""
        return self.child._line._socket

    def start(self) -> None:
        """Do nothing: it runs."""

    def logs(self, **_options: object) -> bytes:
        """Return what it printed."""
        return b"early words\nlast words\n"


def _channel(stack: ExitStack, _folder: Path) -> Answers:
    container: Any = Container(stack)
    return container.child.pid, lambda: Channel(container, "fleet-1", container).ask("state", seconds=SECONDS)


@pytest.mark.parametrize("silent", [False, True], ids=["killed", "silent"])
@pytest.mark.parametrize(
    ("dialogue", "error", "name"),
    [
        (_warden, WardenError, "The warden of this bed (process "),
        (_salt, SaltProcessError, "The patched process of some.task (process "),
        (_channel, RunError, "The container fleet-1 "),
    ],
    ids=["warden", "saltprocess", "container"],
)
def test_a_child_that_answers_no_more(
    dialogue: Callable[[ExitStack, Path], Answers], error: type[Exception], name: str, tmp_path: Path, *, silent: bool
) -> None:
    """The error has the name of the process and its last output, whether it was killed or is silent."""
    with ExitStack() as stack:
        pid, ask = dialogue(stack, tmp_path)
        if not silent:
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(error) as caught:
            ask()
    assert str(caught.value).startswith(name)
    assert str(caught.value).endswith(LAST)


async def _worker(folder: Path) -> tuple[evil_minions.line.Child, Callable[[], Awaitable[object]]]:
    link = await supervisor.WorkerLink.start(fleets.settings(folder, minions=3))
    # the first message is there without a question
    await link.child.line.receive(10)
    return link.child, lambda: link.ask({"do": "status"}, SECONDS)


async def _compiler(folder: Path) -> tuple[evil_minions.line.Child, Callable[[], Awaitable[object]]]:
    compiler = planner.Compiler(folder)
    child = compiler._child = await evil_minions.line.Child.start("The state compiler of the fleet", "mute")
    await child.line.receive(10)

    async def answer(_message: object) -> None:
        """Answer no question."""

    return child, lambda: compiler.compile({}, answer)


@pytest.mark.parametrize(
    ("dialogue", "error", "name", "words"),
    [
        (_worker, ControlError, "The worker with the minions 0 to 2 (process ", "ended with exit code -9 (SIGKILL)."),
        (_compiler, CompilerError, "The state compiler of the fleet (process ", "ended with exit code -9 (SIGKILL)."),
    ],
    ids=["worker", "compiler"],
)
def test_a_child_of_the_fleet_that_is_killed(
    dialogue: Any, error: type[Exception], name: str, words: str, tmp_path: Path
) -> None:
    """The error has the name, the signal and the last output."""

    async def scenario() -> None:
        child, ask = await dialogue(tmp_path)
        child.process.kill()
        with pytest.raises(error) as caught:
            await ask()
        await child.stop()
        assert str(caught.value).startswith(name)
        assert words in str(caught.value)
        assert str(caught.value).endswith(LAST)

    asyncio.run(scenario())


def test_a_worker_that_is_silent(tmp_path: Path) -> None:
    """A worker that does not say how it is has a limit; its late answer is taken for nothing."""

    async def scenario() -> None:
        child, ask = await _worker(tmp_path)
        for words in (
            f"has not answered for {SECONDS:g} s: end the fleet.",
            "does not answer any more: end the fleet.",
        ):
            with pytest.raises(ControlError) as caught:
                await ask()
            assert str(caught.value).startswith("The worker with the minions 0 to 2 (process ")
            assert words in str(caught.value)
            assert str(caught.value).endswith(LAST)
        await child.stop()

    asyncio.run(scenario())


@pytest.mark.parametrize("data", [b"nonsense\n", b"[1]\n", b"\xff\n", b"[" * 100_000 + b"\n"])
def test_a_line_that_is_no_message(data: bytes) -> None:
    """What is no object of JSON is one error on both kinds of lines, and what follows it is read."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(data + b'{"a": 1}\n')
        line = evil_minions.Line(ours)
        with pytest.raises(MalformedError):
            line.receive(10)
        assert line.waits()
        assert line.receive(10) == {"a": 1}

    async def scenario() -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            theirs.sendall(data + b'{"a": 1}\n')
            line = await AsyncLine.over(ours)
            with pytest.raises(MalformedError):
                await line.receive(10)
            assert await line.receive(10) == {"a": 1}
            line.close()
            await line.writer.wait_closed()

    asyncio.run(scenario())


def test_a_message_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message may come in pieces, several may come at once, and a limit holds for each."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        line = evil_minions.Line(ours)
        theirs.sendall(b'{"a": ')
        with pytest.raises(TimeoutError):
            line.receive(0.01)
        theirs.sendall(b'1}\n{"b": 2}\n')
        assert (line.receive(10), line.receive(10)) == ({"a": 1}, {"b": 2})
        theirs.sendall(b"x" * 100)
        monkeypatch.setattr("evil_minions.line.LONGEST", 50)
        with pytest.raises(MalformedError):
            line.receive(10)
    assert sys.getsizeof(line._received) < evil_minions.PRINTED_BYTES
