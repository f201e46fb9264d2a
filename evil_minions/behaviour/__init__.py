"""Behaviours: named rules, of which each job gets one, and what else is unusual about a minion.

They are data in small files, and nothing here knows of a network or a clock: the director decides which minion has
which behaviour, and what is planned for each of its jobs; `evil_minions.minion` carries it out. A plan is a value: it
says when the job begins, what it returns and what comes next.
"""

from __future__ import annotations

import difflib
import fnmatch
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from evil_minions.errors import UsageError
from evil_minions.functions.job import Result
from evil_minions.inventory.targets import KINDS, Target
from evil_minions.rng import SeededRandom, stream
from evil_minions.samples import DecisionRow
from evil_minions.tables import read_table

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Mapping, Sequence

    from evil_minions.tables import Table


_LONGEST: Final = 1_000_000.0
_KINDS: Final = ("seconds", "median", "samples")


@dataclass(frozen=True, slots=True)
class Delay:
    """Seconds from `seconds` to `seconds + jitter`, each as likely."""

    seconds: float = 0.0
    jitter: float = 0.0

    def draw(self, rng: random.Random) -> float:
        """Return the seconds of one case."""
        return self.seconds + self.jitter * rng.random() if self.jitter else self.seconds

    def __str__(self) -> str:
        """Return it as a person reads it."""
        if self.jitter:
            return f"{self.seconds:g} to {self.seconds + self.jitter:g} s"
        return f"{self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class Lognormal(Delay):
    """Seconds whose logarithm is normal: half of the cases are below `median`, `sigma` says how long the tail is."""

    median: float = 1.0
    sigma: float = 0.5
    most: float = _LONGEST

    def draw(self, rng: random.Random) -> float:
        """Return the seconds of one case."""
        return min(self.most, rng.lognormvariate(math.log(self.median), self.sigma))

    def __str__(self) -> str:
        """Return it as a person reads it."""
        return f"about {self.median:g} s (lognormal, sigma {self.sigma:g})"


@dataclass(frozen=True, slots=True)
class Measured(Delay):
    """Seconds as in a list of samples, which is sorted."""

    samples: tuple[float, ...] = (0.0,)

    def draw(self, rng: random.Random) -> float:
        """Return the seconds of one case: a point between two neighbouring samples."""
        place = rng.random() * (len(self.samples) - 1)
        low = int(place)
        high = min(low + 1, len(self.samples) - 1)
        return self.samples[low] + (self.samples[high] - self.samples[low]) * (place - low)

    def __str__(self) -> str:
        """Return it as a person reads it."""
        return f"{self.samples[0]:g} to {self.samples[-1]:g} s (as measured, {len(self.samples)} samples)"


def delay_of(table: Table, key: str) -> Delay | None:
    """Return the delay under a key of a rule, None where there is none.

    Raises:
        UsageError: if it is none of the kinds.
    """
    value = table.values.get(key)
    if value is None:
        return None
    if not isinstance(value, dict):
        return Delay(table.number(key, high=_LONGEST))
    inner = table.table(key)
    match inner.one(*_KINDS):
        case "seconds":
            inner.allow("seconds", "jitter")
            return Delay(inner.number("seconds", high=_LONGEST), inner.number("jitter", 0.0, high=_LONGEST))
        case "median":
            inner.allow("median", "sigma", "most")
            median, sigma = inner.number("median", low=1e-6, high=_LONGEST), inner.number("sigma", 0.5, high=10.0)
            return Lognormal(median=median, sigma=sigma, most=inner.number("most", _LONGEST, high=_LONGEST))
        case "samples":
            inner.allow("samples")
            return Measured(samples=_samples(inner))
    raise table.error(key, "needs one of `seconds`, `median`, `samples`")


def _samples(table: Table) -> tuple[float, ...]:
    values = table.take("samples", list)
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LONGEST:
            raise table.error("samples", f"holds {value!r}, but may hold seconds only")
    if not values:
        raise table.error("samples", "is empty: give at least one number of seconds")
    return tuple(sorted(float(value) for value in values))


NORMAL, NOTHING, VALUE, ERROR, BYTES = "normal", "nothing", "value", "error", "bytes"
_MOST_BYTES: Final = 1 << 30
_MOST_COPIES: Final = 1000


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer: `kind` is one of those above, `value` belongs to it, `retcode` replaces the usual one.

    `copies` returns are sent in all, each `apart` after the one before.
    """

    kind: str = NORMAL
    value: Any = None
    retcode: int | None = None
    copies: int = 1
    apart: Delay = field(default_factory=Delay)

    def result(self, minion_id: str) -> Result | None:
        """Return what stands for the function's outcome; None if the function itself has to be run."""
        match self.kind:
            case "value":
                return Result(self.value, self.retcode or 0)
            case "error":
                return Result(f"ERROR: {self.value}", 1 if self.retcode is None else self.retcode, "nested")
            case "bytes":
                line = f"{minion_id} says nothing in many words.\n"
                return Result((line * (self.value // len(line) + 1))[: self.value], self.retcode or 0)
        return None

    def __str__(self) -> str:
        """Return it as a person reads it."""
        text = {
            NORMAL: "the normal answer",
            NOTHING: "nothing",
            VALUE: f"{self.value!r}",
            ERROR: f"the error {self.value!r}",
            BYTES: f"{self.value} bytes",
        }[self.kind]
        if self.retcode is not None:
            text += f" with exit code {self.retcode}"
        return f"{text}, {self.copies} times" if self.copies > 1 else text


def reply_of(table: Table) -> Reply:
    """Return the answer that `returns` of a rule describes, the normal one where it says nothing.

    Raises:
        UsageError: if it makes no sense.
    """
    if "returns" not in table:
        return Reply()
    if isinstance(table.values["returns"], str):
        return Reply(table.choice("returns", (NORMAL, NOTHING)))
    inner = table.table("returns").allow(VALUE, ERROR, BYTES, "retcode", "copies", "apart")
    kind = inner.one(VALUE, ERROR, BYTES) or NORMAL
    value: Any = None
    if kind == VALUE:
        value = inner.values[VALUE]
    elif kind == ERROR:
        value = inner.take(ERROR, str)
    elif kind == BYTES:
        value = inner.count(BYTES, high=_MOST_BYTES)
    retcode = inner.count("retcode", high=255) if "retcode" in inner else None
    copies = inner.count("copies", 1, low=1, high=_MOST_COPIES)
    return Reply(kind, value, retcode, copies, delay_of(inner, "apart") or Delay())


STAY, DIE, DISCONNECT, RESTART, SWITCH = "stay", "die", "disconnect", "restart", "behaviour"
_WITH_TIME: Final = (DISCONNECT, RESTART)


@dataclass(frozen=True, slots=True)
class Sequel:
    """One of the words above, with the seconds that it takes or the behaviour that follows."""

    kind: str = STAY
    seconds: Delay = field(default_factory=Delay)
    behaviour: str = ""

    def __str__(self) -> str:
        """Return it as a person reads it."""
        match self.kind:
            case "disconnect":
                return f"disconnects for {self.seconds}"
            case "restart":
                return f"ends and starts again after {self.seconds}"
            case "behaviour":
                return f"behaves as {self.behaviour} from then on"
            case "die":
                return "dies"
        return "stays"


def sequel_of(table: Table) -> Sequel:
    """Return what `next` of a rule describes: `stay` where it says nothing.

    Raises:
        UsageError: if it makes no sense.
    """
    if "next" not in table:
        return Sequel()
    if isinstance(table.values["next"], str):
        return Sequel(table.choice("next", (STAY, DIE)))
    inner = table.table("next").allow(*_WITH_TIME, SWITCH)
    kind = inner.one(*_WITH_TIME, SWITCH)
    if kind is None:
        raise table.error("next", "is empty: give `disconnect`, `restart` or `behaviour`, or the text `die`")
    if kind == SWITCH:
        return Sequel(kind, behaviour=inner.take(SWITCH, str))
    return Sequel(kind, delay_of(inner, kind) or Delay())


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
    if "sends" not in table:
        return None
    inner = table.table("sends").allow("tag", "data", "bytes", "copies")
    data: Any = inner.values.get("data", {})
    if inner.one("data", "bytes") == "bytes":
        data = {"padding": "x" * inner.count("bytes", high=1 << 24)}
    return Events(inner.take("tag", str), data, inner.count("copies", 1, low=1, high=_MOST_EVENTS))


_ENDS: Final = 2


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
    if len(values) != _ENDS or not all(isinstance(value, int | float) for value in values):
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


_NORMAL: Final = Reply()
_STAY: Final = Sequel()


@dataclass(frozen=True, slots=True)
class Plan:
    """The rule that a job gets, None if the minion does what a healthy one does.

    `behaviour` is the name of the minion's behaviour, empty for a minion without one.
    """

    behaviour: str = ""
    rule: Rule | None = None

    @property
    def delay(self) -> Delay | None:
        """The time until the function begins; None means as long as on a real minion."""
        return self.rule.delay if self.rule else None

    @property
    def reply(self) -> Reply:
        """What is returned."""
        return self.rule.reply if self.rule else _NORMAL

    @property
    def sequel(self) -> Sequel:
        """What comes after the job."""
        return self.rule.sequel if self.rule else _STAY

    def decision(self, minion_id: str, what: str, seconds: float) -> DecisionRow:
        """Return the plan as it is written down; `what` is the job or the round of a timer, `seconds` the wait."""
        if self.rule is None:
            return DecisionRow(minion_id, what, self.behaviour, "", seconds, "", "")
        returns = str(self.rule.reply) if self.rule.every is None else ""
        return DecisionRow(minion_id, what, self.behaviour, self.rule.name, seconds, returns, str(self.rule.sequel))


HEALTHY: Final = Plan()
"""The plan of every job on a minion without a behaviour."""


# offset, in the random stream of a job, of the choice of its rule; `evil_minions.minion.minion` has further offsets
_CHOICE: Final = 16


class Job(Protocol):
    """A published job; `stream` is where the random numbers for it begin."""

    load: dict[str, Any]
    stream: int


class Director:
    """Decides for the minions of a worker; those without a behaviour do what healthy minions do."""

    def __init__(self, seed: int) -> None:
        """Begin with healthy minions; `seed` is the fleet's."""
        self._seed = seed
        self._behaviours: dict[Path, Behaviour] = {}
        self._assignments: dict[int, Path] = {}

    def assign(self, indexes: Iterable[int], name: str | Path) -> None:
        """Give some minions the behaviour of a preset or a file, from now on.

        Raises:
            UsageError: if it can't be read.
        """
        found = family(name)
        self._behaviours.update(found)
        self._assignments.update(dict.fromkeys(indexes, next(iter(found))))

    def switch(self, index: int, name: str) -> None:
        """Give a minion the behaviour that a rule of its present one names."""
        self._assignments[index] = find(name, self._assignments[index].parent)

    def behaviour(self, index: int) -> Behaviour | None:
        """Return the behaviour of a minion."""
        path = self._assignments.get(index)
        return None if path is None else self._behaviours[path]

    def is_paced(self, index: int) -> bool:
        """Return whether a minion starts in its turn, rather than at once."""
        behaviour = self.behaviour(index)
        return behaviour is None or behaviour.paced

    def timers(self, minion: Subject) -> list[Rule]:
        """Return the rules that come by themselves on a minion."""
        behaviour = self.behaviour(minion.index)
        return [rule for rule in behaviour.timers if behaviour.concerns(rule, minion, self._seed)] if behaviour else []

    def plan(self, minion: Subject, job: Job) -> Plan:
        """Return what comes of a job on a minion."""
        path = self._assignments.get(minion.index)
        if path is None:
            return HEALTHY
        behaviour = self._behaviours[path]
        load: Mapping[str, Any] = job.load
        functions = [load["fun"]] if isinstance(load["fun"], str) else load["fun"]
        rule = behaviour.decide(minion, functions, load["arg"], self._seed, job.stream + _CHOICE)
        return Plan(behaviour.name, rule)
