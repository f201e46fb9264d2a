"""What a network does to the bytes of one connection: each way is a queue in which they wait for their time.

Order is kept, as with TCP: what is delayed delays all that comes after it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    import random
    from collections.abc import Callable

    from evil_minions.network.path import NetworkPath


class Lane:
    """One direction of a connection; `size` is the number of bytes under way."""

    __slots__ = ("_free", "_held", "_last", "_loop", "_queue", "_waiting", "size")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin with nothing under way."""
        self._loop = loop
        self._queue: deque[tuple[float, int, Callable[[], None]]] = deque()
        self._free = 0.0
        self._last = 0.0
        self._held = False
        self._waiting = False
        self.size = 0

    def put(self, path: NetworkPath, rng: random.Random, size: int, deliver: Callable[[], None]) -> None:
        """Call `deliver` when so many bytes, sent now, have come over the path."""
        self._free = max(self._free, self._loop.time()) + path.sending(size)
        # what is sent meanwhile is on its way, but not handed over before what was lost
        self._last = max(self._last, self._free + path.one_way(rng) + path.stall(size, rng))
        self._queue.append((self._last, size, deliver))
        self.size += size
        self._wait()

    def hold(self) -> None:
        """Deliver nothing until `release`, as when the network below is gone."""
        self._held = True

    def release(self) -> None:
        """Deliver what is due by now, and go on."""
        self._held = False
        self._wait()

    def _wait(self) -> None:
        """Wait for the first one, unless somebody does already."""
        if self._queue and not self._waiting and not self._held:
            self._waiting = True
            self._loop.call_later(max(0.0, self._queue[0][0] - self._loop.time()), self._due)

    def _due(self) -> None:
        """Deliver what is due."""
        self._waiting = False
        now = self._loop.time()
        while self._queue and self._queue[0][0] <= now and not self._held:
            _, size, deliver = self._queue.popleft()
            self.size -= size
            deliver()
        self._wait()


class Flow:
    """Both directions of a connection over a path, which may change meanwhile."""

    __slots__ = ("incoming", "outgoing", "path", "rng")

    def __init__(self, loop: asyncio.AbstractEventLoop, path: NetworkPath, rng: random.Random) -> None:
        """Begin with nothing under way."""
        self.path = path
        self.rng = rng
        self.outgoing = Lane(loop)
        self.incoming = Lane(loop)

    def opening(self) -> float:
        """Return the seconds that losses cost the start of the connection."""
        return self.path.opening(self.rng)

    def send(self, size: int, deliver: Callable[[], None]) -> None:
        """Call `deliver` when what is sent now reaches the peer."""
        self.outgoing.put(self.path, self.rng, size, deliver)

    def receive(self, size: int, deliver: Callable[[], None]) -> None:
        """Call `deliver` when what the peer sends now is here."""
        self.incoming.put(self.path, self.rng, size, deliver)
