"""The subscription of one minion: its own connection to the publish port.

Each minion has one because a shared subscription would hide what a publication costs the master.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from evil_minions import zmtp
from evil_minions.link import Backoff, Link

if TYPE_CHECKING:
    from evil_minions.chance import Chance
    from evil_minions.wire import Endpoint

_RECONNECT_FIRST: Final = 1.0
_RECONNECT_MAX: Final = 10.0


class Subscriber(Protocol):
    """Who hears of publications."""

    def on_publication(self, frame: bytes) -> None:
        """Hear one publication as it came."""


class Subscription(Link):
    """A SUB socket that takes everything, as a minion's does without `zmq_filtering`."""

    __slots__ = ("subscriber",)

    def __init__(self, endpoint: Endpoint, rng: Chance, subscriber: Subscriber) -> None:
        """Stay idle until `open`."""
        super().__init__(endpoint, rng)
        self.subscriber = subscriber

    def backoff(self) -> Backoff:
        """Wait as `recon_default`, `recon_max` and `recon_randomize` of a minion say by default."""
        return Backoff(_RECONNECT_FIRST + _RECONNECT_MAX * self.rng.random(), _RECONNECT_MAX)

    def on_linked(self) -> None:
        """Subscribe."""
        self.transmit(zmtp.SUBSCRIBE_ALL)

    def on_message(self, parts: list[bytes]) -> None:
        """Pass the publication on; with a topic in front it is the last part."""
        self.subscriber.on_publication(parts[-1])
