"""A network between minions and their master: delay, loss and bandwidth, as TCP lets them be felt.

A path says what a network does to the connections that go over it.
The fleet does it in its own connections: nothing of the machine is changed, and no right is needed.
Source of TCP's times: tcp_input.c and tcp_timer.c of Linux 6.1, RFC 6298 and RFC 5681.

Order is kept, as with TCP: what is delayed delays all that comes after it.
"""

from __future__ import annotations

import math
import shlex
from collections import deque
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from evil_minions.errors import UsageError
from evil_minions.rng import share_of

if TYPE_CHECKING:
    import asyncio
    import random
    from collections.abc import Callable, Mapping


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


_MSS: Final = 1448
# TCP_RTO_MIN: what is added to the round trip before a packet is sent again without a sign of the peer
_SLACK: Final = 0.2
_RTO_MAX: Final = 120.0
_RETRIES: Final = 15
_SYN_RETRIES: Final = 6
# packets behind a lost one that make the peer ask for it
_DUPLICATES: Final = 3
_MOST_MS: Final = 60_000.0
_MOST_LOSS: Final = 0.5
_BITS: Final = 125_000.0

KEYS: Final = ("rtt_ms", "jitter_ms", "loss", "bandwidth_mbit")
"""What a path is given by."""


@dataclass(frozen=True, slots=True)
class NetworkPath:
    """A round trip of `rtt_ms` give or take `jitter_ms`, packets lost with probability `loss`, a limit for each way.

    `bandwidth_mbit` is in Mbit/s, for each connection and direction; 0 is none.
    """

    rtt_ms: float = 0.0
    jitter_ms: float = 0.0
    loss: float = 0.0
    bandwidth_mbit: float = 0.0

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> NetworkPath:
        """Return the path that has these values.

        Raises:
            UsageError: if one of them can't be.
        """
        unknown = sorted(set(values) - set(KEYS))
        if unknown:
            raise UsageError(f"A network has no {unknown[0]!r}: it has {', '.join(KEYS)}.")
        found: dict[str, float] = {}
        for name, value in values.items():
            most = _MOST_LOSS if name == "loss" else math.inf if name == "bandwidth_mbit" else _MOST_MS
            try:
                number = share_of(value) if name == "loss" and isinstance(value, str) else float(value)
            except (TypeError, ValueError):
                number = -1.0
            if isinstance(value, bool) or not 0 <= number <= most:
                bound = "" if math.isinf(most) else f" to {most:g}"
                raise UsageError(f"{name} of a network is {value!r}, but has to be a number from 0{bound}.")
            found[name] = number
        path = cls(**found)
        if path.jitter_ms > path.rtt_ms:
            raise UsageError(f"jitter_ms of a network is {path.jitter_ms:g}, but can't be more than its rtt_ms.")
        return path

    def to_dict(self) -> dict[str, float]:
        """Return the values that `of` takes."""
        return asdict(self)

    def one_way(self, rng: random.Random) -> float:
        """Return the seconds that a packet takes."""
        spread = self.jitter_ms * (2.0 * rng.random() - 1.0) if self.jitter_ms else 0.0
        return (self.rtt_ms + spread) / 2000.0

    def sending(self, size: int) -> float:
        """Return the seconds that so many bytes take to be put on the line."""
        return size / (self.bandwidth_mbit * _BITS) if self.bandwidth_mbit else 0.0

    def stall(self, size: int, rng: random.Random) -> float:
        """Return the seconds that losses cost so many bytes: the repetition of each lost packet, and of repetitions.

        What is followed by enough other packets is asked for by the peer after a round trip; the last ones are sent
        again when the retransmission timer ends, which is doubled each time. What comes later waits for it.
        """
        if not self.loss or not size:
            return 0.0
        packets = -(-size // _MSS)
        step = math.log1p(-self.loss)
        longest = 0.0
        at = int(math.log(1.0 - rng.random()) / step)
        while at < packets:
            timer = self._retransmission()
            wait = self.rtt_ms / 1000.0 if packets - at > _DUPLICATES else timer
            for _ in range(_RETRIES):
                if rng.random() >= self.loss:
                    break
                wait += timer
                timer = min(2.0 * timer, _RTO_MAX)
            longest = max(longest, wait)
            at += 1 + int(math.log(1.0 - rng.random()) / step)
        return longest

    def opening(self, rng: random.Random) -> float:
        """Return the seconds that losses cost the start of a connection: 1, 3, 7 and so on."""
        both = 1.0 - (1.0 - self.loss) ** 2
        waited, timer = 0.0, 1.0
        for _ in range(_SYN_RETRIES):
            if not both or rng.random() >= both:
                break
            waited += timer
            timer *= 2.0
        return waited

    def _retransmission(self) -> float:
        """Return the seconds of the retransmission timer: round trip and four times its variation, at least 200 ms."""
        return (self.rtt_ms + max(1000.0 * _SLACK, 2.0 * self.jitter_ms)) / 1000.0


@dataclass(frozen=True, slots=True)
class Region:
    """A path for a share of the fleet, from 0 to 1, or for those that a target matches."""

    path: NetworkPath
    share: float | None = None
    tgt: str | None = None
    tgt_type: str = "glob"

    @classmethod
    def parse(cls, text: str) -> Region:
        """Return the region that words such as `rtt_ms=80 loss=1% share=30%` stand for, all minions without a share.

        Raises:
            UsageError: if it is something else.
        """
        values: dict[str, str] = {}
        try:
            for word in shlex.split(text):
                name, sign, value = word.partition("=")
                if not sign or name in values:
                    raise UsageError(f"--network {text!r}: {word!r} is not one NAME=VALUE of a network.")
                values[name] = value
            share = share_of(values.pop("share")) if "share" in values else None
        except ValueError as error:
            raise UsageError(f"--network {text!r} can't be read: {error}.") from error
        tgt, kind = values.pop("tgt", None), values.pop("tgt_type", "glob")
        if tgt is not None and share is not None:
            raise UsageError(f"--network {text!r} has a share and a target: leave one out.")
        if not values:
            raise UsageError(f"--network {text!r} says nothing of a network: give {', '.join(KEYS)}.")
        return cls(NetworkPath.of(values), 1.0 if share is None and tgt is None else share, tgt, kind)
