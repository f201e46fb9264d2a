"""A figure of a result: its name, its unit and its definition."""

from __future__ import annotations

from dataclasses import dataclass

MEASURED = ("s", "ms", "KB", "MB", "/s")


@dataclass(frozen=True)
class Figure:
    """One field of a tree's result.

    `better` is `lower`, `higher` or `` where neither is. `unit` is printed after the value; `x` marks a ratio of
    counts, and `%` a share, which is stored as a number from 0 to 1. A value below `floor` is bad even where lower is
    better: something that should have happened did not.
    """

    name: str
    label: str
    unit: str
    better: str
    definition: str
    floor: float | None = None

    @property
    def measured(self) -> bool:
        """Return whether two runs of the same differ by chance: times, CPU, memory and rates do, counts do not."""
        return self.unit in MEASURED


_ENOUGH = "; given from {} on, as fewer have no such percentile"


def percentiles(field: str, label: str, definition: str) -> tuple[Figure, ...]:
    """Return the figures of the three percentiles of a time."""
    names = {"p50": ("median", "2 times"), "p95": ("95 %", "20 times"), "p99": ("99 %", "100 times")}
    return tuple(
        Figure(f"{field}.{name}", f"{label}, {word}", "s", "lower", definition + _ENOUGH.format(least))
        for name, (word, least) in names.items()
    )
