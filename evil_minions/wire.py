"""One TCP connection that speaks ZMTP, on asyncio.

This is the transport's seam: a link only asks an endpoint to `open` a wire and hears of it through `WireOwner`, so that
a TCP or WebSocket transport needs no more than another endpoint.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import TYPE_CHECKING, Final, Protocol

from evil_minions import zmtp
from evil_minions.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from evil_minions.counters import Counters

HANDSHAKE_SECONDS: Final = 30.0
_BUFFER_SIZE: Final = 64 * 1024
_PEERS: Final = {b"REQ": (b"ROUTER", b"REP"), b"SUB": (b"PUB", b"XPUB")}
_PREFIX_SIZE: Final = len(zmtp.HEARTBEAT)
_HEARTBEAT_SIZE: Final = _PREFIX_SIZE + 2
_ABORTIVE: Final = struct.pack("ii", 1, 0)


class WireOwner(Protocol):
    """What a wire tells its owner; never anything after `Wire.close`."""

    def wire_ready(self, wire: Wire) -> None:
        """Hear that messages may be sent."""

    def wire_message(self, parts: list[bytes]) -> None:
        """Hear one message."""

    def wire_lost(self, wire: Wire) -> None:
        """Hear that the connection has gone, or never was."""


class Endpoint:
    """One port of the master as seen by all minions of a worker: address, socket type and a shared read buffer.

    The buffer is shared because every read is taken apart before the next one starts; a buffer for each connection
    would cost more than the minion.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, address: tuple[str, int], socket_type: bytes, counters: Counters
    ) -> None:
        """Describe the port; nothing is opened yet. `address` is an IP address and a port."""
        self.loop = loop
        self.address = address
        self.socket_type = socket_type
        self.peers = _PEERS[socket_type]
        self.counters = counters
        self.buffer = memoryview(bytearray(_BUFFER_SIZE))
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self, owner: WireOwner) -> Wire:
        """Start to connect, and return the wire at once; the owner hears how it goes."""
        wire = Wire(self, owner)
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
    """The protocol of one connection: handshake, heartbeat answers, messages."""

    __slots__ = ("_deadline", "_decoder", "_endpoint", "_owner", "_transport")

    def __init__(self, endpoint: Endpoint, owner: WireOwner) -> None:
        """Wait for the connection."""
        self._endpoint = endpoint
        self._owner: WireOwner | None = owner
        self._decoder = zmtp.Decoder()
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet, or hang up if nobody wants the connection any longer."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - what asyncio promises, for the type checker
        if self._owner is None:
            transport.abort()
            return
        self._transport = transport
        self._deadline = self._endpoint.loop.call_later(HANDSHAKE_SECONDS, self._fail)
        transport.write(zmtp.GREETING)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Lend the shared buffer."""
        return self._endpoint.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Take what has arrived apart; the heartbeat, most of what comes to an idle fleet, has a short cut."""
        if (
            nbytes == _HEARTBEAT_SIZE
            and self._transport is not None
            and self._deadline is None
            and not self._decoder.busy
            and bytes(self._endpoint.buffer[:_PREFIX_SIZE]) == zmtp.HEARTBEAT
        ):
            self._transport.write(zmtp.HEARTBEAT_ANSWER)
            return
        try:
            for event in self._decoder.feed(self._endpoint.buffer[:nbytes]):
                if isinstance(event, list):
                    self._message(event)
                else:
                    self._control(event)
        except WireError:
            self._endpoint.counters.bad_frames += 1
            self._fail()

    def _message(self, parts: list[bytes]) -> None:
        """Pass one message on."""
        if self._deadline is not None:
            raise WireError("A message came before READY.")
        if self._owner is not None:
            self._owner.wire_message(parts)

    def _control(self, event: zmtp.Greeting | zmtp.Command) -> None:
        """Answer a greeting or a command."""
        if self._transport is None:
            return
        if isinstance(event, zmtp.Greeting):
            self._transport.write(zmtp.ready(self._endpoint.socket_type))
        elif self._deadline is not None:
            self._handshake(event)
        elif event.name == b"PING":
            self._transport.write(zmtp.pong(event.body))
        elif event.name in (b"READY", b"ERROR"):
            raise WireError(f"A {event.name.decode()} came after the handshake.")

    def _handshake(self, command: zmtp.Command) -> None:
        """Take the peer's READY."""
        if command.name != b"READY":
            raise WireError("The peer doesn't want this connection.")
        if zmtp.properties(command.body).get(b"socket-type") not in self._endpoint.peers:
            raise WireError("The peer has the wrong type of socket.")
        self._ready()

    def _ready(self) -> None:
        """End the handshake."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if self._owner is not None:
            self._owner.wire_ready(self)

    def send(self, data: bytes) -> None:
        """Write framed bytes; they are lost if the connection has gone, as with any network."""
        if self._transport is not None:
            self._transport.write(data)

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
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if self._transport is not None:
            if reset:
                sock = self._transport.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORTIVE)
            self._transport.abort()
            self._transport = None

    def _fail(self) -> None:
        """Hang up because of the peer, and tell the owner."""
        owner = self._owner
        self.close()
        if owner is not None:
            owner.wire_lost(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Tell the owner that the peer hung up."""
        self._transport = None
        self._fail()
