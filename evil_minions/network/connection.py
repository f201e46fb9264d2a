"""TCP connections to a port of the master: connecting, reading, writing, and nothing that a wire doesn't need.

asyncio spends more on each event than a minion does on handling it: keys, handles, contexts, a transport of 1.5 KB. So
connections have an epoll of their own here, and the loop waits for that as for one descriptor. Only a connection over
a simulated network has a flow, in which its bytes wait.
"""

from __future__ import annotations

import errno
import select
import socket
from collections import deque
from functools import partial
from select import EPOLLIN, EPOLLOUT
from typing import TYPE_CHECKING, Final, Protocol

from evil_minions import defaults
from evil_minions.network.path import Flow, NetworkPath

if TYPE_CHECKING:
    import asyncio
    import random
    from collections.abc import Callable


class Timeout:
    """One of them; `callback` is None once that was called, or cancelled."""

    __slots__ = ("at", "callback")

    def __init__(self, at: float, callback: Callable[[], None]) -> None:
        """Wait for the loop's time `at`."""
        self.at = at
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Never call back."""
        self.callback = None

    def fire(self) -> None:
        """Call back, unless it was cancelled at the last moment."""
        callback, self.callback = self.callback, None
        if callback is not None:
            callback()


class Timeouts:
    """The timeouts of one endpoint.

    A timer of the event loop costs a context, an entry of a heap and comparisons in Python; a cancelled one stays in
    the heap. Tries have few different lengths, and those of one length end in the order in which they began: so there
    is a queue for each length, and the loop has a timer for the first of each.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait for nothing yet."""
        self._loop = loop
        self._queues: dict[float, deque[Timeout]] = {}

    def after(self, seconds: float, callback: Callable[[], None]) -> Timeout:
        """Call back after some seconds; return what cancels that."""
        timeout = Timeout(self._loop.time() + seconds, callback)
        queue = self._queues.get(seconds)
        if queue is None:
            queue = self._queues[seconds] = deque()
            self._loop.call_later(seconds, self._due, seconds)
        queue.append(timeout)
        return timeout

    def _due(self, seconds: float) -> None:
        """Call back those of one length whose time has come, and wait for the next one that isn't cancelled."""
        queue = self._queues[seconds]
        now = self._loop.time()
        while queue and (queue[0].callback is None or queue[0].at <= now):
            self._loop.call_soon(queue.popleft().fire)
        if queue:
            self._loop.call_later(queue[0].at - now, self._due, seconds)
        else:
            del self._queues[seconds]


class Poller:
    """The connections of one endpoint, by their descriptors."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait for nothing yet: a descriptor is only taken when there is something to wait for."""
        self._loop = loop
        self._epoll: select.epoll | None = None
        self._polled: dict[int, Connection] = {}

    def add(self, descriptor: int, polled: Connection, events: int) -> None:
        """Wait for events of a descriptor.

        Raises:
            OSError: if the system has no room for that.
        """
        if self._epoll is None:
            self._epoll = select.epoll()
            self._loop.add_reader(self._epoll.fileno(), self._poll)
        self._epoll.register(descriptor, events)
        self._polled[descriptor] = polled

    def change(self, descriptor: int, events: int) -> None:
        """Wait for other events of a descriptor."""
        if self._epoll is not None:
            self._epoll.modify(descriptor, events)

    def remove(self, descriptor: int) -> None:
        """Wait for a descriptor no longer."""
        if self._polled.pop(descriptor, None) is not None and self._epoll is not None:
            self._epoll.unregister(descriptor)

    def _poll(self) -> None:
        """Have every connection on which something has happened hear of it."""
        if self._epoll is None:
            return
        polled = self._polled
        for descriptor, events in self._epoll.poll(0):
            found = polled.get(descriptor)
            # one that went before may have closed it
            if found is not None:
                try:
                    found.handle(events)
                except Exception as error:  # noqa: BLE001 - one connection must not silence the others
                    self._loop.call_exception_handler({"message": "A connection failed.", "exception": error})
                    found.lose()


_UNDER_WAY: Final = (0, errno.EINPROGRESS)
# what a system keeps for a reader, tcp_rmem of Linux: more stays with the peer
_WINDOW: Final = 6 * 1024 * 1024


class Reader(Protocol):
    """What a connection calls when something happens."""

    def connection_made(self, connection: Connection) -> None:
        """Handle an established connection: bytes may be written."""

    def received_bytes(self, count: int) -> None:
        """Handle so many bytes, which are in the buffer."""

    def connection_lost(self) -> None:
        """Handle the loss of the connection, or that there never was one; not called after `Connection.abort`."""


class Connection:
    """A socket that doesn't block. Its bytes go through `buffer`, which all connections of an endpoint share."""

    __slots__ = (
        "_backlog",
        "_buffer",
        "_events",
        "_flow",
        "_left",
        "_loop",
        "_made",
        "_poller",
        "_reader",
        "_socket",
        "keepalive",
    )

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
        # whether this side has hung up, while what it wrote is still under way
        self._left = False
        self._flow: Flow | None = None
        self.keepalive = True

    @property
    def path(self) -> NetworkPath | None:
        """The simulated network that the bytes go over, if there is one."""
        return self._flow.path if self._flow is not None else None

    def reroute(self, path: NetworkPath | None, rng: random.Random) -> None:
        """Go over another network from now on; what is under way comes as it would have come."""
        if self._flow is not None:
            self._flow.path = path or NetworkPath()
        elif path is not None:
            self._flow = Flow(self._loop, path, rng)

    def connect(self, address: tuple[str, int]) -> None:
        """Begin to connect to an IP address and a port; the reader is told the outcome, perhaps before this ends."""
        if self._flow is None:
            self._connect(address)
        else:
            # the master hears of it when the first packet gets there
            self._loop.call_later(self._flow.opening(), self._flow.send, 0, partial(self._connect, address))

    def _connect(self, address: tuple[str, int]) -> None:
        if self._left:
            return
        try:
            self._socket = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET, socket.SOCK_STREAM)
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.keepalive:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, defaults.TCP_KEEPALIVE_IDLE)
            error = self._socket.connect_ex(address)
            if error in _UNDER_WAY:
                self._want(EPOLLOUT)
        except OSError as problem:
            error = problem.errno or errno.EIO
        if error not in _UNDER_WAY:
            self._hear(0, self.lose)

    def _hear(self, size: int, what: Callable[[], None]) -> None:
        """Run the callback for what the peer did: at once, or after the delay of a simulated network."""
        if self._flow is None:
            what()
        else:
            self._flow.receive(size, what)

    def handle(self, events: int) -> None:
        """Read and write as much as possible; errors of the socket show when that fails."""
        if not self._events & EPOLLIN and not self._made:
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
        if self._flow is not None:
            self._arrive(self._flow, count)
        elif count:
            self._reader.received_bytes(count)
        else:
            self.lose()

    def _arrive(self, flow: Flow, count: int) -> None:
        """Keep what has left the peer until it is here."""
        if not count:
            self._want(self._events & ~EPOLLIN)
            flow.receive(0, self.lose)
            return
        flow.receive(count, partial(self._take, bytes(self._buffer[:count])))
        if flow.incoming.size > _WINDOW:
            self._want(self._events & ~EPOLLIN)

    def _take(self, data: bytes) -> None:
        """Hand over what is here by now."""
        if self._left or self._flow is None or self._socket is None:
            return
        if not self._events & EPOLLIN and self._flow.incoming.size + len(data) > _WINDOW >= self._flow.incoming.size:
            self._want(self._events | EPOLLIN)
        self._buffer[: len(data)] = data
        self._reader.received_bytes(len(data))

    def _connected(self) -> None:
        """Take the end of connecting, good or bad."""
        if self._socket is None:
            return
        if self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._want(0)
            self._hear(0, self.lose)
            return
        self._want(EPOLLIN)
        self._hear(0, self._open)

    def _open(self) -> None:
        self._made = True
        self._reader.connection_made(self)

    def write(self, data: bytes) -> None:
        """Write bytes, or keep those that the system doesn't take yet; they are lost if the connection has gone."""
        if self._flow is None:
            self._write(data)
        else:
            self._flow.send(len(data), partial(self._write, bytes(data)))

    def _write(self, data: bytes) -> None:
        """Write bytes, now that they get to the peer."""
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
            # the caller of `write` does not expect to lose the connection during the call
            self._loop.call_soon(self._hear, 0, self.lose)
            return
        if sent < len(data):
            self._backlog = bytearray(data[sent:])
            self._want(self._events | EPOLLOUT)

    def _flush(self) -> None:
        if self._socket is None or self._backlog is None:
            return
        try:
            del self._backlog[: self._socket.send(self._backlog)]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._hear(0, self.lose)
            return
        if not self._backlog:
            self._backlog = None
            self._want(self._events & ~EPOLLOUT)

    def unwritten(self) -> int:
        """Return how many bytes wait to be written."""
        return len(self._backlog or b"") + (self._flow.outgoing.size if self._flow is not None else 0)

    def pause_reading(self) -> None:
        """Read nothing until `resume_reading`."""
        self._want(self._events & ~EPOLLIN)
        if self._flow is not None:
            self._flow.incoming.hold()

    def resume_reading(self) -> None:
        """Read again."""
        self._want(self._events | EPOLLIN)
        if self._flow is not None:
            self._flow.incoming.release()

    def abort(self, *, linger: bytes | None = None) -> None:
        """Close without another word to the reader; `linger` is a value for SO_LINGER.

        Over a simulated network the master hears of that when it has all that was written before.
        """
        if self._left:
            return
        self._left = True
        if self._flow is None or self._socket is None:
            self._close(linger)
        else:
            self._want(self._events & EPOLLOUT)
            self._flow.send(0, partial(self._close, linger))

    def _close(self, linger: bytes | None) -> None:
        if self._socket is None:
            return
        self._want(0)
        if linger is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._socket.close()
        self._socket = self._backlog = None

    def lose(self) -> None:
        """Close because of the peer, the system or the reader's own failure, and tell the reader, unless it knows."""
        if self._left or (self._made and self._socket is None):
            return
        self._left = True
        self._close(None)
        self._made = True
        self._reader.connection_lost()

    def _want(self, events: int) -> None:
        """Wait for these events; without any the socket leaves the poller, as epoll would report its end anyway."""
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
