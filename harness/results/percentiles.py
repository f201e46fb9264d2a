"""Percentiles of times, as far as there are enough of them: the 95th percentile of one request is no figure."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# the smallest number of times for each percentile: with so many at least one lies beyond it
LEAST = {"p50": 2, "p95": 20, "p99": 100}


@dataclass(frozen=True)
class Percentiles:
    """Percentiles of `n` times in seconds; None where `n` is too small for one, see `LEAST`."""

    p50: float | None
    p95: float | None
    p99: float | None
    n: int


def percentiles(values: Iterable[float]) -> Percentiles:
    """Return the percentiles of raw samples, interpolated between the two nearest."""
    ordered = sorted(values)
    n = len(ordered)
    cuts = statistics.quantiles(ordered, n=100, method="inclusive") if n > 1 else []

    def cut(name: str) -> float | None:
        return round(cuts[int(name[1:]) - 1], 3) if n >= LEAST[name] else None

    return Percentiles(cut("p50"), cut("p95"), cut("p99"), n)
