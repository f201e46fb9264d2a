"""What became of each request: how long it waited, and whether its answer is complete."""

from __future__ import annotations

from evil_minions.samples import ReturnRow
from harness.results import evidence
from harness.samples import ClientSample, KeptReturn, RunnerSample

JID, OTHER = "20260102030405000001", "20260102030405000002"


def request(mode: str, answered: int, error: str = "", jids: str = JID, due: float = 10.0) -> ClientSample:
    """Return a request to two minions that got its answer two seconds after it was due."""
    return ClientSample("a", "api", "test.ping", mode, 0, due, due + 0.1, due + 2.0, jids, 2, answered, error)


def returned(when: float, jid: str = JID, *, acknowledged: bool = True) -> ReturnRow:
    """Return a minion's return that was over at `when`."""
    return ReturnRow(when, jid, "test.ping", "m0", 1, acknowledged, 0.1)


def test_who_waits_has_the_answer_when_it_comes() -> None:
    """A synchronous request is complete as its answer was, whatever the master keeps."""
    whole, part, none = evidence.answers(
        [
            request("sync", 2, due=1.0),
            request("sync", 1, "1 of 2 minions answered", due=2.0),
            request("sync", 0, "HTTP 500", due=3.0),
        ],
        [returned(99.0)],
        [],
    )
    assert [answer.state for answer in (whole, part, none)] == ["complete", "incomplete", "none"]
    assert [answer.wait_s for answer in (whole, part, none)] == [2.0, 2.0, 2.0]


def test_job_that_is_asked_for_later() -> None:
    """An asynchronous request is over with the last return that was acknowledged, and complete if all are kept."""
    kept = [KeptReturn(JID, "m0"), KeptReturn(JID, "m1"), KeptReturn(OTHER, "m0")]
    returns = [returned(14.0), returned(15.0), returned(40.0, acknowledged=False), returned(50.0, OTHER)]
    (answer,) = evidence.answers([request("async", 2)], returns, kept)
    assert (answer.state, answer.answered, answer.wait_s) == ("complete", 2, 5.0)


def test_job_that_lost_returns() -> None:
    """A job id alone is no answer: what the master lost is missing."""
    (answer,) = evidence.answers([request("async", 2)], [returned(14.0)], [KeptReturn(JID, "m0")])
    assert (answer.state, answer.answered, answer.wait_s) == ("incomplete", 1, 4.0)
    assert answer.error == "1 of 2 minions' returns were kept"
    (answer,) = evidence.answers([request("async", 2)], [], [])
    assert (answer.state, answer.wait_s) == ("none", 2.0)


def test_job_that_was_refused() -> None:
    """What a refused request says stays."""
    (answer,) = evidence.answers([request("async", 0, "HTTP 503", "")], [], [])
    assert (answer.state, answer.error) == ("none", "HTTP 503")


def test_longest_wait() -> None:
    """The longest wait is that of any request."""
    found = evidence.answers([request("sync", 2), request("async", 2)], [returned(17.0)], [])
    assert max(answer.wait_s for answer in found) == 7.0


def test_runner_that_is_asked_for_later() -> None:
    """An asynchronous runner is over with the last return of the jobs that its answer names; without one it is none."""

    def started(number: int, jids: str, error: str = "") -> ClientSample:
        return ClientSample(
            "a", "runner", "state.orchestrate", "async", number, 10.0, 10.1, 11.0, jids, 2, 2 * (not error), error
        )

    rows = [started(0, "r1"), started(1, "r2"), started(2, "r3"), started(3, "r4"), started(4, "", "HTTP 500")]
    ended = [
        RunnerSample("r1", 2, f"{JID} {OTHER}", ""), RunnerSample("r2", 1, "", ""), RunnerSample("r3", 2, "", "step"),
    ]  # fmt: skip
    found = evidence.answers(rows, [returned(14.0), returned(17.0, OTHER)], [KeptReturn("r4", "vm_master")], ended)
    assert [(answer.over, answer.answered, answer.error) for answer in found] == [
        (17.0, 2, ""),
        (11.0, 1, "1 of 2 minions answered"),
        (11.0, 2, "step"),
        (11.0, 0, "the runner had not ended"),
        (11.0, 0, "HTTP 500"),
    ]
