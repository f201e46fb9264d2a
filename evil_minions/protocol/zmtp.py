"""ZMTP 3.0 with the NULL mechanism, as bytes in and events out.

No input or output happens here: the same decoder serves sockets, recordings and fuzzers. Written out rather than
taken from libzmq because a pyzmq socket costs 83 KB and four descriptors, and this costs a few hundred bytes and one.
Source: https://rfc.zeromq.org/spec/23/ (ZMTP 3.0), and 37 (3.1) for PING and PONG, which libzmq sends to 3.0 peers too.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from evil_minions.errors import WireError

_MORE: Final = 1
_LONG: Final = 2
_COMMAND: Final = 4
_GREETING_SIZE: Final = 64
_SHORT_HEADER: Final = 2
_LONG_HEADER: Final = 9
_SHORT_LIMIT: Final = 255
_PING_SIZE: Final = 2
_CONTEXT_SIZE: Final = 16
_DELIMITER: Final = bytes((_MORE, 0))
_SHORTEST_REPLY: Final = len(_DELIMITER) + _SHORT_HEADER
_VALUE_HEADER: Final = 4
_VERSION: Final = 3

MAX_MESSAGE: Final = 64 * 1024 * 1024
MAX_PARTS: Final = 8

GREETING: Final = b"\xff" + b"\0" * 8 + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + b"\0" * 32
# the topic of what goes to all minions of a master with `zmq_filtering`
BROADCAST: Final = b"broadcast"


# a PING without a context, as libzmq sends it, up to its time to live; and its answer
HEARTBEAT: Final = b"\x04\x07\x04PING"
HEARTBEAT_ANSWER: Final = b"\x04\x05\x04PONG"


class Greeting(enum.Enum):
    """The only event without data: the peer's greeting is complete and acceptable."""

    SEEN = 1


@dataclass(frozen=True, slots=True)
class Command:
    """One command frame: its name and the bytes after it."""

    name: bytes
    body: bytes


Event = Greeting | Command | list[bytes]


def frame(body: bytes, *, more: bool = False) -> bytes:
    """Return one message frame around `body`; `more` says that another part follows."""
    flags = _MORE if more else 0
    if len(body) > _SHORT_LIMIT:
        return bytes((flags | _LONG,)) + len(body).to_bytes(8, "big") + body
    return bytes((flags, len(body))) + body


def command(name: bytes, body: bytes = b"") -> bytes:
    """Return one command frame."""
    content = bytes((len(name),)) + name + body
    if len(content) > _SHORT_LIMIT:
        return bytes((_COMMAND | _LONG,)) + len(content).to_bytes(8, "big") + content
    return bytes((_COMMAND, len(content))) + content


def ready(socket_type: bytes) -> bytes:
    """Return the READY command of a socket of `socket_type` (`REQ`, `SUB`, …) without an identity, as a minion's."""
    properties = b""
    for name, value in ((b"Socket-Type", socket_type), (b"Identity", b"")):
        properties += bytes((len(name),)) + name + len(value).to_bytes(4, "big") + value
    return command(b"READY", properties)


def subscribe(topic: bytes = b"") -> bytes:
    """Return the message by which a SUB socket asks for messages that begin with `topic`."""
    return frame(b"\x01" + topic)


def request(body: bytes) -> bytes:
    """Return a request as a REQ socket frames it: an empty delimiter, then `body`."""
    return _DELIMITER + frame(body)


def reply(data: bytes) -> bytes:
    """Return the body of `data` if that is nothing but a whole reply to a REQ socket, else nothing: `Decoder` knows."""
    if data[:2] != _DELIMITER or len(data) < _SHORTEST_REPLY:
        return b""
    start = len(_DELIMITER) + (_LONG_HEADER if data[2] == _LONG else _SHORT_HEADER)
    if data[2] & ~_LONG or int.from_bytes(data[3:start], "big") != len(data) - start:
        return b""
    return data[start:]


def pong(ping_body: bytes) -> bytes:
    """Return the answer to a PING with `ping_body` (two bytes of time to live, then the context to send back)."""
    return command(b"PONG", ping_body[_PING_SIZE : _PING_SIZE + _CONTEXT_SIZE])


def properties(body: bytes) -> dict[bytes, bytes]:
    """Return the metadata of a READY command; names in lower case, as they compare without case.

    Raises:
        WireError: if a name or a value doesn't end within the body.
    """
    found: dict[bytes, bytes] = {}
    position = 0
    while position < len(body):
        name_end = position + 1 + body[position]
        value_start = name_end + _VALUE_HEADER
        if value_start > len(body):
            raise WireError("A property of READY is cut off.")
        value_end = value_start + int.from_bytes(body[name_end:value_start], "big")
        if value_end > len(body):
            raise WireError("A value of READY is cut off.")
        found[body[position + 1 : name_end].lower()] = body[value_start:value_end]
        position = value_end
    return found


def _check_greeting(data: bytes) -> None:
    """Raise WireError unless `data` is the greeting of a ZMTP 3 peer with the NULL mechanism."""
    if data[0] != 0xFF or data[9] != 0x7F:  # noqa: PLR2004 - the signature of the specification
        raise WireError("The peer doesn't speak ZMTP.")
    if data[10] < _VERSION:
        raise WireError(f"The peer speaks ZMTP {data[10]}, version 3 is needed.")
    if data[12:32].rstrip(b"\0") != b"NULL":
        raise WireError("The peer wants another mechanism than NULL.")


def _command(content: bytes) -> Command:
    if not content or not content[0] or len(content) < 1 + content[0]:
        raise WireError("A command has no name.")
    end = 1 + content[0]
    return Command(content[1:end], content[end:])


class Decoder:
    """Turns the bytes of one connection into events, whatever pieces they come in.

    `limit` bounds a whole message in bytes, so that a peer can't make the process grow. `busy` says whether the
    greeting, a frame or a message is incomplete, so that the next bytes belong to it.
    """

    __slots__ = ("_greeted", "_held", "_need", "_parts", "_size", "busy", "limit")

    def __init__(self, limit: int = MAX_MESSAGE) -> None:
        """Start before the greeting."""
        self.limit = limit
        self.busy = True
        self._greeted = False
        self._held: bytearray | None = None
        self._need = 0
        self._parts: list[bytes] | None = None
        self._size = 0

    def feed(self, data: bytes | memoryview) -> list[Event]:
        """Return the events that `data` completes, in order.

        Raises:
            WireError: if the bytes aren't ZMTP 3.0; the decoder is of no use afterwards.
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
        position = self._greet(data, events)
        while self._greeted:
            after = self._frame(data, position, events)
            if after == position:
                break
            position = after
        if position < len(data):
            self._held = bytearray(data[position:])
        self.busy = self._held is not None or self._parts is not None or not self._greeted
        return events

    def _greet(self, data: memoryview, events: list[Event]) -> int:
        """Take the greeting from the front, and return where the frames start."""
        if self._greeted:
            return 0
        if len(data) < _GREETING_SIZE:
            self._need = _GREETING_SIZE
            return 0
        _check_greeting(bytes(data[:_GREETING_SIZE]))
        self._greeted = True
        events.append(Greeting.SEEN)
        return _GREETING_SIZE

    def _frame(self, data: memoryview, position: int, events: list[Event]) -> int:
        """Take the frame at `position`, and return where the next one starts: there as well if it is incomplete."""
        rest = len(data) - position
        if rest < _SHORT_HEADER:
            self._need = _SHORT_HEADER
            return position
        flags = data[position]
        if flags & ~7 or flags & (_COMMAND | _MORE) == _COMMAND | _MORE:
            raise WireError(f"A frame has the flags {flags:#x}.")
        header = _LONG_HEADER if flags & _LONG else _SHORT_HEADER
        if rest < header:
            self._need = header
            return position
        size = int.from_bytes(data[position + 1 : position + header], "big")
        if size + self._size > self.limit:
            raise WireError(f"A message has more than {self.limit} bytes.")
        if rest < header + size:
            self._need = header + size
            return position
        after = position + header + size
        self._take(flags, bytes(data[position + header : after]), events)
        return after

    def _take(self, flags: int, body: bytes, events: list[Event]) -> None:
        """Append the event that one frame completes, if any."""
        if flags & _COMMAND:
            if self._parts is not None:
                raise WireError("A command stands within a message.")
            events.append(_command(body))
            return
        if self._parts is None:
            if not flags & _MORE:
                events.append([body])
                return
            self._parts = []
        self._parts.append(body)
        self._size += len(body)
        if len(self._parts) > MAX_PARTS:
            raise WireError(f"A message has more than {MAX_PARTS} parts.")
        if not flags & _MORE:
            events.append(self._parts)
            self._parts = None
            self._size = 0
