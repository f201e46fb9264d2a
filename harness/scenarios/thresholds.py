"""Thresholds: what a scenario asks of its results, and whether they meet it.

A run that only draws curves leaves the verdict to the reader; with limits in the scenario the exit code says it, so
that a continuous build can stop on it. A limit of a field that the result lacks counts as missed: a typing error must
not pass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from evil_minions import nearest
from harness import choices
from harness.errors import Faults, ScenarioError
from harness.figures import BY_NAME, BY_ROLE, known
from harness.paths import TREES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from evil_minions import Table


@dataclass(frozen=True)
class Threshold:
    """One key of the table `[thresholds]`: limits of one field of a tree's result."""

    # may be dotted, as in `client_latency_s.p95`
    field: str
    # the smallest value that passes
    minimum: float | None = None
    # the largest value that passes
    maximum: float | None = None
    # the trees that it is asked of
    trees: tuple[str, ...] = tuple(TREES)

    @property
    def text(self) -> str:
        """Return the threshold in words."""
        return f"{self.field} {_limits(self.minimum, self.maximum)} ({', '.join(self.trees)})"


@dataclass(frozen=True)
class Verdict:
    """One threshold applied to one tree: the value found (None where there is none) and whether it passed.

    Of a tree that was run several times it is the worst value; `missed` counts the repeats that missed it.
    """

    tree: str
    field: str
    minimum: float | None
    maximum: float | None
    value: float | None
    passed: bool
    missed: int = 0
    repeats: int = 1

    @property
    def text(self) -> str:
        """Return the verdict in words."""
        found = "missing" if self.value is None else f"{self.value:g}"
        if self.value is None and self.field.rpartition(".")[2] in {"p50", "p95", "p99"}:
            found = "missing, as there were too few times for it"
        times = f" in {self.missed} of {self.repeats} repeats" if self.missed and self.repeats > 1 else ""
        return f"{self.field} is {found}{times}, has to be {_limits(self.minimum, self.maximum)}"


def read_thresholds(table: Table, prefix: str = "") -> list[Threshold]:
    """Return the thresholds of a scenario: a table of fields, each with a table such as `{max = 0}`.

    A dotted field may be written with quotes or without; TOML makes tables within tables of the latter.
    """
    found = []
    faults = Faults()
    for key in table:
        with faults.part():
            entry, field = table.table(key), f"{prefix}{key}"
            if not prefix and not known(field) and "min" not in entry and "max" not in entry:
                found += read_thresholds(entry, f"{field}.")
            else:
                found.append(_threshold(entry, field))
    faults.end()
    return found


def _threshold(table: Table, field: str) -> Threshold:
    if not known(field):
        hint = nearest(field, [*BY_NAME, *BY_ROLE])
        advice = f"; the nearest one is `{hint}`" if hint else f"; fields are {', '.join(BY_NAME)}"
        raise ScenarioError(f"{table.source}: `thresholds.{field}` is no field of a result{advice}.")
    table.allow("min", "max", "trees")
    if not ("min" in table or "max" in table):
        raise table.error("max", "is missing: a threshold needs `min` or `max`")
    trees = table.texts("trees", tuple(TREES))
    for tree in trees:
        if tree not in TREES:
            raise table.error("trees", f"holds {tree!r}, but may hold {' and '.join(TREES)} only")
    return Threshold(
        field=field,
        minimum=table.number("min") if "min" in table else None,
        maximum=table.number("max") if "max" in table else None,
        trees=trees,
    )


def judge_all(thresholds: Sequence[Threshold], repeats: Sequence[Mapping[str, Mapping[str, object]]]) -> list[Verdict]:
    """Return the verdict of each threshold on each tree over all repeats: met if each of them met it."""
    found = [judge(thresholds, trees) for trees in repeats]
    return [_worst(of_one) for of_one in zip(*found, strict=True)]


def judge(thresholds: Iterable[Threshold], trees: Mapping[str, Mapping[str, object]]) -> list[Verdict]:
    """Return the verdict of each threshold on each tree of `trees` (name of the tree: its result)."""
    verdicts = []
    for threshold in thresholds:
        for tree, result in trees.items():
            if choices.kind(tree) in threshold.trees:
                value = lookup(result, threshold.field)
                least = _least(threshold)
                most = threshold.maximum
                passed = value is not None and (least is None or value >= least) and (most is None or value <= most)
                verdicts.append(Verdict(tree, threshold.field, least, threshold.maximum, value, passed))
    return verdicts


def lookup(result: Mapping[str, object], field: str) -> float | None:
    """Return the number at the dotted path `field` of a result, or None."""
    value: object = result
    for part in field.split("."):
        if not isinstance(value, dict) or part not in value:
            return None
        value = value[part]
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _least(threshold: Threshold) -> float | None:
    """Return the least that passes: the scenario's, or that below which a figure says that something is missing."""
    figure = BY_NAME.get(threshold.field)
    given = [bound for bound in (threshold.minimum, figure.floor if figure else None) if bound is not None]
    return max(given, default=None)


def _worst(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the worst of the verdicts on one tree: one without a value, or the one that is furthest out."""
    if len(verdicts) == 1:
        return verdicts[0]
    missed = [verdict for verdict in verdicts if not verdict.passed]
    worst = max(missed or verdicts, key=_excess)
    return replace(worst, missed=len(missed), repeats=len(verdicts))


def _excess(verdict: Verdict) -> float:
    """Return by how much a value is beyond its limits, negative within."""
    if verdict.value is None:
        return math.inf
    above = -math.inf if verdict.maximum is None else verdict.value - verdict.maximum
    below = -math.inf if verdict.minimum is None else verdict.minimum - verdict.value
    return max(above, below)


def _limits(minimum: float | None, maximum: float | None) -> str:
    words = [
        f"at least {minimum:g}" if minimum is not None else "",
        f"at most {maximum:g}" if maximum is not None else "",
    ]
    return " and ".join(filter(None, words))
