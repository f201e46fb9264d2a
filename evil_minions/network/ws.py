"""The transport ws: WebSockets, and a connection of its own for each request.

A minion's client waits for an answer as long as its connection lasts, whatever time the minion gives a request; each
try opens another connection, and the one before goes then. What isn't simulated is what a minion of 3008.5 does when
its subscription breaks: it reads the closed socket for ever, with all of a core, and hears nothing again. Here it comes
back after the second that its code means to wait.
Source: salt/transport/ws.py of Salt 3008.5; see `evil_minions.protocol.websocket` for the protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from wsproto.events import AcceptConnection, CloseConnection, Ping, TextMessage

from evil_minions.network import link, tcp
from evil_minions.network.wire import Wire
from evil_minions.protocol import websocket

if TYPE_CHECKING:
    from wsproto.events import Event

    from evil_minions.network.wire import Endpoint, WireOwner

# the text by which Salt's own client asks for the end
_CLOSE_TEXT = "close"


class _WebSocketWire(Wire):
    """A connection that speaks WebSocket: handshake, answers to pings, messages."""

    __slots__ = ("_client",)

    path: ClassVar[str]
    keepalive = False

    def __init__(self, endpoint: Endpoint, owner: WireOwner) -> None:
        super().__init__(endpoint, owner)
        self._client = websocket.Client()

    def greet(self) -> None:
        self.write(self._client.upgrade(*self.endpoint.address, self.path))

    def send(self, message: bytes) -> None:
        if self._connection is not None:
            self.write(self._client.frame(message))

    def received(self, data: memoryview) -> None:
        for event in self._client.feed(data):
            if self._connection is None:
                # what stands behind a close is nobody's any more
                return
            if isinstance(event, bytes):
                self.taken(event)
            else:
                self._control(event)

    def taken(self, message: bytes) -> None:
        self.deliver(message)

    def _control(self, event: Event) -> None:
        match event:
            case AcceptConnection():
                self.established()
            case Ping():
                self.answer(self._client.frame(event.response()))
            case CloseConnection():
                self.write(self._client.frame(event.response()))
                self.fail()
            case TextMessage(data=text):
                if text == _CLOSE_TEXT:
                    self.write(self._client.frame(CloseConnection(code=1000)))
                    self.fail()
                else:
                    self.drop()


class RequestWire(_WebSocketWire):
    """A connection to the request port."""

    __slots__ = ()

    path = "/"


class PublishWire(_WebSocketWire):
    """A connection to the publish port."""

    __slots__ = ()

    path = "/ws"

    def taken(self, message: bytes) -> None:
        """Take a publication."""
        tcp.take_publication(self, message)


class RequestChannel(link.RequestChannel):
    """A try has no end but an answer or the end of its connection, which is new for each.

    Between requests the connection of the last one stays, as a real minion's does; if it breaks another one is opened,
    where a real minion would wait for the next request.
    """

    __slots__ = ()

    def dispatch(self, message: bytes) -> None:
        """Send one try over a connection of its own."""
        self.hang_up(reset=False)
        self.put(message)

    def on_unlinked(self, *, established: bool) -> None:  # noqa: ARG002 - either way the answer can't come
        """Try again at once what waits for a connection or an answer."""
        if self.under_way:
            self.fail_try()


class Subscription(link.Subscription):
    """A connection of which the master knows nothing: it publishes to all."""

    __slots__ = ()
