"""An example in a behaviour's file: a job or a round of a timer as input, and what comes of it.

Each is run by the tests and by `behaviours --check`, without a master: for many minions or for one.
"""

from __future__ import annotations

import asyncio
import inspect
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from evil_minions import defaults
from evil_minions.behaviour import NONE, NORMAL, NOTHING, Example
from evil_minions.functions import job
from evil_minions.inventory import GrainsFactory, load_template
from evil_minions.inventory.targets import PillarStore, Targets
from evil_minions.rng import SeededRandom, stream

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Mapping, Sequence

    from evil_minions.behaviour import Behaviour, Rule
    from evil_minions.functions import Ask, Call, Recorded
    from evil_minions.inventory.targets import Target

SEED: Final = 1


@dataclass(frozen=True, slots=True)
class ExampleFleet:
    """The fleet of an example."""

    targets: Targets
    factory: GrainsFactory

    @classmethod
    def of(cls, first: int, minions: int) -> ExampleFleet:
        """Return so many minions with the grains of a real fleet."""
        ids = [defaults.ID_FORMAT.format(first + index) for index in range(minions)]
        factory = GrainsFactory(load_template(), SEED, "127.0.0.1")
        return cls(Targets(ids, first, factory, PillarStore(minions)), factory)


class NoFiles:
    """What an example has in place of a master's files: none."""

    async def run(self, call: Call, host: Any, mods: Sequence[str] | None, options: Mapping[str, Any]) -> Any:  # noqa: ARG002 - a planner's signature
        """Run nothing: an example has no states."""
        return {}, 0

    async def synchronise(self, host: Any, kinds: Sequence[str], saltenvs: Sequence[str]) -> dict[str, list[str]]:  # noqa: ARG002 - a planner's signature
        """Find no modules of any kind."""
        return {kind: [] for kind in kinds}


class ExampleMinion:
    """A minion of an example: a subject for a behaviour, and a host for functions; it has no master, no other jobs."""

    def __init__(self, fleet: ExampleFleet, number: int, index: int) -> None:
        """Stand for the minion with this number."""
        self.id = defaults.ID_FORMAT.format(number)
        self.number = number
        self.replay: Recorded | None = None
        self.planner = NoFiles()
        self.index = index
        self._fleet = fleet

    def is_meant(self, target: Target) -> bool:
        """Return whether a target matches it."""
        return bool(self._fleet.targets.select(target)[self.index])

    @property
    def rng(self) -> random.Random:
        """Random numbers that belong to no job."""
        return SeededRandom().at(self.number, SEED)

    def job_rng(self, pid: int) -> random.Random:
        """Return the random numbers of a job."""
        return SeededRandom().at(self.number, pid)

    def grains(self) -> dict[str, Any]:
        """Return the grains."""
        return self._fleet.factory.build(self.id, self.number)

    def pillar(self) -> dict[str, Any]:
        """Return the pillar that is kept: nothing."""
        return {}

    def pillar_item(self, name: str) -> None:
        """Return nothing of it."""

    def change_grains(self, changes: Mapping[str, Any], removed: Sequence[str] = ()) -> None:
        """Set grains, and remove others."""
        self._fleet.factory.change(self.id, changes, removed)

    def stop_job(self, jid: str) -> int | None:  # noqa: ARG002 - a minion's signature
        """Find no such job."""
        return None

    def fire(self, tag: str, data: object) -> None:
        """Send an event to nobody."""

    def register_resources(self) -> None:
        """Register nothing with nobody."""

    def running(self) -> list[dict[str, Any]]:
        """Return the jobs that run: none."""
        return []

    def queued(self) -> list[dict[str, Any]]:
        """Return the jobs that wait: none."""
        return []

    async def fetch_pillar(self, *, override: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what was given as the pillar."""
        return dict(override or {})

    def refresh_pillar(self, *, clean_cache: bool) -> asyncio.Task[None]:  # noqa: ARG002 - a minion's signature
        """Do nothing."""
        return asyncio.create_task(asyncio.sleep(0))

    @contextmanager
    def asking(self) -> Iterator[Ask]:
        """Give what answers nothing."""

        async def ask(_load: Mapping[str, Any]) -> str:
            return ""

        yield ask


_JID: Final = "20260101000000000000"


def failures(behaviour: Behaviour) -> list[str]:
    """Run all examples; return a sentence for each that doesn't hold."""
    return [problem for example in behaviour.examples for problem in _failures(behaviour, example)]


def _failures(behaviour: Behaviour, example: Example) -> Iterator[str]:
    where = f"{behaviour.source}: `{example.path}` ({example.name})"
    fleet = ExampleFleet.of(example.first, example.minions)
    minions = [ExampleMinion(fleet, example.first + index, index) for index in range(example.minions)]
    hits = [(minion, rule) for minion in minions for rule in [_rule(behaviour, example, minion)] if _is(rule, example)]
    share = len(hits) / len(minions)
    low, high = example.share
    if not hits and high > 0:
        yield f"{where} expects the rule {example.rule!r}, but no minion gets it."
    elif not low <= share <= high:
        yield f"{where} expects {low:g} to {high:g} of the minions at {example.rule!r}, but it is {share:g}."
    for minion, rule in hits:
        problem = _difference(example, minion, rule)
        if problem:
            yield f"{where} {problem}, for {minion.id}."
            return


def _is(rule: Rule | None, example: Example) -> bool:
    return (rule.name if rule else NONE) == example.rule


def _rule(behaviour: Behaviour, example: Example, minion: ExampleMinion) -> Rule | None:
    if example.timer:
        timer = next(rule for rule in (*behaviour.timers, *behaviour.rules) if rule.name == example.timer)
        return timer if behaviour.concerns(timer, minion, SEED) else None
    return behaviour.decide(minion, [example.function], example.args, SEED, stream(SEED, "job", example.function, 1))


def _difference(example: Example, minion: ExampleMinion, rule: Rule | None) -> str | None:
    """Return what one minion does otherwise than an example expects."""
    delay = (rule.every if example.timer else rule.delay) if rule else None
    if example.seconds is not None:
        seconds = delay.draw(minion.rng) if delay else 0.0
        low, high = example.seconds
        if not low <= seconds <= high:
            return f"expects {low:g} to {high:g} s, but it is {seconds:g} s"
    found = _outcome(example, minion, rule)
    for name, wanted in example.expected.items():
        if found.get(name) != wanted:
            return f"expects `{name}` {wanted!r}, but it is {found.get(name)!r}"
    return None


def _outcome(example: Example, minion: ExampleMinion, rule: Rule | None) -> dict[str, Any]:
    """Return what one minion does, by the names that an example may expect."""
    found: dict[str, Any] = {
        "next": rule.sequel.kind if rule else "stay",
        "answers": 1,
        "events": rule.events.copies if rule and rule.events else 0,
    }
    if rule is not None:
        found["answers"] = 0 if rule.reply.kind == NOTHING else rule.reply.copies
    if example.timer or not found["answers"]:
        return {**found, "answers": 0}
    outcome = rule.reply.result(minion.id) if rule else None
    if outcome is None:
        outcome = asyncio.run(_run(example, minion))
    retcode = outcome.retcode
    if rule and rule.reply.kind == NORMAL and rule.reply.retcode is not None:
        retcode = rule.reply.retcode
    size = len(outcome.value) if isinstance(outcome.value, str) else 0
    return {**found, "return": outcome.value, "retcode": retcode, "bytes": size}


async def _run(example: Example, minion: ExampleMinion) -> job.Result:
    load = {"fun": example.function, "arg": list(example.args), "jid": _JID, "tgt": minion.id, "tgt_type": "glob"}
    outcome = job.begin(minion, load, 1, example.function, list(example.args))
    found: job.Result = await outcome if inspect.isawaitable(outcome) else outcome
    return found
