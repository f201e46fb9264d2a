"""Waits for many connections at once, beside the event loop.

asyncio spends more on each event than a minion does on handling it: keys, handles, contexts, a transport of 1.5 KB.
So connections have an epoll of their own here, and the loop waits for that as for one descriptor.
"""

from __future__ import annotations

import select
from collections import deque
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


class Timeout:
    """One of them; `callback` is None once that was called, or cancelled."""

    __slots__ = ("at", "callback")

    def __init__(self, at: float, callback: Callable[[], None]) -> None:
        """Wait for the loop's time `at`."""
        self.at = at
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Never call back."""
        self.callback = None

    def fire(self) -> None:
        """Call back, unless it was cancelled at the last moment."""
        callback, self.callback = self.callback, None
        if callback is not None:
            callback()


class Timeouts:
    """The timeouts of one endpoint."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait for nothing yet."""
        self._loop = loop
        self._queues: dict[float, deque[Timeout]] = {}

    def after(self, seconds: float, callback: Callable[[], None]) -> Timeout:
        """Call back after some seconds; return what cancels that."""
        timeout = Timeout(self._loop.time() + seconds, callback)
        queue = self._queues.get(seconds)
        if queue is None:
            queue = self._queues[seconds] = deque()
            self._loop.call_later(seconds, self._due, seconds)
        queue.append(timeout)
        return timeout

    def _due(self, seconds: float) -> None:
        """Call back those of one length whose time has come, and wait for the next one that isn't cancelled."""
        queue = self._queues[seconds]
        now = self._loop.time()
        while queue and (queue[0].callback is None or queue[0].at <= now):
            self._loop.call_soon(queue.popleft().fire)
        if queue:
            self._loop.call_later(queue[0].at - now, self._due, seconds)
        else:
            del self._queues[seconds]


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
