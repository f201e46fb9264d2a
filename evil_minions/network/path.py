"""A network between minions and their master: delay, loss and bandwidth, as TCP lets them be felt.

A path says what a network does to the connections that go over it. The fleet does it in its own connections, see
`evil_minions.network.flow`: nothing of the machine is changed, and no right is needed.
Source of TCP's times: tcp_input.c and tcp_timer.c of Linux 6.1, RFC 6298 and RFC 5681.
"""

from __future__ import annotations

import math
import shlex
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from evil_minions.assignments import share_of
from evil_minions.errors import UsageError

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

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
