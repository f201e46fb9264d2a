"""The timeline of a scenario on the page: a marked line on every plot over time, and a list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.report import theme

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes

    from harness.results.evidence import Evidence

# lines closer than this share of the plot's width have their names one below the other
CLOSE = 0.035
STEP = 0.34


@dataclass(frozen=True)
class Entry:
    """One moment of a tree's run: `at_s` is when it came, in seconds after the load's start."""

    tree: str
    at_s: float
    name: str
    do: str
    minions: int
    seconds: float
    of_master: bool


def listed(trees: Mapping[str, Evidence]) -> list[Entry]:
    """Return the moments of all trees in order of time."""
    return [
        Entry(
            tree,
            moment.time - samples.timeline.load_start,
            moment.name,
            moment.do,
            moment.minions,
            moment.seconds,
            moment.of_master,
        )
        for tree, samples in trees.items()
        for moment in samples.moments
    ]


def mark(plot: Axes, samples: Evidence, start: float) -> str:
    """Mark each moment on a plot whose axis begins at `start` (seconds since the epoch); return them in words.

    To be called when the limits of the axis are set.
    """
    low, high = plot.get_xlim()
    place = plot.get_xaxis_transform()
    last, depth = float("-inf"), 0
    for moment in samples.moments:
        x = moment.time - start
        depth = depth + 1 if x - last < CLOSE * (high - low) else 0
        last = x
        plot.axvline(x, color=theme.colour("ink"), linewidth=0.8, linestyle=(0, (1, 1.5)))
        plot.text(
            x,
            0.98 - STEP * (depth % 3),
            f" {moment.name} ",
            transform=place,
            fontsize=6.5,
            color=theme.colour("ink"),
            rotation=90,
            va="top",
            ha="right",
        )
    if not samples.moments:
        return ""
    return " Marked: " + ", ".join(f"{moment.name} at {moment.time - start:.0f} s" for moment in samples.moments) + "."
