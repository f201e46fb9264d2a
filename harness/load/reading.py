"""Reads answers: what salt-api returned, and what Salt's commands printed."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from harness.load import runners
from harness.load.answer import LONGEST, Answer

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Collection, Mapping, Sequence

    from harness.scenarios.clients import Clients
    from harness.scenarios.expected import Expected


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
    answer = runners.read(clients.function, value, expected, over, length)
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
    return runners.read_event(clients.function, event, expected, over, length)


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
