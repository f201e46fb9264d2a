"""A benchmark: its name, its figures, and the function that takes the samples.

BenchmarkError          exit 3: a benchmark could not be run to its end, or its file or a page is wrong
└── UnknownBenchmark    exit 2: no benchmark has that name

The results' page is made of these files, so the format has a version: 3 has `name`, `about`, `command`, `date` (UTC),
`minions`, `rounds`, `own` (the hash of the benchmark's own files), `machine`, `versions`, `git`, `trees`, and
`figures`, each as `benchmarks.benchmark.document` writes it.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from harness.paths import TREES
from harness.results import trees

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class BenchmarkError(Exception):
    """A benchmark could not be run, or its file or a page is wrong; the message says in a sentence what to do next."""

    exit_code = 3


class UnknownBenchmark(BenchmarkError):  # noqa: N818 - it names what is wrong
    """No benchmark has the name that was asked for."""

    exit_code = 2


def _silent(done: int, total: int) -> None:
    """Show nothing."""


@dataclass(frozen=True)
class Options:
    """What a benchmark may be asked for."""

    # the size of the fleet or of the data
    minions: int
    # how many turns there are
    rounds: int
    # told after each turn: how many are done, and how many there are
    progress: Callable[[int, int], None] = _silent


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
    condensed to.
    """

    key: str
    what: str
    unit: str = ""
    statistic: Statistic = "median"
    aim: Aim | None = None

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

    Raises:
        BenchmarkError: if there are no samples of ours.
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
    share = {"p95": 0.95, "p99": 0.99, "max": 1.0, "min": 0.0}[statistic]
    # the smallest value that so large a share does not exceed
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


FORMAT = 3


@dataclass(frozen=True)
class Measurement:
    """The samples of one run of a benchmark, when and where they were taken."""

    benchmark: Benchmark
    options: Options
    samples: Mapping[Figure, Samples]
    date: datetime
    machine: Mapping[str, Any]
    # the hash of the benchmark's own files when it began
    own: str

    def document(self) -> dict[str, Any]:
        """Return it as it is written; raises BenchmarkError if the figures are not those of the benchmark."""
        wrong = set(self.benchmark.figures) ^ set(self.samples)
        if wrong:
            keys = ", ".join(sorted(figure.key for figure in wrong))
            raise BenchmarkError(f"{self.benchmark.name} and its samples disagree about {keys}: mend the benchmark.")
        minions, rounds = self.options.minions, self.options.rounds
        return {
            "format": FORMAT,
            "name": self.benchmark.name,
            "about": self.benchmark.about,
            "command": self.benchmark.command(minions, rounds),
            "date": self.date.astimezone(UTC).isoformat(timespec="seconds"),
            "minions": minions,
            "rounds": rounds,
            "own": self.own,
            **self.machine,
            "figures": [document(figure, self.samples[figure], minions) for figure in self.benchmark.figures],
        }

    def write(self, folder: Path) -> Path:
        """Write `<name>.json` below `folder` and return its path; a reader never sees half a file."""
        text = json.dumps(self.document(), indent=1) + "\n"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / f"{self.benchmark.name}.json"
        draft = path.with_suffix(".json.part")
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
        return path


def here() -> dict[str, Any]:
    """Return the facts of this machine and of the project: to be asked before the load begins."""
    facts = trees.machine_facts(TREES)
    python = facts["versions"].pop("python")
    known = {name: facts[name] for name in ("versions", "git", "trees")}
    return {"machine": {**facts["machine"], "python": python}, **known}


T = TypeVar("T")


def interleave(contenders: Mapping[str, Callable[[int], T]], options: Options, *, warm: int = 0) -> dict[str, list[T]]:
    """Ask each contender once a turn, `options.rounds` times; return the answers of each in the order of the turns.

    A contender is called with the number of the turn, from 0, and returns a sample, or several in one value. Who
    comes first changes with each turn: the second often finds a cache that the first one filled. `warm` turns come
    before, with negative numbers, and are thrown away.
    """
    found: dict[str, list[T]] = {name: [] for name in contenders}
    names = list(contenders)
    for turn in range(-warm, options.rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            answer = contenders[name](turn)
            if turn >= 0:
                found[name].append(answer)
        if turn >= 0:
            options.progress(turn + 1, options.rounds)
    return found


@dataclass(frozen=True)
class Benchmark:
    """One row of the registry."""

    # what is typed
    name: str
    # one line for the list
    about: str
    # returns the samples of every figure in `figures`, no more and no fewer
    run: Callable[[Options], Mapping[Figure, Samples]]
    figures: tuple[Figure, ...]
    # the usual size of the fleet or of the data
    minions: int
    # the usual number of turns
    rounds: int
    # what it takes with these on a quiet machine of two cores
    minutes: float
    # those of salt/extensions that it measures, beside Salt itself
    extensions: tuple[str, ...] = ()

    def own(self) -> str:
        """Return the hash of the benchmark's own files: its module, and the tasks that this names."""
        here = Path(__file__).parent
        module = (here / f"{self.run.__module__.rpartition('.')[2]}.py").read_bytes()
        tasks = sorted(set(re.findall(rb"benchmarks\.tasks\.(\w+)", module)))
        return hashlib.sha256(
            b"".join([module, *((here / "tasks" / f"{name.decode()}.py").read_bytes() for name in tasks)])
        ).hexdigest()

    def command(self, minions: int, rounds: int) -> str:
        """Return what a person types to run it with so many minions and rounds."""
        wanted = {"minions": (minions, self.minions), "rounds": (rounds, self.rounds)}
        asked = "".join(f" --{name} {value}" for name, (value, usual) in wanted.items() if value != usual)
        return f"nox -s bench -- {self.name}{asked}"
