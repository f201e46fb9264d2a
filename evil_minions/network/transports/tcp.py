"""The transport tcp: streams of msgpack frames, requests with an id each, subscribers that introduce themselves.

Unlike with zeromq a timeout leaves the connection alone, and a reply that comes too late is thrown away by its id. The
master publishes to those alone whose introduction it has understood. A minion whose subscription breaks signs in anew
and starts anew: a master that restarts hears of the whole fleet within a second.
Source: salt/transport/tcp.py, AsyncPubChannel in salt/channel/client.py, and the events of lost and regained masters in
salt/minion.py of Salt 3008.5.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from evil_minions.errors import WireError
from evil_minions.network import channel, subscription
from evil_minions.network.wire import Wire
from evil_minions.protocol import frames as stream

if TYPE_CHECKING:
    from evil_minions.network.subscription import Subscriber
    from evil_minions.network.wire import Endpoint, WireOwner
    from evil_minions.rng import RandomSource

# tcp_reconnect_backoff and tcp_authentication_retries of a minion
RECONNECT_BACKOFF: Final = 1.0
_AUTHENTICATION_RETRIES: Final = 5


def pause(*, established: bool) -> float:
    """Return the seconds to the next attempt to connect: none after a usable connection, then always the same."""
    return 0.0 if established else RECONNECT_BACKOFF


def publication(body: bytes) -> bytes:
    """Return the publication in a body: the master packs it twice.

    Raises:
        WireError: if there is none.

    """
    inner = stream.value(body)
    if isinstance(inner, bytes):
        return inner
    if isinstance(inner, dict):
        return body
    raise WireError("A message is no publication.")


class _StreamWire(Wire):
    """A connection of msgpack frames, which needs no handshake."""

    __slots__ = ("_decoder",)

    def __init__(self, endpoint: Endpoint, owner: WireOwner) -> None:
        """Wait for the connection."""
        super().__init__(endpoint, owner)
        self._decoder = stream.Decoder()

    def greet(self) -> None:
        """Begin at once."""
        self.established()

    def received(self, data: memoryview) -> None:
        """Take bytes."""
        for frame in self._decoder.feed(data):
            self.taken(frame)

    def taken(self, frame: stream.Frame) -> None:
        """Take one frame."""
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
        """Take a publication; what is none is dropped, as the frames around it are sound."""
        try:
            message = publication(frame.body)
        except WireError:
            self.drop()
        else:
            self.deliver(message)


class RequestChannel(channel.RequestChannel):
    """A try has its time from the moment on that it is sent; a connection that breaks ends the try at once."""

    __slots__ = ()

    def pause(self, *, established: bool) -> float:
        """Wait as a minion does."""
        return pause(established=established)

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


class Subscription(subscription.Subscription):
    """A connection that begins with an introduction; after a break the minion signs in and starts again."""

    __slots__ = ("_known", "_retries")

    def __init__(self, endpoint: Endpoint, rng: RandomSource, subscriber: Subscriber) -> None:
        """Stay idle until `open`."""
        super().__init__(endpoint, rng, subscriber)
        self._known = False
        self._retries = 0

    def pause(self, *, established: bool) -> float:
        """Wait as a minion does."""
        return pause(established=established)

    def on_linked(self) -> None:
        """Introduce the minion; at a return it signs in before, as the master may be another by now."""
        if self._known:
            self._retries = _AUTHENTICATION_RETRIES
            self.subscriber.reauthenticate(self._signed_in)
        else:
            self._known = True
            self.transmit(self.subscriber.introduction())

    def _signed_in(self, success: bool) -> None:  # noqa: FBT001 - a callback's only argument
        """Introduce the minion with its new keys, unless the connection has gone meanwhile."""
        if not self.linked:
            return
        if not success and self._retries:
            self._retries -= 1
            self.subscriber.reauthenticate(self._signed_in)
            return
        self.transmit(self.subscriber.introduction())
        if success:
            self.subscriber.on_return()
