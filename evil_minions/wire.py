"""One TCP connection to the master, on asyncio: what the wires of every transport have in common.

A link asks an endpoint to `open` a wire and hears of it through `WireOwner`. What goes either way are whole messages,
the payloads of Salt; how a transport frames them is known to its own kind of wire alone, see `evil_minions.transports`.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import TYPE_CHECKING, Final, Protocol

from evil_minions.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from evil_minions.counters import Counters

HANDSHAKE_SECONDS: Final = 30.0
_BUFFER_SIZE: Final = 64 * 1024
# what may wait to be read by a peer that asks for answers of the connection itself
_MAX_UNREAD: Final = 64 * 1024
_ABORTIVE: Final = struct.pack("ii", 1, 0)


class WireOwner(Protocol):
    """What a wire tells its owner; never anything after `Wire.close`."""

    def wire_ready(self, wire: Wire) -> None:
        """Hear that messages may be sent."""

    def wire_message(self, message: bytes) -> None:
        """Hear one message."""

    def wire_lost(self, wire: Wire) -> None:
        """Hear that the connection has gone, or never was."""


class Endpoint:
    """One port of the master as seen by all minions of a worker: address, kind of wire and a shared read buffer.

    The buffer is shared because every read is taken apart before the next one starts; a buffer for each connection
    would cost more than the minion.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, address: tuple[str, int], kind: type[Wire], counters: Counters
    ) -> None:
        """Describe the port; nothing is opened yet. `address` is an IP address and a port."""
        self.loop = loop
        self.address = address
        self.kind = kind
        self.counters = counters
        self.buffer = memoryview(bytearray(_BUFFER_SIZE))
        # the bytes of the last publication and the message in them, which reach every minion alike
        self.heard = b"", b""
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self, owner: WireOwner) -> Wire:
        """Start to connect, and return the wire at once; the owner hears how it goes."""
        wire = self.kind(self, owner)
        self._spawn(self._connect(wire))
        return wire

    def _spawn(self, coroutine: Coroutine[None, None, None]) -> None:
        """Run a coroutine and keep it alive: the loop itself holds tasks weakly."""
        task = self.loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, wire: Wire) -> None:
        """Open the TCP connection of `wire`."""
        host, port = self.address
        try:
            await self.loop.create_connection(lambda: wire, host, port)
        except OSError:
            wire.connection_lost(None)


class Wire(asyncio.BufferedProtocol):
    """The protocol of one connection; a transport's kind of wire adds its handshake and its frames.

    `greet` begins the handshake and `received` takes bytes; they end it with `established`, then pass each message on
    with `deliver`. `send` frames a message. A WireError out of `received` ends the connection.
    """

    __slots__ = ("_deadline", "_owner", "_transport", "endpoint")

    def __init__(self, endpoint: Endpoint, owner: WireOwner) -> None:
        """Wait for the connection."""
        self.endpoint = endpoint
        self._owner: WireOwner | None = owner
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None

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

    def write(self, data: bytes) -> None:
        """Write bytes as they are."""
        if self._transport is not None:
            self._transport.write(data)

    def answer(self, data: bytes) -> None:
        """Write what the connection itself owes the peer, unless the peer asks and asks without reading the answers."""
        if self._transport is not None and self._transport.get_write_buffer_size() < _MAX_UNREAD:
            self._transport.write(data)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet, or hang up if nobody wants the connection any longer."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - what asyncio promises, for the type checker
        if self._owner is None:
            transport.abort()
            return
        self._transport = transport
        self._deadline = self.endpoint.loop.call_later(HANDSHAKE_SECONDS, self.fail)
        self.greet()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Lend the shared buffer."""
        return self.endpoint.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Take what has arrived apart."""
        try:
            self.received(self.endpoint.buffer[:nbytes])
        except WireError:
            self.drop()
            self.fail()

    def pause(self) -> None:
        """Hear nothing until `resume`: what arrives stays with the system."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume(self) -> bool:
        """Hear again; return whether the connection is still there."""
        if self._transport is not None:
            self._transport.resume_reading()
        return self._transport is not None

    def close(self, *, reset: bool = False) -> None:
        """Hang up; the owner hears no more. `reset` leaves no TIME_WAIT behind, for connections that come and go."""
        self._owner = None
        self._stop_deadline()
        if self._transport is not None:
            if reset:
                sock = self._transport.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORTIVE)
            self._transport.abort()
            self._transport = None

    def _stop_deadline(self) -> None:
        """Cancel the deadline of the handshake."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def fail(self) -> None:
        """Hang up because of the peer, and tell the owner."""
        owner = self._owner
        self.close()
        if owner is not None:
            owner.wire_lost(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Tell the owner that the peer hung up."""
        self._transport = None
        self.fail()
