"""Waits for many connections at once, beside the event loop.

asyncio spends more on each event than a minion does on handling it: keys, handles, contexts, a transport of 1.5 KB.
So connections have an epoll of their own here, and the loop waits for that as for one descriptor.
"""

from __future__ import annotations

import select
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio


class Polled(Protocol):
    """What is waited for."""

    def handle(self, events: int) -> None:
        """Handle what has happened, given as the bits of epoll."""

    def lose(self) -> None:
        """End, as `handle` has failed."""


class Poller:
    """The connections of one endpoint, by their descriptors."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait for nothing yet: a descriptor is only taken when there is something to wait for."""
        self._loop = loop
        self._epoll: select.epoll | None = None
        self._polled: dict[int, Polled] = {}

    def add(self, descriptor: int, polled: Polled, events: int) -> None:
        """Wait for events of a descriptor.

        Raises:
            OSError: if the system has no room for that.

        """
        if self._epoll is None:
            self._epoll = select.epoll()
            self._loop.add_reader(self._epoll.fileno(), self._poll)
        self._epoll.register(descriptor, events)
        self._polled[descriptor] = polled

    def change(self, descriptor: int, events: int) -> None:
        """Wait for other events of a descriptor."""
        if self._epoll is not None:
            self._epoll.modify(descriptor, events)

    def remove(self, descriptor: int) -> None:
        """Wait for a descriptor no longer."""
        if self._polled.pop(descriptor, None) is not None and self._epoll is not None:
            self._epoll.unregister(descriptor)

    def _poll(self) -> None:
        """Have every connection on which something has happened hear of it."""
        if self._epoll is None:
            return
        polled = self._polled
        for descriptor, events in self._epoll.poll(0):
            found = polled.get(descriptor)
            # one that went before may have closed it
            if found is not None:
                try:
                    found.handle(events)
                except Exception as error:  # noqa: BLE001 - one connection must not silence the others
                    self._loop.call_exception_handler({"message": "A connection failed.", "exception": error})
                    found.lose()
