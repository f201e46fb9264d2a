"""Running the examples of a behaviour, without a master."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any, Final

from evil_minions.behaviour.example import NONE
from evil_minions.behaviour.exampleminion import SEED, ExampleFleet, ExampleMinion
from evil_minions.behaviour.reply import NORMAL, NOTHING
from evil_minions.functions import job
from evil_minions.rng import stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evil_minions.behaviour.behaviour import Behaviour
    from evil_minions.behaviour.example import Example
    from evil_minions.behaviour.rule import Rule

_JID: Final = "20260101000000000000"


def failures(behaviour: Behaviour) -> list[str]:
    """Run all examples; return a sentence for each that doesn't hold."""
    return [problem for example in behaviour.examples for problem in _failures(behaviour, example)]


def _failures(behaviour: Behaviour, example: Example) -> Iterator[str]:
    """Yield what doesn't hold of one example."""
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
    """Return whether a rule is the one that an example expects."""
    return (rule.name if rule else NONE) == example.rule


def _rule(behaviour: Behaviour, example: Example, minion: ExampleMinion) -> Rule | None:
    """Return the rule that a minion gets."""
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
    """Run the function itself."""
    load = {"fun": example.function, "arg": list(example.args), "jid": _JID, "tgt": minion.id, "tgt_type": "glob"}
    outcome = job.begin(minion, load, 1, example.function, list(example.args))
    found: job.Result = await outcome if inspect.isawaitable(outcome) else outcome
    return found
