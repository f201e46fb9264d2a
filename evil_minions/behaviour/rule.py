"""One rule of a behaviour: when it applies, how long it takes, what it returns, what comes next."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from evil_minions.behaviour.delay import Delay, delay_of
from evil_minions.behaviour.reply import Reply, reply_of
from evil_minions.behaviour.sequel import Sequel, sequel_of
from evil_minions.inventory.target import KINDS, Target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evil_minions.tables import Table

_KEYS: Final = ("name", "minions", "share", "weight", "next")
_JOB_KEYS: Final = ("function", "args", "delay", "returns")
_TIMER_KEYS: Final = ("every", "sends", "asks")
ASKS: Final = ("pillar", "auth")
_MOST_EVENTS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Events:
    """Events that a timer sends: `{id}` in the tag is the minion's id."""

    tag: str
    data: Any
    copies: int


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule for jobs, or with `every` one that comes by itself.

    `functions` and `args` are globs; `target` or `share` say which minions it is for; among several rules that fit a
    job, each is as likely as its `weight` says.
    """

    name: str
    functions: tuple[str, ...] = ("*",)
    args: tuple[str, ...] = ()
    target: Target | None = None
    share: float = 1.0
    weight: float = 1.0
    delay: Delay | None = None
    reply: Reply = field(default_factory=Reply)
    every: Delay | None = None
    events: Events | None = None
    asks: tuple[str, ...] = ()
    sequel: Sequel = field(default_factory=Sequel)

    def is_for(self, functions: Sequence[str], args: Sequence[Any]) -> bool:
        """Return whether the rule is for a job with one of these functions and these published arguments."""
        return any(map(self._names, functions)) and self._has(args)

    def _names(self, function: str) -> bool:
        """Return whether one of the globs means a function, and none with a `!` does."""
        if any(glob[0] == "!" and fnmatch.fnmatchcase(function, glob[1:]) for glob in self.functions):
            return False
        wanted = [glob for glob in self.functions if glob[0] != "!"]
        return not wanted or any(fnmatch.fnmatchcase(function, glob) for glob in wanted)

    def _has(self, args: Sequence[Any]) -> bool:
        """Return whether each glob for arguments means one; keywords are written `name=value`."""
        if not self.args:
            return True
        words: list[str] = []
        for arg in args:
            if isinstance(arg, dict) and arg.get("__kwarg__"):
                words += [f"{name}={value}" for name, value in arg.items() if name != "__kwarg__"]
            elif isinstance(arg, list):
                words += map(str, arg)
            else:
                words.append(str(arg))
        return all(any(fnmatch.fnmatchcase(word, glob) for word in words) for glob in self.args)

    def describe(self) -> str:
        """Return what the rule does, in one sentence."""
        if self.every is not None:
            parts = [f"every {self.every}"]
            if self.events:
                parts.append(f"sends {self.events.copies} events {self.events.tag}")
            parts += [f"asks for {what}" for what in self.asks]
        else:
            parts = [f"to {', '.join(self.functions)}" + (f" with {', '.join(self.args)}" if self.args else "")]
            parts.append(f"returns {self.reply}" + (f" after {self.delay}" if self.delay else ""))
        if self.sequel.kind != "stay":
            parts.append(str(self.sequel))
        return "; ".join(parts)


def rule_of(table: Table) -> Rule:
    """Return the rule that a table describes.

    Raises:
        UsageError: if it makes no sense.

    """
    timed = "every" in table
    table.allow(*_KEYS, *(_TIMER_KEYS if timed else _JOB_KEYS))
    name = table.take("name", str)
    functions = table.texts("function", ("*",))
    if not functions or not all(glob.strip("!") for glob in functions):
        raise table.error("function", "is empty: give a glob such as state.*")
    asks = table.texts("asks")
    for word in asks:
        if word not in ASKS:
            raise table.error("asks", f"holds {word!r}, but may hold {' and '.join(ASKS)} only")
    return Rule(
        name,
        functions,
        table.texts("args"),
        _target(table),
        table.number("share", 1.0, high=1.0),
        table.number("weight", 1.0),
        delay_of(table, "delay"),
        reply_of(table),
        _every(table),
        _events(table),
        asks,
        sequel_of(table),
    )


def _every(table: Table) -> Delay | None:
    """Return the time between two rounds of a timer; one without any would never let the minion do anything else."""
    every = delay_of(table, "every")
    if every is not None and type(every) is Delay and every.seconds + every.jitter <= 0:
        raise table.error("every", "is 0: give some time between two rounds")
    return every


def _target(table: Table) -> Target | None:
    """Return which minions the rule is for: a compound target as a text, or any with its type."""
    if "minions" not in table:
        return None
    if isinstance(table.values["minions"], str):
        return Target(table.take("minions", str), "compound")
    inner = table.table("minions").allow("tgt", "tgt_type")
    return Target(inner.take("tgt", str), inner.choice("tgt_type", KINDS, "glob"))


def _events(table: Table) -> Events | None:
    """Return the events of a timer."""
    if "sends" not in table:
        return None
    inner = table.table("sends").allow("tag", "data", "bytes", "copies")
    data: Any = inner.values.get("data", {})
    if inner.one("data", "bytes") == "bytes":
        data = {"padding": "x" * inner.count("bytes", high=1 << 24)}
    return Events(inner.take("tag", str), data, inner.count("copies", 1, low=1, high=_MOST_EVENTS))
