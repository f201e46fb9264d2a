"""The transport zeromq: REQ and SUB sockets of ZMTP, and a connection that each timeout throws away.

That a timeout throws the connection away is what turns an overloaded master into a collapsed one: the reply that was on
its way is lost, and the same work comes again. So it is reproduced exactly here.
Source: salt/transport/zeromq.py of Salt 3008.5; see `evil_minions.protocol.zmtp` for the protocol.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, ClassVar, Final

from evil_minions.errors import WireError
from evil_minions.network import link
from evil_minions.network.link import Backoff
from evil_minions.network.wire import Wire
from evil_minions.protocol import zmtp

if TYPE_CHECKING:
    from evil_minions.network.wire import Endpoint, WireOwner

_PREFIX_SIZE: Final = len(zmtp.HEARTBEAT)
_HEARTBEAT_SIZE: Final = _PREFIX_SIZE + 2
# what a REQ socket of a minion does
_REQUEST_BACKOFF: Final = Backoff(first=0.1, ceiling=5.0)
# recon_default and recon_max of a minion, in seconds
_RECONNECT_FIRST: Final = 1.0
_RECONNECT_MAX: Final = 10.0


class _ZmtpWire(Wire):
    """A connection that speaks ZMTP: handshake, heartbeat answers, messages."""

    __slots__ = ("_decoder",)

    socket_type: ClassVar[bytes]
    peers: ClassVar[tuple[bytes, ...]]

    def __init__(self, endpoint: Endpoint, owner: WireOwner) -> None:
        super().__init__(endpoint, owner)
        self._decoder = zmtp.Decoder()

    def greet(self) -> None:
        self.write(zmtp.GREETING)

    def received(self, data: memoryview) -> None:
        """Take bytes; the heartbeat, most of what comes to an idle fleet, has a short cut."""
        if (
            len(data) == _HEARTBEAT_SIZE
            and not self.pending
            and not self._decoder.busy
            and bytes(data[:_PREFIX_SIZE]) == zmtp.HEARTBEAT
        ):
            self.answer(zmtp.HEARTBEAT_ANSWER)
            return
        self.take(self._decoder.feed(data))

    def take(self, events: list[zmtp.Event]) -> None:
        """Act on what came.

        Raises:
            WireError: if it has no place here.
        """
        for event in events:
            if isinstance(event, list):
                if self.pending:
                    raise WireError("A message came before READY.")
                # in front of it stand the delimiter of a reply, or the topic of a publication
                self.deliver(event[-1])
            elif isinstance(event, zmtp.Greeting):
                self.write(zmtp.ready(self.socket_type))
            else:
                self._control(event)

    def _control(self, command: zmtp.Command) -> None:
        if self.pending:
            self._handshake(command)
        elif command.name == b"PING":
            self.answer(zmtp.pong(command.body))
        elif command.name in (b"READY", b"ERROR"):
            raise WireError(f"A {command.name.decode()} came after the handshake.")

    def _handshake(self, command: zmtp.Command) -> None:
        if command.name != b"READY":
            raise WireError("The peer doesn't want this connection.")
        if zmtp.properties(command.body).get(b"socket-type") not in self.peers:
            raise WireError("The peer has the wrong type of socket.")
        self.established()


class RequestWire(_ZmtpWire):
    """A REQ socket."""

    __slots__ = ()

    socket_type = b"REQ"
    peers = (b"ROUTER", b"REP")

    def send(self, message: bytes) -> None:
        """Send a request."""
        self.write(zmtp.request(message))

    def received(self, data: memoryview) -> None:
        """Take bytes; a whole reply, as nearly all are, is not taken apart piece by piece."""
        if len(data) > _HEARTBEAT_SIZE and not self.pending and not self._decoder.busy:
            body = zmtp.reply(bytes(data))
            if body:
                self.deliver(body)
                return
        super().received(data)


class PublishWire(_ZmtpWire):
    """A SUB socket that takes everything, as a minion's does without `zmq_filtering`."""

    __slots__ = ()

    socket_type = b"SUB"
    peers = (b"PUB", b"XPUB")

    def established(self) -> None:
        """Subscribe."""
        self.write(zmtp.subscribe())
        super().established()

    def received(self, data: memoryview) -> None:
        """Take bytes; those of the publication that another minion has just heard are not taken apart again."""
        if len(data) <= _HEARTBEAT_SIZE or self.pending or self._decoder.busy:
            super().received(data)
            return
        raw = bytes(data)
        endpoint = self.endpoint
        if raw == endpoint.heard[0]:
            self.deliver(endpoint.heard[1])
            return
        events = self._decoder.feed(data)
        if len(events) == 1 and isinstance(events[0], list) and not self._decoder.busy:
            endpoint.heard = raw, events[0][-1]
        self.take(events)


class FilteredWire(PublishWire):
    """A SUB socket that takes nothing until it is told what."""

    __slots__ = ()

    def established(self) -> None:
        """Leave it to the owner to subscribe."""
        _ZmtpWire.established(self)

    def send(self, message: bytes) -> None:
        """Subscribe to a topic."""
        self.write(zmtp.subscribe(message))


class RequestChannel(link.RequestChannel):
    """A try has its time from the moment on that it is wanted, connection or not."""

    __slots__ = ()

    def pause(self, *, established: bool) -> float:  # noqa: ARG002 - libzmq makes no difference
        """Wait longer after each failure."""
        return _REQUEST_BACKOFF.delay(self.failures, self.owner.random())

    def dispatch(self, message: bytes) -> None:
        """Send one try."""
        self.start_timer()
        self.put(message)

    def on_timeout(self) -> None:
        """Throw the connection away."""
        self.reconnect()


class Subscription(link.SigningSubscription):
    """A SUB socket whose loss libzmq tells a minion (`zmq_monitor`)."""

    __slots__ = ()

    def pause(self, *, established: bool) -> float:  # noqa: ARG002 - libzmq makes no difference
        """Wait as `recon_default`, `recon_max` and `recon_randomize` of a minion say by default."""
        first = _RECONNECT_FIRST + _RECONNECT_MAX * self.owner.random()
        return Backoff(first, _RECONNECT_MAX).delay(self.failures, self.owner.random())


class FilteredSubscription(Subscription):
    """A SUB socket of a minion with `zmq_filtering`: it takes what is for all, and what is for this minion."""

    __slots__ = ()

    def on_linked(self) -> None:
        """Subscribe, with the hash of the id that the master publishes to."""
        topic = hashlib.sha1(self.owner.id.encode(), usedforsecurity=False).hexdigest()
        self.transmit(zmtp.BROADCAST)
        self.transmit(topic.encode())
        super().on_linked()
