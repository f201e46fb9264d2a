"""What a benchmark promises to measure: figures with a unit, a statistic and perhaps an aim, and their samples."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

from benchmarks.errors import BenchmarkError

if TYPE_CHECKING:
    from collections.abc import Sequence

Statistic = Literal["median", "p95", "p99", "max", "min"]
DIGITS = 5


@dataclass(frozen=True)
class Aim:
    """What a figure should reach: limits, both inclusive, of our value or of ours divided by stock's."""

    minimum: float | None = None
    maximum: float | None = None
    of: Literal["ours", "ratio"] = "ours"

    def met(self, value: float) -> bool:
        """Say whether a value is within the limits."""
        above = self.minimum is None or value >= self.minimum
        return above and (self.maximum is None or value <= self.maximum)


def at_most(limit: float, of: Literal["ours", "ratio"] = "ours") -> Aim:
    """Return the aim of a figure that must not be larger."""
    return Aim(maximum=limit, of=of)


def at_least(limit: float, of: Literal["ours", "ratio"] = "ours") -> Aim:
    """Return the aim of a figure that must not be smaller."""
    return Aim(minimum=limit, of=of)


def exactly(value: float) -> Aim:
    """Return the aim of a count that must be this."""
    return Aim(minimum=value, maximum=value)


@dataclass(frozen=True)
class Figure:
    """One figure of a benchmark, and one row of the results' page.

    `key` names it in files and stays when the words change. `what` says what was measured, in at most 60 characters;
    `{minions}` in it is the size that was asked for. `unit` is "" for a count. `statistic` is what the samples are
    condensed to. `missed` says why the aim is not met, for the page, as long as it is not.
    """

    key: str
    what: str
    unit: str = ""
    statistic: Statistic = "median"
    aim: Aim | None = None
    missed: str = ""

    def title(self, minions: int) -> str:
        """Return what was measured, with the size that it was measured with."""
        return self.what.replace("{minions}", f"{minions:,}")


@dataclass(frozen=True)
class Samples:
    """All samples of one figure, in the order of the turns: ours, and stock's where there is something to compare.

    When both have as many, the sample of a turn is divided by the other's of the same turn.
    """

    ours: Sequence[float]
    stock: Sequence[float] = ()


def document(figure: Figure, samples: Samples, minions: int) -> dict[str, Any]:
    """Return a figure as it stands in a file, its spread and its verdict computed from the samples.

    Raises BenchmarkError if there are no samples of ours.
    """
    if not samples.ours:
        raise BenchmarkError(f"The figure {figure.key} has no samples; this is a fault of the benchmark.")
    ours, stock = condense(figure.statistic, samples.ours), condense(figure.statistic, samples.stock)
    ratios = _ratios(samples)
    ratio = None
    if stock:
        ratio = median(ratios) if ratios and figure.statistic == "median" else (ours or 0.0) / stock
    judged = ratio if figure.aim is not None and figure.aim.of == "ratio" else ours
    sides = {"stock": samples.stock, "ours": samples.ours, "ratio": ratios}
    return {
        "key": figure.key,
        "what": figure.title(minions),
        "unit": figure.unit,
        "statistic": figure.statistic,
        "stock": short(stock),
        "ours": short(ours),
        "ratio": short(ratio),
        "n": len(samples.ours),
        "spread": {name: spread(values) for name, values in sides.items() if values},
        "aim": None if figure.aim is None else vars(figure.aim),
        "met": None if figure.aim is None else judged is not None and figure.aim.met(judged),
        "samples": {name: [short(one) for one in values] for name, values in sides.items() if values},
    }


def condense(statistic: Statistic, values: Sequence[float]) -> float | None:
    """Return the one number that stands for a series; None for an empty one."""
    if not values:
        return None
    if statistic == "median":
        return median(values)
    return percentile(values, {"p95": 0.95, "p99": 0.99, "max": 1.0, "min": 0.0}[statistic])


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that so large a share of a series does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def spread(values: Sequence[float]) -> dict[str, float | None]:
    """Return the smallest, the middle and the largest sample, and how many there are."""
    return {"n": len(values), "min": short(min(values)), "median": short(median(values)), "max": short(max(values))}


def short(value: float | None) -> float | None:
    """Return a number with the digits that a measurement has."""
    return None if value is None else float(f"{value:.{DIGITS}g}") if value != int(value) else value


def _ratios(samples: Samples) -> list[float]:
    """Return ours divided by stock's, turn by turn; nothing where turns can't be paired."""
    if len(samples.ours) != len(samples.stock) or not all(samples.stock):
        return []
    return [ours / stock for ours, stock in zip(samples.ours, samples.stock, strict=True)]
