"""What may be called a difference: the arithmetic that tells the effect of a tree from chance.

Each run is one observation, however many requests it has: what slows a machine down slows all of them. All orders of
runs of the same tree are equally likely, so of n and m such runs, all n lie above or below all m by chance in 2 of the
(n + m choose n) orders. That is rare enough from five and five on (`rare`); with fewer runs a margin makes up for the
missing ones, and for a single pair it decides alone.

Counts of single events can be compared in one pair of runs too, by tests that know how such counts vary: Fisher's
exact test of two shares, and the binomial test of two rates. Their events have to be independent of each other, so
callers count jobs, not the returns of a job, which are lost together.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# the share of figures that may be called different between two runs of the same tree
LEVEL = 0.01
# the same for counts: the tests assume independent requests, but those of one bad moment fail together, so the level
# is much stricter
COUNTS_LEVEL = 0.001
# two ranges have to be apart by the wider one's spread, a ratio, to this power; with repeats by less, as for the margin
SPREADS = 2


def probability(one: int, other: int) -> float:
    """Return how probable it is that so many runs of a tree all lie above, or all below, those of the same tree."""
    return 2.0 / math.comb(one + other, one)


def rare(one: int, other: int) -> bool:
    """Return whether so many runs are enough to tell trees apart by their ranges alone."""
    return probability(one, other) <= LEVEL


def margin(wide: float, one: int, other: int) -> float:
    """Return the ratio that the ends of two ranges have to exceed: `wide` for a single pair, 1 where that is rare.

    Between them it follows the evidence (the logarithm of `probability`) that is missing for `LEVEL`.
    """
    if rare(one, other):
        return 1.0
    return math.exp(math.log(wide) * _missing(one, other))


def apart(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the ratio of the two ends between two ranges of values from 0 up; 1 if the ranges touch or overlap."""
    (low, high), (below, above) = (min(one), max(one)), (min(other), max(other))
    if low <= above and below <= high:
        return 1.0
    near, far = (high, below) if high < below else (above, low)
    return far / near if near > 0 else math.inf


def spread(values: Sequence[float]) -> float:
    """Return the ratio of the largest to the smallest of a tree's values, 1 of one value."""
    if min(values) == max(values):
        return 1.0
    return max(values) / min(values) if min(values) > 0 else math.inf


def told_apart(one: Sequence[float], other: Sequence[float], wide: float) -> bool:
    """Return whether the values of two trees' runs differ by more than chance; `wide` is the margin of a single pair.

    With few runs the gap also has to be as wide as the ranges beside it are, by which the runs tell their own noise.
    """
    gap = apart(one, other)
    if gap <= 1:
        return False
    sizes = (len(one), len(other))
    return gap > max(margin(wide, *sizes), margin(max(spread(one), spread(other)) ** SPREADS, *sizes))


def same_share(bad: float, of: float, other_bad: float, other_of: float) -> float:
    """Return the p-value (two-sided) of Fisher's exact test: `bad` of `of` events here, and so many there.

    Numbers with fractions are taken down to whole ones, which never makes a difference of none.
    """
    first, second, total = math.floor(bad), math.floor(other_bad), math.floor(of) + math.floor(other_of)
    drawn = math.floor(of)
    marked = first + second
    if not drawn or drawn == total or not 0 < marked < total:
        return 1.0
    terms = [
        _log_comb(marked, taken) + _log_comb(total - marked, drawn - taken) - _log_comb(total, drawn)
        for taken in (range(first + 1) if first * total <= marked * drawn else range(first, min(marked, drawn) + 1))
        if 0 <= drawn - taken <= total - marked
    ]
    return min(1.0, 2 * math.fsum(math.exp(term) for term in terms))


def same_rate(events: float, exposure: float, other_events: float, other_exposure: float) -> float:
    """Return the p-value (two-sided) of the same rate of events for each unit of exposure here and there."""
    here, there = math.floor(events), math.floor(other_events)
    total = here + there
    if not total or exposure <= 0 or other_exposure <= 0:
        return 1.0
    share = exposure / (exposure + other_exposure)
    # the smaller tail: as few as these, or as many
    tail = _tail(here, total, share) if here <= total * share else _tail(there, total, 1 - share)
    return min(1.0, 2 * tail)


def _missing(one: int, other: int) -> float:
    """Return how much of the evidence is missing that enough runs would give: 1 for a single pair, 0 for enough."""
    return max(0.0, 1 - math.log(probability(one, other)) / math.log(LEVEL))


def _tail(most: int, total: int, share: float) -> float:
    """Return the probability of at most `most` of `total` events that each come here with probability `share`."""
    return math.fsum(math.exp(term) for term in _binomial(most, total, share))


def _binomial(most: int, total: int, share: float) -> Iterator[float]:
    for number in range(most + 1):
        yield _log_comb(total, number) + number * math.log(share) + (total - number) * math.log1p(-share)


def _log_comb(of: int, taken: int) -> float:
    return math.lgamma(of + 1) - math.lgamma(taken + 1) - math.lgamma(of - taken + 1)
