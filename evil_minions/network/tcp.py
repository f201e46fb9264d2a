"""The transport tcp: streams of msgpack frames, requests with an id each, subscribers that introduce themselves.

Unlike with zeromq a timeout leaves the connection alone, and a reply that comes too late is thrown away by its id. The
master publishes to those alone whose introduction it has understood. A minion whose subscription breaks signs in anew
and starts anew: a master that restarts hears of the whole fleet within a second.
Source: salt/transport/tcp.py, AsyncPubChannel in salt/channel/client.py, and the events of lost and regained masters in
salt/minion.py of Salt 3008.5.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from evil_minions.errors import WireError
from evil_minions.network import link
from evil_minions.network.wire import Wire
from evil_minions.protocol import frames as stream

if TYPE_CHECKING:
    from evil_minions.network.wire import Endpoint, WireOwner


def take_publication(wire: Wire, body: bytes) -> None:
    """Deliver the publication in a body, which the master packs twice; what is none is dropped."""
    try:
        inner = stream.value(body)
    except WireError:
        inner = None
    if isinstance(inner, bytes):
        wire.deliver(inner)
    elif isinstance(inner, dict):
        wire.deliver(body)
    else:
        # the frames around it are sound
        wire.drop()


class _StreamWire(Wire):
    """A connection of msgpack frames, which needs no handshake."""

    __slots__ = ("_decoder",)

    def __init__(self, endpoint: Endpoint, owner: WireOwner) -> None:
        super().__init__(endpoint, owner)
        self._decoder = stream.Decoder()

    def greet(self) -> None:
        self.established()

    def received(self, data: memoryview) -> None:
        for frame in self._decoder.feed(data):
            self.taken(frame)

    def taken(self, frame: stream.Frame) -> None:
        raise NotImplementedError


class RequestWire(_StreamWire):
    """A connection to the request port; an answer to anything but the latest request is dropped."""

    __slots__ = ("_mid",)

    def __init__(self, endpoint: Endpoint, owner: WireOwner) -> None:
        """Wait for the connection."""
        super().__init__(endpoint, owner)
        self._mid = b""

    def send(self, message: bytes) -> None:
        """Send a request."""
        mid = str(uuid.uuid4())
        self._mid = mid.encode()
        self.write(stream.frame(message, {"mid": mid}))

    def taken(self, frame: stream.Frame) -> None:
        """Take an answer."""
        if not self._mid or frame.mid != self._mid:
            self.drop()
            return
        self._mid = b""
        self.deliver(frame.body)


class PublishWire(_StreamWire):
    """A connection to the publish port."""

    __slots__ = ()

    def send(self, message: bytes) -> None:
        """Send an introduction."""
        self.write(stream.frame(message, {}))

    def taken(self, frame: stream.Frame) -> None:
        """Take a publication."""
        take_publication(self, frame.body)


class RequestChannel(link.RequestChannel):
    """A try has its time from the moment on that it is sent; a connection that breaks ends the try at once."""

    __slots__ = ()

    def dispatch(self, message: bytes) -> None:
        """Send one try."""
        self.put(message)
        if self.linked:
            self.start_timer()

    def on_linked(self) -> None:
        """Send what waited for the connection, and give it its time."""
        super().on_linked()
        if self.in_flight:
            self.start_timer()

    def on_unlinked(self, *, established: bool) -> None:  # noqa: ARG002 - what is in flight was sent over a usable one
        """Try again what was in flight."""
        if self.in_flight:
            self.fail_try()


class Subscription(link.SigningSubscription):
    """A connection that begins with an introduction."""

    __slots__ = ()

    def introduce(self) -> None:
        """Say who listens."""
        self.transmit(self.owner.introduction())
