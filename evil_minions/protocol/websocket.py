"""The client side of a WebSocket without extensions, as bytes in and events out.

No input or output happens here. Written out rather than taken from aiohttp, which Salt uses, because a connection of
aiohttp costs 9 KB, 12 KB with a session of its own, and one of these 1 KB; and this little is all that masters use.
Source: RFC 6455.
"""

from __future__ import annotations

import base64
import enum
import hashlib
import os
from dataclasses import dataclass
from typing import Final

from evil_minions.errors import WireError

MAX_MESSAGE: Final = 64 * 1024 * 1024
_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_KEY_SIZE: Final = 16
_MASK_SIZE: Final = 4
_FIN: Final = 0x80
_MASKED: Final = 0x80
_LENGTH: Final = 0x7F
_HEADER: Final = 2
_SHORT_LIMIT: Final = 125
_TWO_BYTES: Final = 126
_EIGHT_BYTES: Final = 127
_TWO_BYTES_LIMIT: Final = 0xFFFF
_FIRST_CONTROL: Final = 8
_MAX_RESPONSE: Final = 8 * 1024
_END: Final = b"\r\n\r\n"


class Opcode(enum.IntEnum):
    """What a frame is."""

    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


class Upgrade(enum.Enum):
    """The only event without data: the peer has agreed to speak WebSocket."""

    SEEN = 1


@dataclass(frozen=True, slots=True)
class Other:
    """A message that isn't binary, or a control frame."""

    opcode: Opcode
    body: bytes


Event = Upgrade | Other | bytes


def new_key() -> bytes:
    """Return a key for a handshake."""
    return base64.b64encode(os.urandom(_KEY_SIZE))


def upgrade(host: str, port: int, path: str, key: bytes) -> bytes:
    """Return the request that begins a handshake."""
    return (
        f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key.decode()}\r\n\r\n"
    ).encode()


def accept(key: bytes) -> bytes:
    """Return what the peer proves with that it has understood a handshake with `key`."""
    return base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest())


def frame(body: bytes, opcode: Opcode = Opcode.BINARY) -> bytes:
    """Return one whole message or control frame, masked as a client has to."""
    size = len(body)
    if size <= _SHORT_LIMIT:
        header = bytes((_FIN | opcode, _MASKED | size))
    elif size <= _TWO_BYTES_LIMIT:
        header = bytes((_FIN | opcode, _MASKED | _TWO_BYTES)) + size.to_bytes(2, "big")
    else:
        header = bytes((_FIN | opcode, _MASKED | _EIGHT_BYTES)) + size.to_bytes(8, "big")
    mask = os.urandom(_MASK_SIZE)
    pattern = (mask * (size // _MASK_SIZE + 1))[:size]
    masked = int.from_bytes(body, "little") ^ int.from_bytes(pattern, "little")
    return header + mask + masked.to_bytes(size, "little")


def _check_response(data: bytes, expected: bytes) -> None:
    """Raise WireError unless `data` is the header of a response that ends the handshake."""
    status, *lines = data.split(b"\r\n")
    if status.split(b" ")[:2] != [b"HTTP/1.1", b"101"]:
        raise WireError("The peer doesn't want to speak WebSocket.")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
    connection = [token.strip() for token in headers.get(b"connection", b"").lower().split(b",")]
    if headers.get(b"upgrade", b"").lower() != b"websocket" or b"upgrade" not in connection:
        raise WireError("The peer upgrades to something else than WebSocket.")
    if headers.get(b"sec-websocket-accept") != expected:
        raise WireError("The peer hasn't understood the handshake.")
    if b"sec-websocket-extensions" in headers:
        raise WireError("The peer uses an extension that nobody asked for.")


class Decoder:
    """Turns the bytes of one connection into events, whatever pieces they come in.

    `limit` bounds a whole message in bytes, so that a peer can't make the process grow.
    """

    __slots__ = ("_expected", "_held", "_message", "_need", "limit")

    def __init__(self, key: bytes, limit: int = MAX_MESSAGE) -> None:
        """Start before the response to a handshake with `key`."""
        self.limit = limit
        self._expected: bytes | None = accept(key)
        self._held: bytearray | None = None
        self._need = 0
        self._message: tuple[Opcode, bytearray] | None = None

    def feed(self, data: bytes | memoryview) -> list[Event]:
        """Return the events that `data` completes, in order.

        Raises:
            WireError: if the bytes aren't WebSocket; the decoder is of no use afterwards.
        """
        if self._held is not None:
            self._held += data
            if len(self._held) < self._need:
                return []
            data = memoryview(bytes(self._held))
            self._held = None
        elif not isinstance(data, memoryview):
            data = memoryview(data)
        events: list[Event] = []
        position = self._upgrade(data, events)
        while self._expected is None:
            after = self._frame(data, position, events)
            if after == position:
                break
            position = after
        if position < len(data):
            self._held = bytearray(data[position:])
        return events

    def _upgrade(self, data: memoryview, events: list[Event]) -> int:
        """Take the response to the handshake from the front, and return where the frames start."""
        if self._expected is None:
            return 0
        header, end, _ = bytes(data[:_MAX_RESPONSE]).partition(_END)
        if not end:
            if len(data) >= _MAX_RESPONSE:
                raise WireError("The response to the handshake has no end.")
            self._need = len(data) + 1
            return 0
        _check_response(header, self._expected)
        self._expected = None
        events.append(Upgrade.SEEN)
        return len(header) + len(end)

    def _frame(self, data: memoryview, position: int, events: list[Event]) -> int:
        """Take the frame at `position`, and return where the next one starts: there as well if it is incomplete."""
        rest = len(data) - position
        if rest < _HEADER:
            self._need = _HEADER
            return position
        first, second = data[position], data[position + 1]
        if second & _MASKED:
            raise WireError("The peer masks its frames, as only a client may.")
        size, header = second & _LENGTH, _HEADER
        if size >= _TWO_BYTES:
            header += 2 if size == _TWO_BYTES else 8
            if rest < header:
                self._need = header
                return position
            size = int.from_bytes(data[position + _HEADER : position + header], "big")
        opcode = self._check(first, size)
        if rest < header + size:
            self._need = header + size
            return position
        after = position + header + size
        self._take(opcode, bytes(data[position + header : after]), events, final=bool(first & _FIN))
        return after

    def _check(self, first: int, size: int) -> Opcode:
        """Return the opcode in the first byte of a frame of `size` bytes, if such a frame may come now."""
        try:
            opcode = Opcode(first & ~_FIN)
        except ValueError:
            raise WireError(f"A frame begins with {first:#x}.") from None
        if opcode >= _FIRST_CONTROL:
            if size > _SHORT_LIMIT or not first & _FIN:
                raise WireError("A control frame is too long, or in pieces.")
            return opcode
        if (opcode == Opcode.CONTINUATION) != (self._message is not None):
            raise WireError("A piece of a message stands alone, or another one begins before its end.")
        if size + (len(self._message[1]) if self._message else 0) > self.limit:
            raise WireError(f"A message has more than {self.limit} bytes.")
        return opcode

    def _take(self, opcode: Opcode, body: bytes, events: list[Event], *, final: bool) -> None:
        """Append the event that one frame completes, if any."""
        if opcode < _FIRST_CONTROL:
            if self._message is not None:
                opcode, pieces = self._message
                pieces += body
                if not final:
                    return
                self._message, body = None, bytes(pieces)
            elif not final:
                self._message = (opcode, bytearray(body))
                return
        events.append(body if opcode == Opcode.BINARY else Other(opcode, body))
