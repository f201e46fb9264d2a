"""The master's readiness over a stream: who is late is given more time."""

from __future__ import annotations

import socket
from contextlib import suppress
from threading import Thread

import pytest

from harness.bed import ping


@pytest.mark.parametrize("kind", [ping.TcpPing, ping.WsPing])
def test_late_master_is_given_more_time(kind: type[ping.StreamPing], monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks that time out wait twice as long each, until an answer comes."""
    monkeypatch.setattr(ping, "ANSWER_S", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as server, kind(server.getsockname()[1]) as one:
        assert [one.answered() for _ in range(3)] == [False] * 3
        assert one._patience == 0.08
        # from here on the machine may be as slow as it likes
        one._patience = 30.0

        def answer() -> None:
            for _ in range(4):
                connection, _ = server.accept()
                # those of the looks that gave up are closed
                with suppress(OSError), connection:
                    connection.recv(1)
                    connection.sendall(kind.end + b"x")

        thread = Thread(target=answer)
        thread.start()
        assert one.answered()
        thread.join()


def test_master_that_refuses_is_asked_again_at_once() -> None:
    """Nobody listens yet: that says nothing of how long an answer takes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with ping.TcpPing(port) as one:
        assert not one.answered()
    assert one._patience == ping.ANSWER_S
