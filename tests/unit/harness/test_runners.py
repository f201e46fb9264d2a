"""Answers of the master's runners: when they are complete."""

from __future__ import annotations

from typing import Any

import pytest

from harness.load import reading, salt_side
from harness.load.reading import Answer, RunnerJob
from harness.samples import RunnerSample
from harness.scenarios.clients import Expected

JID, OTHER = "20260102030405000001", "20260102030405000002"
THREE = Expected(3)
STATES = {"a": {"result": True, "changes": {}}}


def _step(number: int, name: str, kind: str, **step: object) -> tuple[str, dict[str, Any]]:
    entry = {"__id__": name, "__run_num__": number, "result": True, "comment": "", "changes": {}, **step}
    return f"salt_|-{name}_|-x_|-{kind}", entry


def _orchestrated(*steps: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {"data": {"vm_master": dict(steps)}, "outputter": "highstate", "retcode": 0}


PING = _step(0, "ping", "function", changes={"ret": {"m1": True, "m2": True, "m3": True}}, __jid__=JID)
HIGH = _step(
    1, "high", "state", changes={"out": "highstate", "ret": {"m1": STATES}}, __jid__=OTHER,
    comment="States ran successfully. Updating m1. No changes made to m2, m3.",
)  # fmt: skip
RUNNER = _step(2, "who", "runner")


@pytest.mark.parametrize(
    ("function", "value", "answered"),
    [
        ("manage.status", {"up": ["m1", "m2", "m3"], "down": []}, 3),
        ("manage.status", {"up": ["m1"], "down": ["m2", "m3"]}, 1),
        # Salt's list of those down knows nothing of minions whose keys it lacks
        ("manage.status", {"up": ["m1"], "down": []}, 1),
        ("manage.up", ["m1", "m2"], 2),
        ("manage.up", [], 0),
        ("manage.down", [], 3),
        ("manage.down", ["m2"], 2),
        ("manage.down", ["m1", "m2", "m3", "m4"], 0),
    ],
)
def test_minions_that_are_up(function: str, value: object, answered: int) -> None:
    """Of what pings minions, those count that it calls up."""
    assert reading.read(function, value, THREE) == Answer(answered)


@pytest.mark.parametrize("function", ["manage.status", "manage.up", "state.orchestrate", "jobs.list_jobs"])
@pytest.mark.parametrize("value", [None, "a text", 7, {"no": 1}])
def test_something_else(function: str, value: object) -> None:
    """What is no answer of the function is an error, never an empty answer."""
    if function == "jobs.list_jobs" and isinstance(value, dict):
        return
    assert reading.read(function, value, THREE).error == f"the runner answered something else: {value}"


def test_orchestration() -> None:
    """Each step has to name every minion; those without changes stand in its comment; a runner's step names none."""
    assert reading.read("state.orchestrate", _orchestrated(PING, HIGH, RUNNER), THREE) == Answer(3, (JID, OTHER))


def test_orchestration_that_lacks_minions() -> None:
    """Salt calls a function's step successful that a minion never answered: here it is not complete."""
    ping = _step(0, "ping", "function", changes={"ret": {"m1": True, "m3": True}}, __jid__=JID)
    found = reading.read("state.orch", _orchestrated(ping, HIGH), THREE)
    assert found == Answer(2, (JID, OTHER), 0, "step `ping`: 2 of 3 minions answered")


def test_orchestration_with_another_target() -> None:
    """A step that targets fewer minions is measured by its own target, and the largest gap decides."""
    canary = _step(0, "canary", "function", changes={"ret": {"m1": True}})
    expected = Expected(3, {"canary": 1})
    assert reading.read("state.orchestrate", _orchestrated(canary, HIGH), expected) == Answer(3, (OTHER,))
    found = reading.read("state.orchestrate", _orchestrated(canary, HIGH), Expected(3, {"canary": 2}))
    assert (found.answered, found.error) == (2, "step `canary`: 1 of 2 minions answered")
    found = reading.read("state.orchestrate", _orchestrated(HIGH), expected)
    assert (found.answered, found.error) == (3, "there is no step `canary`")


def test_orchestration_that_fails() -> None:
    """A step that failed is an error with its comment, and minions that failed do not count."""
    comment = "Run failed on minions: m2, m3\nMinion m2 did not return a state result."
    ret = {"m1": STATES, "m2": False, "m3": {"a": {"result": False}}}
    high = _step(1, "high", "state", result=False, comment=comment, changes={"ret": ret})
    found = reading.read("state.orchestrate", _orchestrated(PING, high), THREE)
    assert found.answered == 1
    assert found.error.startswith("step `high` failed (1 of 3 minions did it): Run failed on minions: m2, m3 Minion m2")
    comment = "Running function x.y failed on minions: m2 Function x.y ran on m1, m2, m3."
    ping = _step(0, "ping", "function", result=False, comment=comment, changes=PING[1]["changes"])
    assert reading.read("state.orchestrate", _orchestrated(ping), THREE).answered == 2
    later = _step(2, "later", "state", result=False, comment="One or more requisite failed: x.ping")
    found = reading.read("state.orchestrate", _orchestrated(PING, later), THREE)
    assert (found.answered, found.error[:37]) == (0, "step `later` failed (0 of 3 minions d")


def test_orchestration_that_allows_failures() -> None:
    """With `allow_fail` a minion whose states failed stands among the others, and in no comment."""
    ret = {"m1": STATES, "m2": {"a": {"result": False}}, "m3": {"a": {"result": None}}}
    high = _step(0, "high", "state", comment="States ran successfully. Updating m1, m2, m3.", changes={"ret": ret})
    found = reading.read("state.orchestrate", _orchestrated(high), THREE)
    assert (found.answered, found.error) == (2, "step `high`: 2 of 3 minions did it without a failed state")


def test_orchestration_that_does_not_render() -> None:
    """An orchestration that is a list of errors is an error."""
    value = {"data": {"vm_master": ["No matching sls found for 'x' in env 'base'"]}, "retcode": 1}
    found = reading.read("state.orchestrate", value, THREE)
    assert found.error == "the orchestration failed: [\"No matching sls found for 'x' in env 'base'\"]"
    assert reading.read("state.orchestrate", _orchestrated(RUNNER), THREE).error == "no step asks minions"


def test_list_of_jobs() -> None:
    """A list of jobs has to have those that were over when it was asked for."""
    assert reading.read("jobs.list_jobs", {JID: {}, OTHER: {}}, Expected(0), [JID]) == Answer()
    found = reading.read("jobs.list_jobs", {OTHER: {}}, Expected(0), [JID, OTHER])
    assert found.error == "1 of 2 jobs that were over are not listed"


def test_any_other_runner() -> None:
    """Of other functions it is enough that they end without an error."""
    assert reading.read("jobs.active", {}, Expected(0)) == Answer()
    found = reading.read(
        "cache.grains", "Exception occurred in runner cache.grains: Traceback\nKeyError: 1", Expected(0)
    )
    assert found.error == "the runner failed: KeyError: 1"
    found = reading.read("cache.grains", "\nPassed invalid arguments: x", Expected(0))
    assert found.error == "the runner failed: Passed invalid arguments: x"


@pytest.mark.parametrize("function", ["manage.status", "state.orchestrate", "jobs.list_jobs", "jobs.active"])
def test_runner_that_raised(function: str) -> None:
    """A runner that raised an exception has its last line as the error, whatever its function."""
    text = "Exception occurred in runner manage.status: Traceback\nsalt.exceptions.SaltClientError: timed out\n"
    assert reading.read(function, text, THREE).error == (
        "the runner failed: salt.exceptions.SaltClientError: timed out"
    )


def test_last_event() -> None:
    """A runner that says that it failed is no complete answer, whatever it returned."""
    assert reading.read_event("jobs.active", {"return": {}, "success": True}, Expected(0)) == Answer()
    found = reading.read_event("jobs.active", {"return": {}, "success": False}, Expected(0))
    assert found.error == "the runner failed: {}"
    assert reading.read_event("jobs.active", None, Expected(0)).error == "the runner answered something else: None"


def test_answers_in_the_job_cache() -> None:
    """Of asynchronous runners the job cache has the last event; one that has not ended has no row."""
    jobs = [RunnerJob(JID, "state.orchestrate", Expected(3, {"canary": 1})), RunnerJob(OTHER, "manage.up", THREE)]
    assert [RunnerJob.read(job.line()) for job in jobs] == jobs
    cache: dict[str, dict[str, Any]] = {
        JID: {"vm_master": {"return": {"return": _orchestrated(PING, HIGH)}}},
        OTHER: {},
    }
    assert list(salt_side.answered(cache.__getitem__, jobs)) == [
        RunnerSample(JID, 3, f"{JID} {OTHER}", "there is no step `canary`")
    ]
