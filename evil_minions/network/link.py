"""A minion's side of a socket, above wires that come and go: its subscription, and its request channel.

How long a link stays away when it is lost, what is lost with it, when a try of a request has failed, and what becomes
of the connection then, is the transport's: see `evil_minions.network.ports`. Each minion has a subscription of its own
because a shared one would hide what a publication costs the master.

A channel has one request in flight, and a bounded number of tries for each. A request is packed again for every try,
with a new nonce and time, as the real minion does.
Source: salt/channel/client.py of Salt 3008.5, AsyncReqChannel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from evil_minions.errors import CryptoError, NoAnswerError
from evil_minions.protocol import envelope

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from evil_minions.network.connection import Timeout
    from evil_minions.network.wire import Endpoint, Wire
    from evil_minions.protocol.envelope import Load
    from evil_minions.protocol.keys import MasterKey, MinionKey
    from evil_minions.samples import Counters


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


class Request:
    """One request in the clear, and what has become of it.

    `timeout` is the seconds before the next of `tries`; `done` is called once, with the request and its answer, or
    with None if `failed`.
    """

    __slots__ = ("attempts", "done", "failed", "load", "since", "timeout", "tries")

    def __init__(self, load: Load, timeout: float, tries: int, done: Callable[[Any, Any], None]) -> None:
        """Prepare; a channel sends it."""
        self.load = load
        self.timeout = timeout
        self.tries = tries
        self.done = done
        self.attempts = 0
        self.since = 0.0
        self.failed = False

    def count(self, counters: Counters) -> None:
        """Count one send in what only this kind of request has."""

    def pack(self, sender: Owner) -> bytes:  # noqa: ARG002 - other kinds need the sender
        """Return the bytes of one try."""
        return envelope.clear(self.load)

    def unpack(self, sender: Owner, data: bytes) -> Any:  # noqa: ARG002 - the master's answer
        """Return the answer to the latest try.

        Raises:
            CryptoError: if the answer can't be trusted or is for somebody else.
        """
        return envelope.reply(data)


class EncryptedRequest(Request):
    """A request encrypted with the session key: returns, events, the file server."""

    __slots__ = ("_nonce", "_session")

    def pack(self, sender: Owner) -> bytes:
        """Return the bytes of one try; the session key is kept for the answer, as signing in anew may change it."""
        self._nonce = envelope.nonce()
        self._session = sender.session
        return envelope.encrypted(self.load, sender.id, sender.key, self._session, self._nonce)

    def unpack(self, sender: Owner, data: bytes) -> Any:  # noqa: ARG002 - the master's answer
        """Return what the master's function returned."""
        return envelope.decrypted(data, self._session, self._nonce)


class PillarRequest(EncryptedRequest):
    """A request for the pillar, whose answer is for the minion's RSA key and signed by the master."""

    __slots__ = ()

    def unpack(self, sender: Owner, data: bytes) -> Any:
        """Return the pillar."""
        return envelope.decrypted_private(data, sender.key, sender.master, self._nonce)


class AuthRequest(Request):
    """A request to sign in."""

    __slots__ = ()

    def unpack(self, sender: Owner, data: bytes) -> Any:
        """Return the reply, or None for one that makes no sense: an error would only lead to signing in again."""
        try:
            return super().unpack(sender, data)
        except CryptoError:
            return None

    def count(self, counters: Counters) -> None:
        """Count every send."""
        counters.auth_sent += 1


class RequestChannel(Link):
    """The connection of one minion to the request port; the base of each transport's own."""

    __slots__ = ("_current", "_pending", "_queue", "_reauthenticated", "_timer", "_waiting")

    def __init__(self, endpoint: Endpoint, owner: Owner) -> None:
        """Stay idle until `open` or the first request."""
        super().__init__(endpoint, owner)
        self._current: Request | None = None
        # a list: deques start at 600 bytes, and most queues have one request or none
        self._queue: list[Request] | None = None
        self._timer: Timeout | None = None
        self._pending: bytes | None = None
        self._reauthenticated = False
        self._waiting = False

    def dispatch(self, message: bytes) -> None:
        """Send one try of the current request, with `put` and `start_timer`."""
        raise NotImplementedError

    def on_timeout(self) -> None:
        """Handle the timeout of the current try; the next one follows."""

    def submit(self, request: Request) -> None:
        """Send `request` when those before it are done; on a closed channel it fails at once."""
        if self._closed:
            request.failed = True
            request.done(request, None)
        elif self._current is None:
            self._begin(request)
        elif self._queue is None:
            self._queue = [request]
        else:
            self._queue.append(request)

    async def ask(self, kind: type[Request], load: dict[str, Any], timeout: float, tries: int) -> Any:  # noqa: ASYNC109 - the timeout is the protocol's
        """Send a request and return its answer.

        Raises:
            NoAnswerError: if no try was answered.
        """
        future: asyncio.Future[Any] = self.endpoint.loop.create_future()

        def done(request: Request, answer: object) -> None:
            if future.done():
                return
            if request.failed:
                future.set_exception(NoAnswerError(f"No answer to {load.get('cmd')} after {request.attempts} tries."))
            else:
                future.set_result(answer)

        self.submit(kind(load, timeout, tries, done))
        return await future

    def close(self, *, reset: bool = False) -> None:
        """Hang up for good; requests under way have failed."""
        super().close(reset=reset)
        self._end_try()
        abandoned = [request for request in (self._current, *(self._queue or ())) if request is not None]
        self._current = None
        self._queue = None
        for request in abandoned:
            request.failed = True
            request.done(request, None)

    def _begin(self, request: Request) -> None:
        self._current = request
        request.since = self.endpoint.loop.time()
        self._attempt()

    def _attempt(self) -> None:
        if self._current is not None:
            self._current.attempts += 1
            if self._current.attempts > 1:
                self.endpoint.counters.requests_retried += 1
            self._reauthenticated = False
            self._send()

    def _send(self) -> None:
        """Pack the current request and put it on the wire, or keep it until there is one."""
        request = self._current
        if request is None:
            return
        request.count(self.endpoint.counters)
        self._waiting = True
        self.dispatch(request.pack(self.owner))

    @property
    def in_flight(self) -> bool:
        """Whether a try of the current request is on the wire."""
        return self._waiting and self._pending is None

    @property
    def under_way(self) -> bool:
        """Whether a try is on the wire, or waits for one."""
        return self._waiting

    def put(self, message: bytes) -> None:
        """Send a message now, or as soon as there is a connection."""
        if self.linked:
            self.transmit(message)
        else:
            self._pending = message
            self.open()

    def start_timer(self) -> None:
        """Give the current try its time."""
        if self._current is not None:
            self._timer = self.endpoint.timeouts.after(self._current.timeout, self._timed_out)

    def on_linked(self) -> None:
        """Send what waited for the connection."""
        if self._pending is not None:
            self.transmit(self._pending)
            self._pending = None

    def wire_message(self, message: bytes) -> None:
        """Take the answer to the current request."""
        if not self.in_flight or self._current is None:
            self.endpoint.counters.bad_frames += 1
            return
        self._end_try()
        try:
            answer = self._current.unpack(self.owner, message)
        except CryptoError:
            self._refused()
            return
        self._finish(answer)

    def _refused(self) -> None:
        """Sign in again once for each try, then send again; a second refusal fails the try."""
        if self._reauthenticated:
            self._next_try()
            return
        self._reauthenticated = True
        self.owner.reauthenticate(self._signed_in)

    def _signed_in(self, success: bool) -> None:  # noqa: FBT001 - a callback's only argument
        if success:
            self._send()
        else:
            self._next_try()

    def _timed_out(self) -> None:
        """Try again after the time of a try is over."""
        self._end_try()
        self.on_timeout()
        self._next_try()

    def fail_try(self) -> None:
        """Count the current try as failed, and begin with the next one."""
        self._end_try()
        self._next_try()

    def _next_try(self) -> None:
        """Try again, or give up after the last try."""
        request = self._current
        if request is None:
            return
        if request.attempts < request.tries:
            self._attempt()
            return
        request.failed = True
        self.endpoint.counters.requests_given_up += 1
        self._finish(None)

    def _finish(self, answer: object) -> None:
        """Tell who asked, and begin with the next request."""
        request, self._current = self._current, None
        if self._queue:
            self._begin(self._queue.pop(0))
        elif self._queue is not None:
            self._queue = None
        if request is not None:
            request.done(request, answer)

    def _end_try(self) -> None:
        """Wait no longer for an answer to the current try."""
        self._waiting = False
        self._pending = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
