"""The client side of a WebSocket without extensions, as bytes in and events out: wsproto, and a bound on a message.

No input or output happens here. Not aiohttp, which Salt uses, because a connection of aiohttp costs 9 KB, 12 KB with a
session of its own, and one of these 2 KB.
Source: RFC 6455.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, RejectConnection, Request
from wsproto.utilities import ProtocolError

from evil_minions.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsproto.connection import Connection
    from wsproto.events import Event

MAX_MESSAGE: Final = 64 * 1024 * 1024


class Client:
    """One connection.

    `limit` bounds a whole message in bytes, so that a peer can't make the process grow.
    """

    __slots__ = ("_connection", "_message", "limit")

    def __init__(self, limit: int = MAX_MESSAGE) -> None:
        """Start before the handshake."""
        self.limit = limit
        self._connection: WSConnection | Connection = WSConnection(ConnectionType.CLIENT)
        self._message = bytearray()

    def upgrade(self, host: str, port: int, path: str) -> bytes:
        """Return the request that begins the handshake."""
        return self._connection.send(Request(host=f"{host}:{port}", target=path))

    def frame(self, event: bytes | Event) -> bytes:
        """Return the bytes of one whole message or control frame."""
        return self._connection.send(BytesMessage(event) if isinstance(event, bytes) else event)

    def feed(self, data: bytes | memoryview) -> list[bytes | Event]:
        """Return what `data` completes, in order: whole binary messages, and any other event as it is.

        Raises:
            WireError: if the bytes aren't WebSocket, or a message is too long; nothing may be fed afterwards.
        """
        try:
            self._connection.receive_data(bytes(data))
            return [taken for event in self._connection.events() for taken in self._take(event)]
        except (ProtocolError, ValueError) as error:
            raise WireError(f"The peer doesn't speak WebSocket: {error}") from error

    def _take(self, event: Event) -> Iterator[bytes | Event]:
        """Yield what one event completes."""
        if isinstance(event, BytesMessage):
            self._message += event.data
            if len(self._message) > self.limit:
                raise WireError(f"A message has more than {self.limit} bytes.")
            if event.message_finished:
                yield bytes(self._message)
                self._message.clear()
            return
        if isinstance(event, RejectConnection):
            raise WireError("The peer doesn't want to speak WebSocket.")
        if isinstance(event, CloseConnection) and self._connection.state is ConnectionState.OPEN:
            # not the peer's words, but wsproto's on bytes that make no sense
            raise WireError(f"The peer doesn't speak WebSocket: {event.reason}")
        if isinstance(event, AcceptConnection) and isinstance(self._connection, WSConnection):
            # what only the handshake needed goes
            self._connection = self._connection.connection or self._connection
        yield event
