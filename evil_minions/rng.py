"""Random numbers that can be repeated.

A random number depends on the seed, on the minion's number and on its purpose, never on the time. Two runs with the
same seed are alike, however fast the master was. One generator serves all minions of a worker, and is set to the right
stream before each use: a generator for each minion would take half of the memory that a minion takes.
"""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

_MASK: Final = (1 << 64) - 1
# SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (2014)
_GAMMA: Final = 0x9E3779B97F4A7C15
_MIX_1: Final = 0xBF58476D1CE4E5B9
_MIX_2: Final = 0x94D049BB133111EB
_UNIT: Final = 2.0**-53
# how far apart the streams of two minions begin: odd, and not a multiple of the generator's own step
_MINION: Final = 0xD1342543DE82EF95


class RandomSource(Protocol):
    """What gives random numbers, such as a minion."""

    def random(self) -> float:
        """Return the next number from 0 up to 1."""


def stream(seed: int, *words: str | int) -> int:
    """Return where the random numbers for a purpose begin: 64 bits, the same for the same words."""
    text = "\0".join(map(str, (seed, *words)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


class SeededRandom(random.Random):
    """A generator that can be set to any stream at the cost of an addition.

    Use it immediately after `at`: the next minion sets it to another stream.
    """

    def __init__(self) -> None:
        """Begin at 0."""
        self._state = 0
        super().__init__()

    def at(self, minion: int, begin: int) -> SeededRandom:
        """Return the generator, set to where a stream begins for the minion with this number."""
        self._state = (begin + minion * _MINION) & _MASK
        return self

    def seed(self, a: object = None, version: int = 2) -> None:
        """Do nothing: `at` is how this generator is seeded."""

    def random(self) -> float:
        """Return the next number from 0 up to 1: that of `getrandbits(53)`, written out, as most draws are these."""
        self._state = state = (self._state + _GAMMA) & _MASK
        state = (state ^ (state >> 30)) * _MIX_1 & _MASK
        state = (state ^ (state >> 27)) * _MIX_2 & _MASK
        return ((state ^ (state >> 31)) >> 11) * _UNIT

    def getrandbits(self, k: int) -> int:
        """Return `k` random bits."""
        bits = 0
        for _ in range(-(-k // 64)):
            self._state = state = (self._state + _GAMMA) & _MASK
            state = (state ^ (state >> 30)) * _MIX_1 & _MASK
            state = (state ^ (state >> 27)) * _MIX_2 & _MASK
            bits = bits << 64 | (state ^ (state >> 31))
        return bits >> (-k % 64)


def ranked(numbers: Iterable[int], begin: int) -> list[int]:
    """Return minions' numbers in a random order, that of a stream."""
    rng = SeededRandom()
    return sorted(numbers, key=lambda number: (rng.at(number, begin).random(), number))


def portion(share: float, whole: int) -> int:
    """Return how many of `whole` a share from 0 to 1 is, to the nearest one."""
    return min(whole, int(share * whole + 0.5))


class Draws:
    """Random numbers that can be repeated: one generator for all minions, and the streams that they draw from."""

    def __init__(self, seed: int) -> None:
        """Take the fleet's seed."""
        self.seed = seed
        self.rng = SeededRandom()
        self.own = stream(seed, "minion")
