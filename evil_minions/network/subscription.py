"""The subscription of one minion: its own connection to the publish port.

Each minion has one because a shared subscription would hide what a publication costs the master. Each transport has a
subscription of its own, see `evil_minions.network.transports`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from evil_minions.network.link import Link

if TYPE_CHECKING:
    from collections.abc import Callable

    from evil_minions.network.wire import Endpoint
    from evil_minions.rng import RandomSource


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
