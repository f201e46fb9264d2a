"""Reads answers: what salt-api returned, and what Salt's commands printed.

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

from harness.scenarios.clients import DOWN, LIST_JOBS, STATUS, UP, Expected, orchestrates

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Collection, Mapping, Sequence

    from harness.scenarios.clients import Clients

# characters of an error that are kept
LONGEST = 200


@dataclass(frozen=True)
class Answer:
    """What came back: how many minions answered, the jobs' ids, the size in bytes, and what went wrong, if anything."""

    answered: int = 0
    jids: tuple[str, ...] = ()
    length: int = 0
    error: str = ""

    def gap(self, expected: int) -> str:
        """Return what the answer lacks of `expected` minions, "" if nothing: a fleet that grew answers with more."""
        if self.answered >= expected:
            return ""
        return f"{self.answered} of {expected} minions answered"


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


_NO_RETURN = "Minion did not return"


_JID = re.compile(r"(?:jid|job ID): (\d{20})")


# what a line of a batch's output holds beside minions
_OF_BATCH = ("jid", "retcode")


_RUNNER_TAG = re.compile(r"salt/run/(\d{20})")


def read_salt(clients: Clients, done: subprocess.CompletedProcess[str], expected: int) -> Answer:
    """Return the answer in what `salt` printed."""
    if clients.batch and clients.mode == "sync":
        answer = read_batch(done.stdout)
    else:
        answer = read_cli(done.stdout, expected if clients.mode == "async" else None)
    # with some answers there the shortfall says most; without any, Salt's last words do, even with exit code 0
    if expected and not answer.answered:
        return Answer(0, answer.jids, answer.length, _last_words(done, "no minion answered"))
    if done.returncode and not answer.error and not answer.gap(expected):
        return Answer(answer.answered, answer.jids, answer.length, f"exit code {done.returncode}")
    return answer


def read_salt_run(
    clients: Clients, done: subprocess.CompletedProcess[str], expected: Expected, over: Collection[str]
) -> Answer:
    """Return the answer in what `salt-run` printed."""
    length = len(done.stdout)
    if clients.mode == "async":
        jids = tuple(dict.fromkeys(_RUNNER_TAG.findall(done.stderr)))[:1]
        if not jids or done.returncode:
            return Answer(0, jids, length, _last_words(done, "no job id"))
        return Answer(expected.minions, jids, length)
    try:
        value = json.loads(done.stdout)
    except ValueError:
        return Answer(length=length, error=_last_words(done, "no answer"))
    if isinstance(value, str):
        # such as "'nosuch.fun' is not available.", with exit code 0
        return Answer(length=length, error=f"exit code {done.returncode}: {value.strip()[:LONGEST]}")
    answer = read(clients.function, value, expected, over, length)
    if done.returncode and not answer.error:
        return Answer(answer.answered, answer.jids, length, f"exit code {done.returncode}")
    return answer


def _last_words(done: subprocess.CompletedProcess[str], nothing: str) -> str:
    lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip() and line[0] != "{"]
    return f"exit code {done.returncode}: {lines[-1][:LONGEST] if lines else nothing}"


def read_runner(body: object, clients: Clients, expected: Expected, over: Collection[str], length: int) -> Answer:
    """Return the answer in the decoded JSON of salt-api for `runner` with full returns and for `runner_async`."""
    try:
        (returned,) = body["return"]  # type: ignore[index]  # what is no table is an error below
        if clients.mode == "async":
            return Answer(expected.minions, (str(returned["jid"]),), length)
        event = returned["data"]
    except (LookupError, TypeError, ValueError):
        return _something_else(body, length)
    return read_event(clients.function, event, expected, over, length)


def read_api(body: object, length: int) -> Answer:
    """Return the answer in the decoded JSON of salt-api, for `local` with full returns and for `local_async`."""
    try:
        returned = body["return"][0]  # type: ignore[index]  # what is no table is an error below
        if "jid" in returned and "minions" in returned:
            return Answer(len(returned["minions"]), (str(returned["jid"]),), length)
        full = [value for value in returned.values() if isinstance(value, dict) and "jid" in value]
    except (LookupError, TypeError, AttributeError):
        return _something_else(body, length)
    return _returned(full, length)


def read_api_batch(body: object, length: int) -> Answer:
    """Return the answer in the decoded JSON of salt-api for `local_batch`: a list with an event for each minion.

    Of a minion that timed out there is an event without a job id.
    """
    try:
        events = [value["data"] for value in body["return"]]  # type: ignore[index]  # what is no table is an error below
        minions = {event["id"]: event for event in events if "jid" in event}
    except (LookupError, TypeError):
        return _something_else(body, length)
    return _returned(list(minions.values()), length)


def _something_else(body: object, length: int) -> Answer:
    return Answer(length=length, error=f"salt-api answered something else: {str(body)[:100]}")


def _returned(full: Sequence[Mapping[str, Any]], length: int) -> Answer:
    """Return the answer that the minions' full returns make."""
    jids = {str(value["jid"]) for value in full}
    failed = sum(bool(value.get("retcode")) for value in full)
    error = f"{failed} of {len(full)} minions that answered failed" if failed else ""
    return Answer(len(full) - failed, tuple(sorted(jids)), length, error)


def read_batch(output: str) -> Answer:
    """Return the answer in the output of `salt --batch-size`: a line for each minion, with its return code."""
    answered, failed = 0, 0
    jids: dict[str, None] = {}
    for line in output.splitlines():
        if not line.startswith("{"):
            continue
        try:
            values = json.loads(line)
        except ValueError:
            continue
        minions = [value for key, value in values.items() if key not in _OF_BATCH]
        code, count = values.get("retcode"), sum(not str(value).startswith(_NO_RETURN) for value in minions)
        failed += count if code else 0
        answered += 0 if code else count
        if "jid" in values:
            jids[str(values["jid"])] = None
    error = f"{failed} of {answered + failed} minions that answered failed" if failed else ""
    return Answer(answered, tuple(jids), len(output), error)


def read_cli(output: str, accepted: int | None = None) -> Answer:
    """Return the answer in the output of `salt`; `accepted` is the answer's size if a job id alone is complete."""
    answered = 0
    for line in output.splitlines():
        if line.startswith("{"):
            try:
                values = json.loads(line)
            except ValueError:
                continue
            answered += sum(not str(value).startswith(_NO_RETURN) for value in values.values())
    jids = tuple(dict.fromkeys(_JID.findall(output)))
    if accepted is not None and jids:
        answered = accepted
    return Answer(answered, jids, len(output))
