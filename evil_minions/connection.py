"""One TCP connection to a port of the master: connecting, reading, writing, and nothing that a wire doesn't need.

What a transport of asyncio does for a wire, with less memory and less code on the way; see `evil_minions.poller`.
"""

from __future__ import annotations

import errno
import socket
from select import EPOLLIN, EPOLLOUT
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    import asyncio

    from evil_minions.poller import Poller

_UNDER_WAY: Final = (0, errno.EINPROGRESS)


class Reader(Protocol):
    """What hears of a connection."""

    def connection_made(self, connection: Connection) -> None:
        """Hear that bytes may be written."""

    def received_bytes(self, count: int) -> None:
        """Hear that so many bytes are in the buffer."""

    def connection_lost(self) -> None:
        """Hear that the connection has gone, or never was; not after `Connection.abort`."""


class Connection:
    """A socket that doesn't block. Its bytes go through `buffer`, which all connections of an endpoint share."""

    __slots__ = ("_backlog", "_buffer", "_events", "_loop", "_made", "_poller", "_reader", "_socket")

    def __init__(self, loop: asyncio.AbstractEventLoop, poller: Poller, buffer: memoryview, reader: Reader) -> None:
        """Wait for `connect`."""
        self._loop = loop
        self._poller = poller
        self._buffer = buffer
        self._reader = reader
        self._socket: socket.socket | None = None
        self._backlog: bytearray | None = None
        self._events = 0
        self._made = False

    def connect(self, address: tuple[str, int]) -> None:
        """Begin to connect to an IP address and a port; the reader hears how it goes, perhaps before this returns."""
        try:
            self._socket = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET, socket.SOCK_STREAM)
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            error = self._socket.connect_ex(address)
            if error in _UNDER_WAY:
                self._want(EPOLLOUT)
        except OSError as problem:
            error = problem.errno or errno.EIO
        if error not in _UNDER_WAY:
            self.lose()

    def handle(self, events: int) -> None:
        """Read and write as far as that goes; what has failed shows at that."""
        if not self._made:
            self._connected()
            return
        if events & ~EPOLLIN and self._backlog is not None:
            self._flush()
        if not events & ~EPOLLOUT or self._socket is None or not self._events & EPOLLIN:
            return
        try:
            count = self._socket.recv_into(self._buffer)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            count = 0
        if count:
            self._reader.received_bytes(count)
        else:
            self.lose()

    def _connected(self) -> None:
        """Take the end of connecting, good or bad."""
        if self._socket is None:
            return
        if self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self.lose()
            return
        self._made = True
        self._want(EPOLLIN)
        self._reader.connection_made(self)

    def write(self, data: bytes) -> None:
        """Write bytes, or keep those that the system doesn't take yet; they are lost if the connection has gone."""
        if self._backlog is not None:
            self._backlog += data
            return
        if self._socket is None:
            return
        try:
            sent = self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            # whoever writes isn't prepared to lose the connection over it
            self._loop.call_soon(self.lose)
            return
        if sent < len(data):
            self._backlog = bytearray(data[sent:])
            self._want(self._events | EPOLLOUT)

    def _flush(self) -> None:
        """Write what was kept."""
        if self._socket is None or self._backlog is None:
            return
        try:
            del self._backlog[: self._socket.send(self._backlog)]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.lose()
            return
        if not self._backlog:
            self._backlog = None
            self._want(self._events & ~EPOLLOUT)

    def unwritten(self) -> int:
        """Return how many bytes wait to be written."""
        return len(self._backlog or b"")

    def pause_reading(self) -> None:
        """Read nothing until `resume_reading`."""
        self._want(self._events & ~EPOLLIN)

    def resume_reading(self) -> None:
        """Read again."""
        self._want(self._events | EPOLLIN)

    def abort(self, *, linger: bytes | None = None) -> None:
        """Close at once, without another word to the reader; `linger` is a value for SO_LINGER."""
        if self._socket is None:
            return
        self._want(0)
        if linger is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._socket.close()
        self._socket = self._backlog = None

    def lose(self) -> None:
        """Close because of the peer, the system or the reader's own failure, and tell the reader, unless it knows."""
        if self._made and self._socket is None:
            return
        self.abort()
        self._made = True
        self._reader.connection_lost()

    def _want(self, events: int) -> None:
        """Wait for these events; a socket without any must not be waited for, of whose end epoll tells anyway."""
        if self._socket is None or events == self._events:
            return
        descriptor = self._socket.fileno()
        if not events:
            self._poller.remove(descriptor)
        elif not self._events:
            self._poller.add(descriptor, self, events)
        else:
            self._poller.change(descriptor, events)
        self._events = events
