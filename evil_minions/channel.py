"""A request channel: one request in flight, tries after a timeout, a new connection for each of them.

That each timeout throws the connection away is what turns an overloaded master into a collapsed one: the reply that
was on its way is lost, and the same work comes again. So it is done here to the letter.
Source: salt/transport/zeromq.py (RequestClient) and salt/channel/client.py of Salt 3008.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from evil_minions import zmtp
from evil_minions.errors import NoAnswerError, SealError
from evil_minions.link import Backoff, Link
from evil_minions.request import Request, Sender

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from evil_minions.chance import Chance
    from evil_minions.wire import Endpoint

_BACKOFF: Final = Backoff(first=0.1, ceiling=5.0)


class ChannelOwner(Sender, Protocol):
    """The minion behind a channel."""

    def reauthenticate(self, then: Callable[[bool], None]) -> None:
        """Sign in anew, then call `then` with whether that went well."""


class RequestChannel(Link):
    """The connection of one minion to the request port."""

    __slots__ = ("_current", "_pending", "_queue", "_reauthenticated", "_timer", "owner")

    def __init__(self, endpoint: Endpoint, rng: Chance, owner: ChannelOwner) -> None:
        """Stay idle until `open` or the first request."""
        super().__init__(endpoint, rng)
        self.owner = owner
        self._current: Request | None = None
        # a list: deques start at 600 bytes, and most queues have one request or none
        self._queue: list[Request] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._pending: bytes | None = None
        self._reauthenticated = False

    def backoff(self) -> Backoff:
        """Wait as a REQ socket of a minion does."""
        return _BACKOFF

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

    async def ask(self, kind: type[Request], load: dict[str, Any], timeout: float, tries: int) -> Any:  # noqa: ANN401, ASYNC109 - the timeout is the protocol's
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
        self._stop_timer()
        self._pending = None
        abandoned = [request for request in (self._current, *(self._queue or ())) if request is not None]
        self._current = None
        self._queue = None
        for request in abandoned:
            request.failed = True
            request.done(request, None)

    def _begin(self, request: Request) -> None:
        """Make `request` the current one."""
        self._current = request
        request.since = self.endpoint.loop.time()
        self._attempt()

    def _attempt(self) -> None:
        """Send the current request once more."""
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
        self.endpoint.counters.requests_sent += 1
        self._timer = self.endpoint.loop.call_later(request.timeout, self._timed_out)
        data = zmtp.request(request.pack(self.owner))
        if self.linked:
            self.transmit(data)
        else:
            self._pending = data
            self.open()

    def on_linked(self) -> None:
        """Send what waited for the connection."""
        if self._pending is not None:
            self.transmit(self._pending)
            self._pending = None

    def on_message(self, parts: list[bytes]) -> None:
        """Take the answer to the current request."""
        if self._timer is None or self._current is None:
            self.endpoint.counters.bad_frames += 1
            return
        self._stop_timer()
        try:
            answer = self._current.unpack(self.owner, parts[-1])
        except SealError:
            self._refused()
            return
        self.endpoint.counters.requests_acked += 1
        self._finish(answer)

    def _refused(self) -> None:
        """Sign in anew once for each try, then send again; a second refusal costs the try."""
        if self._reauthenticated:
            self._next_try()
            return
        self._reauthenticated = True
        self.owner.reauthenticate(self._signed_in)

    def _signed_in(self, success: bool) -> None:  # noqa: FBT001 - a callback's only argument
        """Go on after signing in."""
        if success:
            self._send()
        else:
            self._next_try()

    def _timed_out(self) -> None:
        """Throw the connection away and try again."""
        self._timer = None
        self._pending = None
        self.reconnect()
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

    def _stop_timer(self) -> None:
        """Cancel the timeout of the current try."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
