"""An example in a behaviour's file: a job or a round of a timer as input, and what comes of it.

Each is run by the tests and by `behaviours --check`, without a master: for many minions or for one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evil_minions.tables import Table

_RANGE: Final = 2
NONE: Final = "none"


@dataclass(frozen=True, slots=True)
class Example:
    """Input: `function` and `args` or the name of a `timer`; so many `minions` from number `first` on.

    Output: what has to hold for those that get `rule` ("none": no rule), whose share of all is within `share`.
    """

    path: str
    name: str
    function: str
    args: tuple[Any, ...]
    timer: str
    first: int
    minions: int
    rule: str
    share: tuple[float, float]
    seconds: tuple[float, float] | None
    expected: dict[str, Any]


def _range(table: Table, key: str) -> tuple[float, float] | None:
    """Return the lowest and the highest number under a key."""
    if key not in table:
        return None
    values = table.take(key, list)
    if len(values) != _RANGE or not all(isinstance(value, int | float) for value in values):
        raise table.error(key, f"is {values!r}, but has to be the lowest and the highest number")
    return float(values[0]), float(values[1])


def example_of(table: Table, rules: Sequence[str]) -> Example:
    """Return the example that a table describes.

    Raises:
        UsageError: if it makes no sense.

    """
    table.allow("name", "function", "args", "timer", "first", "minions", "expect")
    kind = table.one("function", "timer")
    if kind is None:
        raise table.error("function", "is missing: give a function, or the name of a rule as `timer`")
    expect = (
        table.table("expect")
        .renamed("stage", "rule")
        .allow("rule", "share", "seconds", "answers", "return", "bytes", "retcode", "next", "events")
    )
    timer = table.choice("timer", rules) if kind == "timer" else ""
    rule = expect.choice("rule", (*rules, NONE), timer or NONE)
    checked = ("answers", "return", "bytes", "retcode", "next", "events")
    return Example(
        table.path,
        table.take("name", str),
        table.take("function", str, ""),
        tuple(table.take("args", list, [])),
        timer,
        table.count("first", 0),
        table.count("minions", 1, low=1, high=100_000),
        rule,
        _range(expect, "share") or (0.0, 1.0),
        _range(expect, "seconds"),
        {name: expect.values[name] for name in checked if name in expect},
    )
