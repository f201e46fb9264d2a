"""Turns: the one way in which contenders are interleaved and repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks.options import Options

T = TypeVar("T")


def interleave(contenders: Mapping[str, Callable[[int], T]], options: Options, *, warm: int = 0) -> dict[str, list[T]]:
    """Ask each contender once a turn, `options.rounds` times; return the answers of each in the order of the turns.

    A contender is called with the number of the turn, from 0, and returns a sample, or several in one value. Who
    comes first changes with each turn: the second often finds a cache that the first one filled. `warm` turns come
    before, with negative numbers, and are thrown away.
    """
    found: dict[str, list[T]] = {name: [] for name in contenders}
    names = list(contenders)
    for turn in range(-warm, options.rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            answer = contenders[name](turn)
            if turn >= 0:
                found[name].append(answer)
        if turn >= 0:
            options.progress(turn + 1, options.rounds)
    return found
