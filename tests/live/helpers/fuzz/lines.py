"""Connections to a master's request port over each transport, for sound messages and for bytes that are not."""

from __future__ import annotations

import socket
import struct
import time
from typing import TYPE_CHECKING, Final, Self

from wsproto.events import CloseConnection

from evil_minions import zmtp
from evil_minions.errors import WireError
from evil_minions.protocol import frames, websocket
from harness.processes.ports import HOST
from tests.live.helpers.fuzz import values

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

CONNECT_S: Final = 30.0
READ: Final = 1 << 16
MESSAGE_ID: Final = "1"


class Line:
    """One connection, which is made again after it was lost; a context manager."""

    # what is sent first, what comes back before the rest may be sent, and that rest
    opening: tuple[bytes, Callable[[bytes], bool], bytes] = (b"", bool, b"")

    def __init__(self, port: int) -> None:
        """Take the port."""
        self._port = port
        self._socket: socket.socket | None = None

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Hang up."""
        self.close()

    def ask(self, message: bytes, seconds: float) -> bytes | None:
        """Send a message and return the reply, None if there is none or the connection was lost."""
        try:
            if self._socket is None:
                self._open()
            assert self._socket
            self._socket.settimeout(seconds)
            self._socket.sendall(self.wrap(message))
            return self._reply(seconds)
        except (OSError, WireError):
            self.close()
            return None

    def write(self, data: bytes, *, opened: bool = True) -> socket.socket:
        """Send bytes as they are over a connection of their own, after an opening or without, and return it.

        Raises:
            OSError: if the master has hung up.
        """
        found = socket.create_connection((HOST, self._port), CONNECT_S)
        try:
            if opened:
                opener = type(self)(self._port)
                opener._begin()
                opener._handshake(found)
            found.sendall(data)
        except OSError:
            found.close()
            raise
        found.setblocking(False)
        return found

    def close(self) -> None:
        """Hang up."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None

    def _open(self) -> None:
        self._socket = socket.create_connection((HOST, self._port), CONNECT_S)
        self._begin()
        list(self.replies(self._handshake(self._socket)))

    def _handshake(self, connection: socket.socket) -> bytes:
        """Open a connection, and return what came."""
        first, complete, rest = self.opening
        connection.sendall(first)
        data = b""
        while first and not complete(data):
            more = connection.recv(READ)
            if not more:
                raise ConnectionError("The master has hung up.")
            data += more
        connection.sendall(rest)
        return data

    def _reply(self, seconds: float) -> bytes | None:
        assert self._socket
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._socket.settimeout(left)
            data = self._socket.recv(READ)
            if not data:
                break
            for found in self.replies(data):
                return found
        self.close()
        return None

    def _begin(self) -> None:
        """Begin a decoder."""
        raise NotImplementedError

    def wrap(self, message: bytes) -> bytes:
        """Return the bytes of a message on the wire."""
        raise NotImplementedError

    def replies(self, data: bytes) -> Iterator[bytes]:
        """Yield the replies that bytes complete."""
        raise NotImplementedError

    @classmethod
    def hostile(cls, rng: random.Random, message: bytes) -> bytes:
        """Return bytes that are not what this transport expects after its opening."""
        raise NotImplementedError


class ZeromqLine(Line):
    """ZMTP 3.0, as a REQ socket speaks it."""

    opening = zmtp.GREETING, lambda data: len(data) >= len(zmtp.GREETING), zmtp.ready(b"REQ")

    def _begin(self) -> None:
        self._decoder = zmtp.Decoder()

    def wrap(self, message: bytes) -> bytes:
        """Return an empty frame and the message."""
        return zmtp.request(message)

    def replies(self, data: bytes) -> Iterator[bytes]:
        """Yield the last parts of messages."""
        for event in self._decoder.feed(data):
            if isinstance(event, list):
                yield event[-1]

    @classmethod
    def hostile(cls, rng: random.Random, message: bytes) -> bytes:
        """Return frames of wrong numbers, lengths, flags and commands."""
        frame = zmtp.frame
        kinds = [
            frame(message),
            frame(b"", more=True) + frame(b"", more=True) + frame(message),
            frame(b"x" * 300, more=True) + frame(b"", more=True) + frame(message),
            b"".join(frame(b"", more=True) for _ in range(rng.choice((9, 2000)))) + frame(message),
            frame(b"", more=True) + frame(b""),
            frame(b"", more=True),
            frame(b"", more=True) + b"\x02" + rng.choice((1 << 31, 1 << 40, (1 << 63) - 1)).to_bytes(8, "big") + b"x",
            b"\x02" + b"\xff" * 8 + message,
            bytes((rng.choice((8, 16, 128, 255)), 3)) + b"abc",
            zmtp.command(rng.choice((b"READY", b"PING", b"PONG", b"ERROR", b"SUBSCRIBE", b"x")), rng.randbytes(9)),
            b"\x04\x00" + b"\x04\x01\xff" + b"\x06" + b"\xff" * 8,
            zmtp.subscribe(b"x") + zmtp.request(message),
            values.damaged(rng, zmtp.request(message)),
        ]
        return rng.choice(kinds)


class TcpLine(Line):
    """Maps of a head and a body in msgpack."""

    def _begin(self) -> None:
        self._decoder = frames.Decoder()

    def wrap(self, message: bytes) -> bytes:
        """Return a frame."""
        return frames.frame(message, {"mid": MESSAGE_ID})

    def replies(self, data: bytes) -> Iterator[bytes]:
        """Yield the bodies of frames."""
        for found in self._decoder.feed(data):
            yield found.body

    @classmethod
    def hostile(cls, rng: random.Random, message: bytes) -> bytes:
        """Return frames that are not a head and a body, and bytes that are no frames."""
        pack = values.pack
        kinds = [
            pack({"head": values.hostile(rng), "body": values.hostile(rng)}),
            pack({"head": {"mid": values.hostile(rng)}, "body": {"enc": "clear", "load": {"cmd": "ping"}}}),
            pack({"body": {}}) + pack({"head": {}}) + pack({}),
            pack(values.hostile(rng)),
            b"\x82\xa4head\x80\xa4body" + message * rng.choice((1, 2, 30)),
            rng.choice((b"\xc6", b"\xdb", b"\xdd", b"\xdf", b"\xc9")) + b"\x7f\xff\xff\xff" + message,
            b"\x91" * rng.choice((500, 1030, 9000)),
            values.damaged(rng, frames.frame(message, {"mid": MESSAGE_ID})),
        ]
        return rng.choice(kinds)


class WsLine(Line):
    """A WebSocket."""

    def _begin(self) -> None:
        self._decoder = websocket.Client()
        self.opening = self._decoder.upgrade(HOST, self._port, "/ws"), lambda data: b"\r\n\r\n" in data, b""

    def wrap(self, message: bytes) -> bytes:
        """Return a binary frame."""
        return ws_frame(0x82, message)

    def replies(self, data: bytes) -> Iterator[bytes]:
        """Yield binary messages."""
        for event in self._decoder.feed(data):
            if isinstance(event, bytes):
                yield event
            elif isinstance(event, CloseConnection):
                raise WireError("The master has closed the connection.")

    @classmethod
    def hostile(cls, rng: random.Random, message: bytes) -> bytes:
        """Return frames of wrong kinds, lengths and orders."""
        kinds = [
            ws_frame(0x80 | rng.randrange(16), message[:120]),
            ws_frame(0x80 | rng.randrange(16), rng.randbytes(20)),
            bytes((0x82, len(message) & 0x7F)) + message,
            ws_frame(0x02, message[:9]) + ws_frame(0x02, message),
            ws_frame(0x02, message[:9]) + ws_frame(0x89, b"x" * 125) + ws_frame(0x80, message[9:]),
            ws_frame(0x80, message),
            ws_frame(0xF2, message),
            bytes((0x82, 0xFF)) + rng.choice((1 << 31, 1 << 62, (1 << 64) - 1)).to_bytes(8, "big") + b"x" * 9,
            bytes((0x89, 0xFE)) + b"\x01\x00" + b"x" * 260,
            ws_frame(0x88, rng.choice((b"", b"x", struct.pack(">H", 999) + b"\xff\xfe", struct.pack(">H", 1000)))),
            ws_frame(0x81, rng.choice((b"close", b"\xff\xfe", b"x" * 300))),
            values.damaged(rng, ws_frame(0x82, message)),
        ]
        return rng.choice(kinds)


def ws_frame(first: int, body: bytes) -> bytes:
    """Return a frame that is masked with zeros, as only a client may send it."""
    size = len(body)
    if size < 126:
        header = bytes((first, 0x80 | size))
    elif size < 1 << 16:
        header = bytes((first, 0x80 | 126)) + size.to_bytes(2, "big")
    else:
        header = bytes((first, 0x80 | 127)) + size.to_bytes(8, "big")
    return header + b"\0" * 4 + body


LINES: Final[dict[str, type[Line]]] = {"zeromq": ZeromqLine, "tcp": TcpLine, "ws": WsLine}
