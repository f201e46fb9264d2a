"""The master's readiness over a stream: one question at a time, until a worker has answered it."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from harness.bed import master
from harness.processes.deadline import Deadline, until

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS = 30.0
KINDS = pytest.mark.parametrize("kind", [master.TcpPing, master.WsPing])


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """Yield a server that nobody serves yet."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(SECONDS)
        yield server


def question(one: master.StreamPing, server: socket.socket) -> socket.socket:
    """Return the connection over which the next question comes, once all of it is read."""
    assert not one.answered()
    connection, _ = server.accept()
    connection.settimeout(SECONDS)
    data = b""
    while data != one.question:
        more = connection.recv(master.READ_BYTES)
        assert more
        data += more
    return connection


def wait(one: master.StreamPing) -> None:
    """Wait until the question is answered."""
    until(one.answered, Deadline(SECONDS), lambda: "No answer")


@KINDS
def test_late_master_is_not_asked_twice(kind: type[master.StreamPing], server: socket.socket) -> None:
    """Who looks again and again has asked once, and gets the answer whenever it comes, in parts or not."""
    with kind(server.getsockname()[1]) as one, question(one, server) as connection:
        assert [one.answered() for _ in range(100)] == [False] * 100
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
        connection.sendall(b"x" + one.end)
        assert not one.answered()
        connection.sendall(master.ANSWER)
        wait(one)


@KINDS
@pytest.mark.parametrize("bad", [b"error: Internal routing error", b""])
def test_master_that_fails_is_asked_again(kind: type[master.StreamPing], server: socket.socket, bad: bytes) -> None:
    """An error and a connection that ends are no answers, and neither is half of one before them."""
    with kind(server.getsockname()[1]) as one, ExitStack() as stack:
        first = stack.enter_context(question(one, server))
        first.sendall(one.end + bad)
        first.shutdown(socket.SHUT_WR)
        until(lambda: not one.answered() and one._connection is None, Deadline(SECONDS), lambda: "Still connected")
        second = stack.enter_context(question(one, server))
        second.sendall(one.end + master.ANSWER)
        wait(one)


def test_master_that_refuses_is_asked_again() -> None:
    """Nobody listens yet."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with master.TcpPing(port) as one:
        assert not one.answered()
        with socket.create_server(("127.0.0.1", port)) as server, question(one, server) as connection:
            connection.sendall(one.end + master.ANSWER)
            wait(one)


def test_stream_is_asked_when_all_workers_listen(tmp_path: Path) -> None:
    """A socket that is bound and not listened to is what a router would run into."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.bind(("127.0.0.1", 0))
        # a Unix socket's path has little room
        home = Path(stack.enter_context(TemporaryDirectory(prefix="saltbed-")))
        one = master.Master(home, tmp_path / "log", server.getsockname()[1], 0, "tcp")
        one.sock_dir.mkdir()
        assert not one.lets_ask()
        assert replace(one, transport="zeromq").lets_ask()
        server.listen()
        assert one.lets_ask()
        for name in ("workers-default.ipc", "workers-auth.ipc"):
            worker = stack.enter_context(socket.socket(socket.AF_UNIX))
            worker.bind(str(one.sock_dir / name))
            assert not one.lets_ask()
            worker.listen()
            assert one.lets_ask()
