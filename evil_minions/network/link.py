"""A connection that is opened again when it is lost: a minion's side of a socket, above wires that come and go.

How long it stays away, and what is lost with it, is the transport's: see `evil_minions.network.transports`.

Each minion has one because a shared subscription would hide what a publication costs the master. Each transport has a
subscription of its own, see `evil_minions.network.transports`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from evil_minions.network.wire import Endpoint, Wire
    from evil_minions.protocol.keys import MasterKey, MinionKey


@dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds between two attempts to connect: doubled from `first` up to `ceiling`, plus up to `first` at random.

    Source: ZMQ_RECONNECT_IVL and ZMQ_RECONNECT_IVL_MAX of libzmq 4.3.
    """

    first: float
    ceiling: float

    def delay(self, failures: int, chance: float) -> float:
        """Return the wait in seconds after so many failures in a row (at least one); `chance` is from 0 up to 1."""
        doubled: float = self.first * 2.0 ** min(failures - 1, 16)
        return min(doubled, max(self.ceiling, self.first)) + chance * self.first


class Owner(Protocol):
    """The minion behind a link; `index` is its place in its worker, `session` the key of its requests."""

    id: str
    index: int
    key: MinionKey
    session: str

    @property
    def master(self) -> MasterKey:
        """The key of the master."""

    def random(self) -> float:
        """Return a random number from 0 up to 1."""

    def reauthenticate(self, then: Callable[[bool], None]) -> None:
        """Sign in again, then call `then` with whether that went well."""


class Subscriber(Owner, Protocol):
    """The minion behind a subscription."""

    def introduction(self) -> bytes:
        """Return the message that tells the publish port who listens, for transports that ask."""

    def on_publication(self, frame: bytes) -> None:
        """Handle one publication, as it came."""

    def on_return(self) -> None:
        """Handle the return of the subscription, after the minion has signed in again."""


# tcp_reconnect_backoff of a minion
_RECONNECT_BACKOFF: Final = 1.0


class Link:
    """Base of a minion's request channel and its subscription."""

    __slots__ = ("_closed", "_wire", "endpoint", "failures", "linked", "owner")

    def __init__(self, endpoint: Endpoint, owner: Owner) -> None:
        """Stay idle until `open`."""
        self.endpoint = endpoint
        self.owner = owner
        self.linked = False
        self.failures = 0
        self._closed = False
        self._wire: Wire | None = None

    def pause(self, *, established: bool) -> float:
        """Return the seconds until the next attempt to connect.

        `failures` connections in a row have gone by now; `established` says whether the last one had been usable. A
        minion with tcp or ws waits for nothing then, else always for the same.
        """
        return 0.0 if established else _RECONNECT_BACKOFF

    def on_linked(self) -> None:
        """Handle a new connection: messages may be sent."""

    def on_unlinked(self, *, established: bool) -> None:
        """Handle the loss of the connection, or a failed attempt to connect."""

    def open(self) -> None:
        """Start to connect, unless that is under way or done."""
        if self._wire is None and not self._closed:
            self._wire = self.endpoint.open(self)

    def reconnect(self) -> None:
        """Throw the connection away and open another one at once."""
        if self._closed:
            return
        self.endpoint.counters.reconnects += 1
        self.hang_up(reset=False)
        self.open()

    def close(self, *, reset: bool = False) -> None:
        """Hang up for good; `reset` leaves no TIME_WAIT behind."""
        self._closed = True
        self.hang_up(reset=reset)

    def sever(self) -> None:
        """Lose the connection, as when the network fails; whoever wants it back opens it."""
        established = self.linked
        self.endpoint.counters.disconnects += established
        self.hang_up(reset=True)
        self.on_unlinked(established=established)

    def swap(self, endpoint: Endpoint, change: Callable[[Wire | None], Wire | None]) -> None:
        """Go on over another endpoint, with what `change` makes of the wire."""
        self.endpoint = endpoint
        self._wire = change(self._wire)

    def reroute(self, endpoint: Endpoint) -> None:
        """Go on over the network of another endpoint of the same port."""
        self.endpoint = endpoint
        if self._wire is not None:
            self._wire.reroute(endpoint)

    def transmit(self, message: bytes) -> None:
        """Send a message over the wire, if there is one."""
        if self._wire is not None:
            self._wire.send(message)

    def hang_up(self, *, reset: bool) -> None:
        """Close the wire, if any."""
        self.linked = False
        if self._wire is not None:
            self._wire.close(reset=reset)
            self._wire = None

    def wire_ready(self, wire: Wire) -> None:
        """Pass on that the handshake is over."""
        if wire is self._wire:
            self.linked = True
            self.failures = 0
            self.on_linked()

    def wire_message(self, message: bytes) -> None:
        """Handle one message."""
        raise NotImplementedError

    def wire_lost(self, wire: Wire) -> None:
        """Connect again after a while."""
        if wire is not self._wire:
            return
        self._wire = None
        established, self.linked = self.linked, False
        self.endpoint.counters.disconnects += established
        if self._closed:
            return
        self.failures += 1
        self.endpoint.loop.call_later(self.pause(established=established), self.open)
        self.on_unlinked(established=established)


# tcp_authentication_retries of a minion
_AUTHENTICATION_RETRIES: Final = 5


class Subscription(Link):
    """A connection over which publications come; the base of each transport's own."""

    __slots__ = ()

    owner: Subscriber

    def wire_message(self, message: bytes) -> None:
        """Pass the publication on."""
        self.owner.on_publication(message)


class SigningSubscription(Subscription):
    """A subscription of a minion that signs in and starts again after a break, as the master may be another by now."""

    __slots__ = ("_known", "_retries")

    def __init__(self, endpoint: Endpoint, owner: Owner) -> None:
        """Stay idle until `open`."""
        super().__init__(endpoint, owner)
        self._known = False
        self._retries = 0

    def introduce(self) -> None:
        """Tell the publish port who listens, if it asks."""

    def on_linked(self) -> None:
        """Introduce the minion; at a return it signs in before."""
        if self._known:
            self._retries = _AUTHENTICATION_RETRIES
            self.owner.reauthenticate(self._signed_in)
        else:
            self._known = True
            self.introduce()

    def _signed_in(self, success: bool) -> None:  # noqa: FBT001 - a callback's only argument
        """Introduce the minion with its new keys, unless the connection has gone meanwhile."""
        if not self.linked:
            return
        if not success and self._retries:
            self._retries -= 1
            self.owner.reauthenticate(self._signed_in)
            return
        self.introduce()
        if success:
            self.owner.on_return()
