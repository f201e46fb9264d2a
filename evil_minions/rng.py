"""Random numbers that can be repeated, and shares of a fleet that are assigned with them.

A random number depends on the seed, on the minion's number and on its purpose, never on the time. Two runs with the
same seed are alike, however fast the master was. One generator serves all minions of a worker, and is set to the right
stream before each use: a generator for each minion would take half of the memory that a minion takes.
"""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from evil_minions.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MASK: Final = (1 << 64) - 1
# SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (2014)
_GAMMA: Final = 0x9E3779B97F4A7C15
_MIX_1: Final = 0xBF58476D1CE4E5B9
_MIX_2: Final = 0x94D049BB133111EB
_UNIT: Final = 2.0**-53
# how far apart the streams of two minions begin: odd, and not a multiple of the generator's own step
_MINION: Final = 0xD1342543DE82EF95


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


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a share of the fleet gets, by name, and that share, from 0 to 1."""

    name: str
    share: float


def share_of(text: str) -> float:
    """Return the share that a person writes: `10%` or `0.1`.

    Raises:
        ValueError: if it is something else.
    """
    value = float(text[:-1]) / 100.0 if text.endswith("%") else float(text)
    if not 0 <= value <= 1:
        raise ValueError(f"{text} is not between 0 % and 100 %")
    return value


def assignment_of(text: str, option: str) -> Assignment:
    """Return the assignment that `NAME=SHARE`, or a name alone for all, stands for.

    Raises:
        UsageError: if the share is none.
    """
    name, sign, share = text.rpartition("=")
    if not sign:
        return Assignment(text, 1.0)
    try:
        return Assignment(name, share_of(share))
    except ValueError as error:
        raise UsageError(f"{option} {text}: {share} is no share, give it as 10% or 0.1.") from error


def check_shares(assignments: Sequence[Assignment], option: str) -> None:
    """Raise UsageError if the shares are more than the whole."""
    if sum(each.share for each in assignments) > 1.0 + 1e-9:
        raise UsageError(f"The shares of {option} add up to more than 100 %: make them smaller.")


def assign(assignments: Sequence[Assignment], numbers: range, whole: range, seed: int, purpose: str) -> dict[int, str]:
    """Return by number what some minions of a fleet get; those that get nothing are left out.

    The shares are exact for the fleet as it starts, `whole`. Minions that are added later draw, with the shares as
    probabilities.
    """
    if not assignments:
        return {}
    place = stream(seed, purpose)
    order = iter(ranked(whole, place))
    chosen: dict[int, str] = {}
    before = 0.0
    for each in assignments:
        count = portion(before + each.share, len(whole)) - portion(before, len(whole))
        before += each.share
        chosen.update((next(order), each.name) for _ in range(count))
    rng = SeededRandom()
    found: dict[int, str] = {}
    for number in numbers:
        if number in whole:
            if number in chosen:
                found[number] = chosen[number]
            continue
        point = rng.at(number, place).random()
        for each in assignments:
            point -= each.share
            if point < 0:
                found[number] = each.name
                break
    return found
