"""The rows of the page: a figure, each tree's value as text, and how the trees compare."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness import figures
from harness.results import comparison, differences
from harness.scenarios import thresholds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.figures import Figure
    from harness.results.comparison import Change, Comparison


NOTHING = "\N{EN DASH}"


@dataclass(frozen=True)
class Row:
    """One figure of the page: its definition, each tree's value and range as text, and how the trees compare.

    `known` is whether any tree has a value.
    """

    figure: Figure
    values: dict[str, str]
    change: Change | None
    known: bool = True
    ranges: dict[str, str] = field(default_factory=dict)

    @property
    def differs(self) -> bool:
        """Return whether the trees are told apart by it."""
        return self.change not in {None, comparison.ALIKE, comparison.UNTOLD}


def against_rows(against: Comparison) -> list[dict[str, Any]]:
    """Return the lines of a comparison as the page prints them; figures that neither run has are left out."""
    rows = []
    for line in against.lines:
        figure = figures.BY_NAME[line.name]
        if line.before is not None or line.now is not None:
            ratio = NOTHING if line.ratio is None else f"{line.ratio:.2f}"
            values = {"before": shown(figure, line.before), "now": shown(figure, line.now), "ratio": ratio}
            rows.append({"tree": line.tree, "figure": figure, "change": line.change, **values})
    return rows


def row(figure: Figure, trees: Mapping[str, Mapping[str, Any]], result: Mapping[str, Any] | None = None) -> Row:
    """Return one figure of all trees; with a run's `result.json` its ranges and how the trees compare, too."""
    found = {tree: thresholds.lookup(values, figure.name) for tree, values in trees.items()}
    texts = {tree: shown(figure, value) + of_how_many(figure, trees[tree]) for tree, value in found.items()}
    there = any(value is not None for value in found.values())
    if result is None:
        return Row(figure, texts, None, there)
    ranges = {tree: of_tree.get(figure.name) for tree, of_tree in result["ranges"].items()}
    spans = {tree: _span(figure, of) for tree, of in ranges.items() if of}
    lines = [line for pair in result["differences"][:1] for line in differences.from_dict(pair).lines]
    changed = comparison.change(next((line for line in lines if line.name == figure.name), None))
    return Row(figure, texts, changed, there, spans)


def of_how_many(figure: Figure, values: Mapping[str, Any]) -> str:
    """Return how many values a percentile is made of, "" for any other figure: one of few values says little."""
    base, _, name = figure.name.rpartition(".")
    n = thresholds.lookup(values, f"{base}.n")
    return "" if name not in figures.LEAST or n is None else f" (n = {n:,.0f})"


def _span(figure: Figure, of: Mapping[str, Any]) -> str:
    """Return the range of a figure over repeats, and of how many; "" of one run."""
    if of["n"] == 1:
        return ""
    low, high = shown(figure, of["min"]), shown(figure, of["max"])
    return f"{f'{low} to {high}' if low != high else 'the same'} in {of['n']} runs"


def shown(figure: Figure, value: float | None) -> str:
    """Return a value as the page prints it, with its unit."""
    if value is None:
        return NOTHING
    if figure.unit == "%":
        return f"{value * 100:.1f} %"
    if figure.unit == "x":
        return f"{value:.2f}"
    return f"{number(value)} {figure.unit}".strip().replace(" /s", "/s")


def number(value: float | None) -> str:
    """Return a number with as many digits as a reader needs: three, and all of those before the point."""
    if value is None:
        return NOTHING
    if value == int(value) or abs(value) >= 100:  # noqa: PLR2004  # whole numbers from here on
        return f"{value:,.0f}"
    if abs(value) < 0.005:  # noqa: PLR2004  # which two places would make zero of
        return f"{value:.1g}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"  # noqa: PLR2004 - as it is read
