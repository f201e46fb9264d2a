"""The repeats of a run made one: medians of every figure of a tree, and the range that it had."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from harness import figures
from harness.scenarios import thresholds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class Range:
    """The values that a figure had in the repeats that have it: how many, and from where to where."""

    n: int
    min: float
    median: float
    max: float


def middle(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the result of a tree with the median of each number over its repeats; of one repeat the result itself.

    A repeat that lacks a figure does not count for it; what is true or false is true if it was so in each.
    """
    return dict(results[0]) if len(results) == 1 else _middle(results)


def totals(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the result of a tree as `middle` does, but with the sum of each count and the longest of all waits."""
    counts = [figure.name for figure in figures.FIGURES if not figure.unit and figure.name != "minions"]
    summed = {name: sum(int(value) for value in values(results, name)) for name in counts if values(results, name)}
    waits = values(results, "longest_wait_s")
    return {**middle(results), **summed, **({"longest_wait_s": max(waits)} if waits else {})}


def ranges(results: Sequence[Mapping[str, Any]]) -> dict[str, Range]:
    """Return the range of each figure of a tree over its repeats; a figure that none has is left out."""
    found = {name: values(results, name) for name in fields(results)}
    return {name: spread(of_one) for name, of_one in found.items() if of_one}


def spread(found: Sequence[float]) -> Range:
    """Return the range of at least one value."""
    return Range(len(found), min(found), median(found), max(found))


def values(results: Sequence[Mapping[str, Any]], field: str) -> list[float]:
    """Return the values of a figure, in the order of the repeats; those without it are passed over."""
    found = (thresholds.lookup(result, field) for result in results)
    return [value for value in found if value is not None]


def fields(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of all figures of a tree, those by role too."""
    roles = [
        f"{name}.{role}"
        for name in figures.BY_ROLE
        for role in sorted({role for result in results for role in result.get(name, {})})
    ]
    return [*(figure.name for figure in figures.FIGURES if figure.name not in figures.BY_ROLE), *roles]


def _middle(found: Sequence[Any]) -> Any:
    there = [value for value in found if value is not None]
    if not there:
        return None
    first = there[0]
    if isinstance(first, dict):
        keys = dict.fromkeys(key for value in there for key in value)
        return {key: _middle([value[key] for value in there if key in value]) for key in keys}
    if isinstance(first, list | tuple):
        # what is missing in one repeat is named
        return list(dict.fromkeys(entry for value in there for entry in value))
    if isinstance(first, bool):
        return all(there)
    if not isinstance(first, int | float):
        return first
    number = median(there)
    whole = all(isinstance(value, int) for value in there) and number == int(number)
    return int(number) if whole else round(number, 4)
