"""What the wires of every transport have in common: a connection to the master, its handshake and its end.

A link asks an endpoint to `open` a wire and hears of it through `WireOwner`. Whole messages, the payloads of Salt, go
either way. How a transport frames them only its own kind of wire knows, see `evil_minions.network.ports`.
"""

from __future__ import annotations

import copy
import random
import struct
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from evil_minions.errors import WireError
from evil_minions.network.connection import Connection, Poller, Timeouts

if TYPE_CHECKING:
    import asyncio

    from evil_minions.network.path import NetworkPath
    from evil_minions.samples import Counters

HANDSHAKE_SECONDS: Final = 30.0
_BUFFER_SIZE: Final = 64 * 1024
# most bytes of the protocol's own answers, such as pongs, that may wait for a peer that does not read them
_MAX_UNREAD: Final = 64 * 1024
_ABORTIVE: Final = struct.pack("ii", 1, 0)


class WireOwner(Protocol):
    """What a wire tells its owner; never anything after `Wire.close`."""

    def wire_ready(self, wire: Wire) -> None:
        """Handle the end of the handshake: messages may be sent."""

    def wire_message(self, message: bytes) -> None:
        """Handle one message."""

    def wire_lost(self, wire: Wire) -> None:
        """Handle the loss of the connection, or that there never was one."""


class Endpoint:
    """One port of the master as seen by all minions of a worker: address, kind of wire and a shared read buffer.

    The buffer is shared because every read is taken apart before the next one starts; a buffer for each connection
    would cost more than the minion.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        address: tuple[str, int],
        kind: type[Wire],
        counters: Counters,
        path: NetworkPath | None = None,
    ) -> None:
        """Describe the port; nothing is opened yet. `address` is an IP address and a port, `path` a network to it."""
        self.path = path
        self.base: Endpoint = self
        # a network draws random numbers of its own: what it does must not change what minions draw
        self.rng = random.Random(address[1])  # noqa: S311 - no secret
        self.loop = loop
        self.address = address
        self.kind = kind
        self.counters = counters
        self.buffer = memoryview(bytearray(_BUFFER_SIZE))
        # the bytes of the last publication and the message in them, which reach every minion alike
        self.heard = b"", b""
        self.timeouts = Timeouts(loop)
        self._poller = Poller(loop)

    def over(self, path: NetworkPath) -> Endpoint:
        """Return the port as it is seen over a network."""
        side = copy.copy(self)
        side.path = path
        return side

    def open(self, owner: WireOwner) -> Wire:
        """Start to connect, and return the wire at once; the owner is told of the outcome."""
        wire = self.kind(self, owner)
        self._connect(wire)
        return wire

    def _connect(self, wire: Wire) -> None:
        """Open the TCP connection of `wire`, as soon as whoever wants it knows the wire."""
        connection = Connection(self.loop, self._poller, self.buffer, wire)
        connection.keepalive = self.kind.keepalive
        connection.reroute(self.path, self.rng)
        self.loop.call_soon(connection.connect, self.address)


class Wire:
    """The protocol of one connection; a transport's kind of wire adds its handshake and its frames.

    `greet` begins the handshake and `received` takes bytes; they end it with `established`, then pass each message on
    with `deliver`. `send` frames a message. A WireError out of `received` ends the connection.
    """

    __slots__ = ("_connection", "_deadline", "_owner", "endpoint")

    # whether a minion's sockets of this kind have the keepalive that its options ask for
    keepalive: ClassVar[bool] = True

    def __init__(self, endpoint: Endpoint, owner: WireOwner) -> None:
        """Wait for the connection."""
        self.endpoint = endpoint
        self._connection: Connection | None = None
        self._owner: WireOwner | None = owner
        self._deadline: asyncio.TimerHandle | None = None

    def write(self, data: bytes) -> None:
        """Write bytes as they are."""
        if self._connection is not None:
            self._connection.write(data)

    def answer(self, data: bytes) -> None:
        """Write an answer of the protocol itself, such as a pong, unless the peer leaves too many unread."""
        if self._connection is not None and self._connection.unwritten() < _MAX_UNREAD:
            self._connection.write(data)

    def reroute(self, endpoint: Endpoint) -> None:
        """Go on over the network of another endpoint of the same port."""
        self.endpoint = endpoint
        if self._connection is not None and self._connection.path is not endpoint.path:
            self._connection.reroute(endpoint.path, endpoint.rng)

    def pause(self) -> None:
        """Read nothing until `resume`: what arrives stays in the system's buffer."""
        if self._connection is not None:
            self._connection.pause_reading()

    def resume(self) -> bool:
        """Read again; return whether the connection is still there."""
        if self._connection is not None:
            self._connection.resume_reading()
        return self._connection is not None

    def greet(self) -> None:
        """Begin the handshake."""
        raise NotImplementedError

    def received(self, data: memoryview) -> None:
        """Take bytes; `data` is of no use any more when this returns.

        Raises:
            WireError: if they make no sense.
        """
        raise NotImplementedError

    def send(self, message: bytes) -> None:
        """Frame and write a message; it is lost if the connection has gone, as with any network."""
        raise NotImplementedError

    @property
    def pending(self) -> bool:
        """Whether the handshake is still under way."""
        return self._deadline is not None

    def established(self) -> None:
        """End the handshake, and tell the owner."""
        self._stop_deadline()
        if self._owner is not None:
            self._owner.wire_ready(self)

    def deliver(self, message: bytes) -> None:
        """Pass one message on."""
        if self._owner is not None:
            self._owner.wire_message(message)

    def drop(self) -> None:
        """Count a message that is of no use; the connection stays."""
        self.endpoint.counters.bad_frames += 1

    def connection_made(self, connection: Connection) -> None:
        """Greet, or hang up if nobody wants the connection any longer."""
        if self._owner is None:
            connection.abort()
            return
        self._connection = connection
        self.reroute(self.endpoint)
        self._deadline = self.endpoint.loop.call_later(HANDSHAKE_SECONDS, self.fail)
        self.greet()

    def received_bytes(self, count: int) -> None:
        """Take what is in the shared buffer apart."""
        try:
            self.received(self.endpoint.buffer[:count])
        except WireError:
            self.drop()
            self.fail()

    def close(self, *, reset: bool = False) -> None:
        """Hang up; the owner hears no more. `reset` leaves no TIME_WAIT behind, for connections that come and go."""
        self._owner = None
        self._stop_deadline()
        if self._connection is not None:
            self._connection.abort(linger=_ABORTIVE if reset else None)
            self._connection = None

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def fail(self) -> None:
        """Hang up because of the peer, and tell the owner."""
        owner = self._owner
        self.close()
        if owner is not None:
            owner.wire_lost(self)

    def connection_lost(self) -> None:
        """Tell the owner that the peer hung up."""
        self._connection = None
        self.fail()
