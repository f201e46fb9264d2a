"""The subscription of one minion: its own connection to the publish port.

Each minion has one because a shared subscription would hide what a publication costs the master. Each transport has a
subscription of its own, see `evil_minions.network.transports`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from evil_minions.network.link import Link

if TYPE_CHECKING:
    from collections.abc import Callable

    from evil_minions.network.wire import Endpoint
    from evil_minions.rng import RandomSource


# tcp_authentication_retries of a minion
_AUTHENTICATION_RETRIES: Final = 5


class Subscriber(Protocol):
    """The minion behind a subscription."""

    id: str

    def on_publication(self, frame: bytes) -> None:
        """Handle one publication, as it came."""

    def introduction(self) -> bytes:
        """Return the message that tells the publish port who listens, for transports that ask."""

    def reauthenticate(self, then: Callable[[bool], None]) -> None:
        """Sign in again, then call `then` with whether that went well."""

    def on_return(self) -> None:
        """Handle the return of the subscription, after the minion has signed in again."""


class Subscription(Link):
    """A connection over which publications come; the base of each transport's own."""

    __slots__ = ("subscriber",)

    def __init__(self, endpoint: Endpoint, rng: RandomSource, subscriber: Subscriber) -> None:
        """Stay idle until `open`."""
        super().__init__(endpoint, rng)
        self.subscriber = subscriber

    def wire_message(self, message: bytes) -> None:
        """Pass the publication on."""
        self.subscriber.on_publication(message)


class SigningSubscription(Subscription):
    """A subscription of a minion that signs in and starts again after a break, as the master may be another by now."""

    __slots__ = ("_known", "_retries")

    def __init__(self, endpoint: Endpoint, rng: RandomSource, subscriber: Subscriber) -> None:
        """Stay idle until `open`."""
        super().__init__(endpoint, rng, subscriber)
        self._known = False
        self._retries = 0

    def introduce(self) -> None:
        """Tell the publish port who listens, if it asks."""

    def on_linked(self) -> None:
        """Introduce the minion; at a return it signs in before."""
        if self._known:
            self._retries = _AUTHENTICATION_RETRIES
            self.subscriber.reauthenticate(self._signed_in)
        else:
            self._known = True
            self.introduce()

    def _signed_in(self, success: bool) -> None:  # noqa: FBT001 - a callback's only argument
        """Introduce the minion with its new keys, unless the connection has gone meanwhile."""
        if not self.linked:
            return
        if not success and self._retries:
            self._retries -= 1
            self.subscriber.reauthenticate(self._signed_in)
            return
        self.introduce()
        if success:
            self.subscriber.on_return()
