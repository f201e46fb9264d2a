"""Timers that nearly always are cancelled: one for each try of a request.

A timer of the event loop costs a context, an entry of a heap and comparisons in Python; a cancelled one stays in the
heap. Tries have few different lengths, and those of one length end in the order in which they began: so there is a
queue for each length, and the loop has a timer for the first of each. They fire as exactly as the loop's own.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

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
