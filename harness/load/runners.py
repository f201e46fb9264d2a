"""What the answer of one of the master's runners holds, and whether it is complete.

Salt calls an orchestration successful whose `salt.function` steps half of the minions never answered, and a
`manage.status` that calls live minions down is an answer like any other. So what counts is which minions it names:

manage.status, manage.up   those that it calls up
manage.down                all expected but those that it calls down
state.orchestrate          of each step that asks minions, those that did it; the step with the fewest decides, and a
                           step that failed is an error
jobs.list_jobs             no minions; every job must be listed whose answer this client's process had before it asked
all others                 no minions: the runner has to end without an error
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from harness.load.answer import LONGEST, Answer
from harness.scenarios.expected import Expected
from harness.scenarios.runners import DOWN, LIST_JOBS, STATUS, UP, orchestrates

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

# of a step's key, `salt_|-ID_|-NAME_|-FUNCTION`, the functions that ask minions
_STATE, _FUNCTION = "state", "function"
_FAILURES = ("Exception occurred in runner", "\nPassed invalid arguments")
_UNCHANGED = re.compile(r"No changes made to (.*)\.", re.DOTALL)
_FAILED = re.compile(r"failed on minions: (.*?)(?: Function |\n|$)", re.DOTALL)


@dataclass(frozen=True)
class RunnerJob:
    """A runner that was started and whose answer is looked for in the job cache."""

    jid: str
    function: str
    expected: Expected

    def line(self) -> str:
        """Return this as a line of text, for `read`."""
        return json.dumps(asdict(self))

    @staticmethod
    def read(line: str) -> RunnerJob:
        """Return what `line` wrote."""
        values = json.loads(line)
        return RunnerJob(values["jid"], values["function"], Expected(**values["expected"]))


def read_event(
    function: str, event: object, expected: Expected, known: Collection[str] = (), length: int = 0
) -> Answer:
    """Return the answer in the data of a runner's last event, which the job cache keeps as well.

    `known` are ids of jobs that are over, for `jobs.list_jobs`.
    """
    if not isinstance(event, dict) or "return" not in event:
        return Answer(length=length, error=f"the runner answered something else: {_short(event)}")
    found = read(function, event["return"], expected, known, length)
    if not found.error and event.get("success") is False and not found.gap(expected.minions):
        return Answer(found.answered, found.jids, length, f"the runner failed: {_short(event['return'])}")
    return found


def read(function: str, value: object, expected: Expected, known: Collection[str] = (), length: int = 0) -> Answer:
    """Return the answer in what a runner's function returned."""
    # a runner that raises or is called wrongly returns a text that says so
    if isinstance(value, str) and value.startswith(_FAILURES):
        return Answer(length=length, error=f"the runner failed: {value.strip().splitlines()[-1][:LONGEST]}")
    odd = Answer(length=length, error=f"the runner answered something else: {_short(value)}")
    if function in {STATUS, UP, DOWN}:
        return _pinged(function, value, expected, length) or odd
    if orchestrates(function):
        return _orchestrated(value, expected, length) or odd
    if function == LIST_JOBS:
        if not isinstance(value, dict):
            return odd
        missing = sum(jid not in value for jid in known)
        error = f"{missing} of {len(known)} jobs that were over are not listed" if missing else ""
        return Answer(length=length, error=error)
    return Answer(length=length)


def _pinged(function: str, value: object, expected: Expected, length: int) -> Answer | None:
    """Return the answer of a function that pings minions, None if it is none."""
    names = value.get("up") if function == STATUS and isinstance(value, dict) else value
    if not isinstance(names, list):
        return None
    answered = max(0, expected.minions - len(names)) if function == DOWN else len(names)
    return Answer(answered, length=length)


def _orchestrated(value: object, expected: Expected, length: int) -> Answer | None:
    """Return the answer of an orchestration, None if it is none."""
    try:
        (steps,) = value["data"].values()  # type: ignore[index]  # what is no table is an error below
    except (LookupError, TypeError, AttributeError, ValueError):
        return None
    if not isinstance(steps, dict):
        # it could not be rendered: a list of errors
        return Answer(length=length, error=f"the orchestration failed: {_short(steps)}")
    jids, answered, errors = [], [], []
    for key, step in sorted(steps.items(), key=lambda item: item[1].get("__run_num__", 0)):
        name, kind = step.get("__id__", key), key.rpartition("_|-")[2]
        if jid := step.get("__jid__"):
            jids.append(str(jid))
        asks, done, wanted = kind in {_STATE, _FUNCTION}, 0, 0
        if asks:
            wanted = expected.steps.get(name, expected.minions)
            done = len(_done(kind, step))
            # as if every step had the block's own target, so that the one with the largest gap decides
            answered.append(max(0, expected.minions - max(0, wanted - done)))
            if done < wanted and step.get("result") is not False:
                what = "answered" if kind == _FUNCTION else "did it without a failed state"
                errors.append(f"step `{name}`: {done} of {wanted} minions {what}")
        if step.get("result") is False:
            counts = f" ({done} of {wanted} minions did it)" if asks else ""
            errors.append(f"step `{name}` failed{counts}: {_short(step.get('comment'))}")
    unknown = expected.steps.keys() - {step.get("__id__") for step in steps.values()}
    errors += [f"there is no step `{name}`" for name in sorted(unknown)]
    if expected.minions and not answered:
        errors.append("no step asks minions")
    return Answer(min(answered, default=0), tuple(jids), length, "; ".join(errors)[:LONGEST])


def _done(kind: str, step: Mapping[str, Any]) -> set[str]:
    """Return the minions that did a step: those that failed are told in its comment only, as are those without changes.

    Source: salt.states.saltmod.state and salt.states.saltmod.function of Salt 3008.5.
    """
    changes = step.get("changes") or {}
    returned = changes.get("ret", {}) if isinstance(changes, dict) else {}
    comment = str(step.get("comment", ""))
    done = {minion for minion, value in returned.items() if kind == _FUNCTION or _succeeded(value)}
    if unchanged := _UNCHANGED.search(comment):
        done |= set(unchanged[1].split(", "))
    if failed := _FAILED.search(comment):
        done -= set(failed[1].split(", "))
    return done


def _succeeded(returned: object) -> bool:
    """Return whether a minion's states are all well.

    One that gave none stands there with False, or with a list of errors. One of whose states failed stands there as any
    other does when the step has `allow_fail`, and is in no comment.
    """
    if not isinstance(returned, dict):
        return False
    return not any(isinstance(state, dict) and state.get("result") is False for state in returned.values())


def _short(value: object) -> str:
    """Return the beginning of a value in one line."""
    return " ".join(str(value).split())[:100]
