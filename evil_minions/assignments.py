"""Who gets which role: shares of the fleet, by the seed and the minions' numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from evil_minions.errors import UsageError
from evil_minions.rng import Dice, lot, portion, ranked

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Part:
    """A role and its share of the fleet, from 0 to 1."""

    role: str
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


def part_of(text: str, option: str) -> Part:
    """Return the part that `ROLE=SHARE`, or a role alone for all, stands for.

    Raises:
        UsageError: if the share is none.

    """
    role, sign, share = text.rpartition("=")
    if not sign:
        return Part(text, 1.0)
    try:
        return Part(role, share_of(share))
    except ValueError as error:
        raise UsageError(f"{option} {text}: {share} is no share, give it as 10% or 0.1.") from error


def check(parts: Sequence[Part], option: str) -> None:
    """Raise UsageError if the parts are more than the whole."""
    if sum(part.share for part in parts) > 1.0 + 1e-9:
        raise UsageError(f"The shares of {option} add up to more than 100 %: make them smaller.")


def cast(parts: Sequence[Part], numbers: range, whole: range, seed: int, purpose: str) -> dict[int, str]:
    """Return the roles of some minions of a fleet; those without a role are left out.

    The shares are exact for the fleet as it starts, `whole`; minions that are added later draw.
    """
    if not parts:
        return {}
    place = lot(seed, purpose)
    order = iter(ranked(whole, place))
    chosen: dict[int, str] = {}
    before = 0.0
    for part in parts:
        count = portion(before + part.share, len(whole)) - portion(before, len(whole))
        before += part.share
        chosen.update((next(order), part.role) for _ in range(count))
    dice = Dice()
    found: dict[int, str] = {}
    for number in numbers:
        if number in whole:
            if number in chosen:
                found[number] = chosen[number]
            continue
        point = dice.at(number, place).random()
        for part in parts:
            point -= part.share
            if point < 0:
                found[number] = part.role
                break
    return found
