"""The frames of the transport tcp: maps of a head and a body in msgpack, one after the other, without lengths.

No input or output happens here. Bodies stay bytes: a publication is the same for every minion and is opened once, and
the answer to a request is opened by whoever asked. Salt's own encoder makes the frames, msgpack's own finds their ends.
Source: salt/transport/frame.py and salt/transport/tcp.py of Salt 3008.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import salt.transport.frame
import salt.utils.msgpack

from evil_minions.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_MESSAGE: Final = 64 * 1024 * 1024
# the size that an unpacker's buffer starts at; left alone it takes a megabyte
_READ_SIZE: Final = 16
_HEAD: Final = b"head"
_BODY: Final = b"body"
_ID: Final = b"mid"
# msgpack's own errors, and what it lets through of Python's
_ERRORS: Final = (salt.utils.msgpack.exceptions.UnpackException, ValueError, TypeError, OverflowError)


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame: the id of the message that it answers (empty in a publication), and its body in msgpack."""

    mid: bytes
    body: bytes


def frame(body: bytes, head: Mapping[str, str]) -> bytes:
    """Return one frame; `body` is in msgpack already, so it takes the place of an empty one at the frame's end."""
    empty: bytes = salt.transport.frame.frame_msg(None, header=dict(head))
    return empty[:-1] + body


def value(body: bytes) -> object:
    """Return what a body holds, with bytes as bytes.

    Raises:
        WireError: if it isn't msgpack.
    """
    try:
        return salt.utils.msgpack.unpackb(body)
    except _ERRORS as error:
        raise WireError("A message isn't msgpack.") from error


def _unpacker(limit: int) -> Any:
    """Return an unpacker that holds at most `limit` bytes."""
    return salt.utils.msgpack.Unpacker(max_buffer_size=limit, read_size=_READ_SIZE)


def _frame(data: bytes) -> Frame:
    parser = _unpacker(len(data))
    mid, body = b"", b""
    try:
        parser.feed(data)
        for _ in range(parser.read_map_header()):
            key = parser.unpack()
            start = parser.tell()
            if key == _HEAD:
                head = parser.unpack()
                mid = head.get(_ID, b"")
            else:
                parser.skip()
                body = data[start : parser.tell()] if key == _BODY else body
    except (*_ERRORS, AttributeError) as error:
        raise WireError("A frame isn't a map of a head and a body.") from error
    if not body or not isinstance(mid, bytes):
        raise WireError("A frame has no body, or an id that isn't one.")
    return Frame(mid, body)


class _Partial:
    """What is kept while a frame is incomplete: its bytes so far, and how far msgpack has come in them."""

    __slots__ = ("base", "held", "unpacker")

    def __init__(self, limit: int) -> None:
        self.unpacker = _unpacker(limit)
        self.held = bytearray()
        self.base = 0


class Decoder:
    """Turns the bytes of one connection into frames, whatever pieces they come in; at rest it holds nothing.

    `limit` bounds a frame in bytes, so that a peer can't make the process grow.
    """

    __slots__ = ("_partial", "limit")

    def __init__(self, limit: int = MAX_MESSAGE) -> None:
        """Start before the first frame."""
        self.limit = limit
        self._partial: _Partial | None = None

    def feed(self, data: bytes | memoryview) -> list[Frame]:
        """Return the frames that `data` completes, in order.

        Raises:
            WireError: if the bytes aren't frames; the decoder is of no use afterwards.
        """
        partial = self._partial or _Partial(self.limit)
        partial.held += data
        frames = []
        start = 0
        try:
            partial.unpacker.feed(data)
            while start < len(partial.held):
                partial.unpacker.skip()
                end = partial.unpacker.tell() - partial.base
                frames.append(_frame(bytes(partial.held[start:end])))
                start = end
        except salt.utils.msgpack.exceptions.OutOfData:
            del partial.held[:start]
            partial.base += start
            self._partial = partial
        except _ERRORS as error:
            raise WireError("The peer sent something else than frames of msgpack.") from error
        else:
            self._partial = None
        return frames
