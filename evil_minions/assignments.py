"""Assignments: who gets what, by shares of the fleet, the seed and the minions' numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from evil_minions.errors import UsageError
from evil_minions.rng import SeededRandom, portion, ranked, stream

if TYPE_CHECKING:
    from collections.abc import Sequence


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


def check(assignments: Sequence[Assignment], option: str) -> None:
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
