"""A question to the master's request port, over each transport: whether it answers yet.

It goes through the master's queue to a worker and back, which an open port alone doesn't prove.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, ClassVar, Final, Protocol, Self

from zmq.constants import SocketType
from zmq.sugar.context import Context

from harness.processes.ports import HOST

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

# {"enc": "clear", "load": {"cmd": "ping"}, "version": 3} as Salt's messages are encoded (msgpack)
ANSWER: Final = b"\x81\xa3cmd\xa4ping"
PING: Final = b"\x83\xa3enc\xa5clear\xa4load" + ANSWER + b"\xa7version\x03"
# what is in the answer of a router that could not reach the workers, who send the load back
ERROR: Final = b"error"
CONNECT_S: Final = 1.0
READ_BYTES: Final = 4096


class Ping(Protocol):
    """A question under way; a context manager that ends it."""

    def __init__(self, port: int, host: str = HOST) -> None:
        """Ask the server on this port, as soon as there is one."""

    def __enter__(self) -> Self:
        """Return itself."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End it, whether it was answered or not."""

    def answered(self) -> bool:
        """Say whether the answer has come."""


class ZeromqPing:
    """A REQ socket, which waits for its server by itself."""

    def __init__(self, port: int, host: str = HOST) -> None:
        """Ask the server on this port, as soon as there is one."""
        self._context = Context()
        self._socket = self._context.socket(SocketType.REQ)
        self._socket.connect(f"tcp://{host}:{port}")
        self._socket.send(PING)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the socket, whether it was answered or not."""
        self._context.destroy(linger=0)

    def answered(self) -> bool:
        """Say whether the answer has come."""
        return bool(self._socket.poll(0))


class StreamPing:
    """A connection that holds one question, for as long as its answer takes.

    A second question while the first one waits is not harmless, see `harness.bed.master.Master.lets_ask`.
    """

    question: ClassVar[bytes]
    end: ClassVar[bytes]

    def __init__(self, port: int, host: str = HOST) -> None:
        """Ask the server on this port, as soon as there is one."""
        self._address = host, port
        self._connection: socket.socket | None = None
        self._data = b""

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the connection, whether the question was answered or not."""
        self._close()

    def answered(self) -> bool:
        """Say whether the answer has come; who refuses, hangs up or answers with an error is asked again."""
        try:
            if self._connection is None:
                self._connection = socket.create_connection(self._address, CONNECT_S)
                self._connection.sendall(self.question)
                self._connection.setblocking(False)
            more = self._connection.recv(READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            self._close()
            return False
        self._data += more
        answer = self._data.partition(self.end)[2]
        if ANSWER in answer:
            return True
        if ERROR in answer or not more:
            self._close()
        return False

    def _close(self) -> None:
        """End the connection and forget what came over it."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._data = b""


class TcpPing(StreamPing):
    """A frame of a head and a body in msgpack, which is answered by another one."""

    question = b"\x82\xa4head\x81\xa3mid\xa1p\xa4body" + PING
    end = b"body"


class WsPing(StreamPing):
    """The handshake of a WebSocket and a frame (masked with zeros), answered by a header and a frame."""

    question = (
        b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
        + bytes((0x82, 0x80 | len(PING), 0, 0, 0, 0))
        + PING
    )
    end = b"\r\n\r\n"


PINGS: Final[Mapping[str, type[Ping]]] = {"zeromq": ZeromqPing, "tcp": TcpPing, "ws": WsPing}
"""A question for each transport, by the name that Salt's option `transport` has for it."""
