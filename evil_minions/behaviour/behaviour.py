"""A behaviour: named rules, of which each job gets one, and what else is unusual about a minion."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from evil_minions.behaviour.rule import SWITCH, Rule, rule_of
from evil_minions.errors import UsageError
from evil_minions.rng import SeededRandom, stream
from evil_minions.tables import read_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evil_minions.inventory.inventory import Target
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
    expect = table.table("expect").allow(
        "rule", "share", "seconds", "answers", "return", "bytes", "retcode", "next", "events"
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


FORMAT: Final = 1


class Subject(Protocol):
    """The minion that a behaviour decides for; `index` is its place in its worker."""

    index: int

    @property
    def number(self) -> int:
        """Its number in the fleet."""

    def is_meant(self, target: Target) -> bool:
        """Return whether a target matches it."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What one file says; `source` is that file.

    `paced` is false for minions that start all at once; `process_count_max` bounds the jobs that a minion runs at a
    time, the others wait in its own queue (0: no bound).
    """

    name: str
    source: str
    description: str
    rules: tuple[Rule, ...]
    timers: tuple[Rule, ...]
    examples: tuple[Example, ...]
    paced: bool = True
    process_count_max: int = 0

    def decide(
        self, subject: Subject, functions: Sequence[str], args: Sequence[Any], seed: int, begin: int
    ) -> Rule | None:
        """Return the rule for a job, or None if the minion does what it always does.

        `seed` is the fleet's, `begin` where the random numbers for this choice begin.
        """
        fits = [rule for rule in self.rules if rule.is_for(functions, args) and self.concerns(rule, subject, seed)]
        if len(fits) <= 1:
            return fits[0] if fits else None
        point = SeededRandom().at(subject.number, begin).random() * sum(rule.weight for rule in fits)
        for rule in fits:
            point -= rule.weight
            if point < 0:
                return rule
        return fits[-1]

    def concerns(self, rule: Rule, subject: Subject, seed: int) -> bool:
        """Return whether a rule is for a minion: by its share and by its target."""
        if rule.share < 1.0:
            # the word selects the random stream: with another one the same seed would choose other minions
            begin = stream(seed, "stage", self.name, rule.name)
            if SeededRandom().at(subject.number, begin).random() >= rule.share:
                return False
        return rule.target is None or subject.is_meant(rule.target)


def behaviour_of(table: Table, name: str) -> Behaviour:
    """Return the behaviour that a file describes.

    Raises:
        UsageError: if it makes no sense.

    """
    table.allow("format", "description", "rules", "examples", "start", "jobs")
    if table.count("format", FORMAT) != FORMAT:
        raise table.error("format", f"is {table.values['format']!r}, but has to be {FORMAT}")
    rules = [rule_of(inner) for inner in table.tables("rules")]
    names = [rule.name for rule in rules]
    for number, rule in enumerate(names):
        if rule in names[:number]:
            raise table.error(f"rules[{number + 1}].name", f"is {rule!r}, as another rule's: give it another one")
    start, jobs = table.table("start").allow("paced"), table.table("jobs").allow("process_count_max")
    return Behaviour(
        name,
        table.source,
        table.take("description", str),
        tuple(rule for rule in rules if rule.every is None),
        tuple(rule for rule in rules if rule.every is not None),
        tuple(example_of(inner, names) for inner in table.tables("examples")),
        start.take("paced", bool, default=True),
        jobs.count("process_count_max", 0, high=100_000),
    )


FOLDER: Final = Path(__file__).parent.parent / "data" / "behaviours"
_SUFFIX: Final = ".toml"


def names() -> list[str]:
    """Return the names of the presets."""
    return sorted(path.stem for path in FOLDER.glob(f"*{_SUFFIX}"))


def find(name: str | Path, beside: Path = FOLDER) -> Path:
    """Return the file of a preset by its name, or of a user's file by its path, which ends in `.toml`.

    A relative path is looked for in the folder `beside`.

    Raises:
        UsageError: if there is none.

    """
    text = str(name)
    path = beside / text if text.endswith(_SUFFIX) else FOLDER / f"{text}{_SUFFIX}"
    if not path.is_file():
        near = difflib.get_close_matches(text, names(), n=1)
        hint = f"the nearest preset is {near[0]}" if near else "`python -m evil_minions behaviours` lists all presets"
        raise UsageError(f"There is no behaviour {text}: {hint}.")
    return path


def load(name: str | Path, beside: Path | None = None) -> Behaviour:
    """Return a behaviour by name or path, after a look at those that it switches to.

    Raises:
        UsageError: if it can't be read.

    """
    return next(iter(family(name, beside).values()))


def family(name: str | Path, beside: Path | None = None) -> dict[Path, Behaviour]:
    """Return a behaviour and all that it may switch to by their files, the first one first.

    Raises:
        UsageError: if one of them can't be read.

    """
    waiting = [find(name, beside or Path.cwd())]
    found: dict[Path, Behaviour] = {}
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        behaviour = behaviour_of(read_table(path), path.stem)
        found[path] = behaviour
        for rule in (*behaviour.rules, *behaviour.timers):
            if rule.sequel.kind == SWITCH:
                try:
                    waiting.append(find(rule.sequel.behaviour, path.parent))
                except UsageError as error:
                    raise UsageError(f"{path}: the rule {rule.name!r} can't go on. {error}") from error
    return found
