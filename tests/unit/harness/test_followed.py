"""Jobs followed to their end: what is expected, never reached, unfinished, lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evil_minions import JobRow, ReturnRow, TallyRow
from harness.results import figures
from harness.results.evidence import Evidence, Followed, follow
from harness.samples import AcceptedJob, ClientSample, FleetSample, KeptReturn, Timeline
from harness.scenarios.clients import Arrival, Clients
from harness.scenarios.scenario import Scenario

SLEEP, FIND = "test.sleep", "saltutil.find_job"
TIMELINE = Timeline(90.0, 95.0, 100.0, 110.0, 130.0, settled_in_time=True)
REST = FleetSample(95.0, 20, 20, 20, 20, 0, 0, 0.0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


def _client(number: int, jid: str) -> ClientSample:
    return ClientSample("sleeps", "api", SLEEP, "async", number, 100.0, 100.0, 101.0, jid, 20, 20, "")


def _evidence(**rows: object) -> Evidence:
    nothing = Evidence(TIMELINE, [], [], [REST, replace(REST, time=140.0)], [], [], [], [], [], [], [], [])
    return replace(nothing, **rows)  # type: ignore[arg-type]  # each has the field's type


def _sent(
    jid: str, minions: range, *, at: float = 120.0, attempts: int = 1, acknowledged: bool = True
) -> list[ReturnRow]:
    return [ReturnRow(at, jid, SLEEP, f"m{number}", attempts, acknowledged, 0.5) for number in minions]


def _kept(jid: str, minions: range) -> list[KeptReturn]:
    return [KeptReturn(jid, f"m{number}") for number in minions]


def _job(jid: str, tally: tuple[int, int, int, int, int, int], worker: int = 0) -> TallyRow:
    return TallyRow(120.0, worker, jid, SLEEP, *tally)


SCENARIO = Scenario("sleeps", "Sleeps", 20, (Clients("sleeps", "api", SLEEP, "*", Arrival("burst", burst=10)),))


def test_jobs_in_the_masters_queue_are_expected() -> None:
    """Ten accepted, two published: the minions of eight never got their job, and 0.2 publications a job is a miss."""
    jids = [str(number) for number in range(10)]
    samples = _evidence(
        clients=[_client(number, jid) for number, jid in enumerate(jids)],
        accepted=[AcceptedJob(jid, SLEEP, 20) for jid in jids],
        jobs=[JobRow(101.0, jid, SLEEP, 20) for jid in jids[:2]],
        tallies=[_job(jid, (20, 20, 20, 20, 0, 0)) for jid in jids[:2]],
        returns=[row for jid in jids[:2] for row in _sent(jid, range(20))],
        kept=[entry for jid in jids[:2] for entry in _kept(jid, range(20))],
    )
    found = figures.of_tree(samples, SCENARIO)
    assert (found["jobs_requested"], found["jobs_accepted"]) == (10, 10)
    assert (found["publications"], found["jobs_unpublished"]) == (2, 8)
    assert found["publications_per_job"] == 0.2
    assert (found["returns_expected"], found["returns_kept"], found["never_reached"]) == (200, 40, 160)
    assert (found["returns_unfinished"], found["returns_lost"]) == (0, 0)


def test_never_reached_is_not_lost() -> None:
    """Of ninety targeted minions fifteen were dead, and of the others' returns one was acknowledged and not kept."""
    samples = _evidence(
        accepted=[AcceptedJob("1", SLEEP, 90)],
        jobs=[JobRow(101.0, "1", SLEEP, 75)],
        tallies=[_job("1", (90, 75, 75, 75, 0, 0))],
        returns=[*_sent("1", range(74)), *_sent("1", range(74, 75), attempts=2)],
        kept=_kept("1", range(74)),
    )
    assert follow(samples, SCENARIO.asked) == [Followed("1", SLEEP, True, 90, 75, 74, 1)]
    found = figures.of_tree(samples, SCENARIO)
    assert (found["never_reached"], found["returns_unfinished"], found["returns_lost"]) == (15, 0, 1)


def test_what_was_at_work_at_the_limit_is_unfinished() -> None:
    """A minion that still runs its job, or sends its return, when the limit ends the run, has lost nothing."""
    samples = _evidence(
        accepted=[AcceptedJob("1", SLEEP, 20)],
        tallies=[_job("1", (20, 20, 12, 10, 0, 1))],
        # two more came between the end and the reading of the job cache, one of which it has
        returns=[*_sent("1", range(10)), *_sent("1", range(10, 12), at=131.0)],
        kept=_kept("1", range(11)),
    )
    (job,) = follow(samples, SCENARIO.asked)
    assert (job.kept, job.unfinished, job.lost) == (11, 9, 0)


@pytest.mark.parametrize("acknowledged", [True, False])
def test_returns_that_are_over_and_not_kept_are_lost(*, acknowledged: bool) -> None:
    """Acknowledged or given up, a return that is over has to be in the job cache."""
    samples = _evidence(
        tallies=[_job("1", (3, 3, 3, 3, 0, 0))],
        returns=_sent("1", range(3), attempts=3, acknowledged=acknowledged),
        kept=_kept("1", range(1)),
    )
    assert [job.lost for job in follow(samples, SCENARIO.asked)] == [2]


def test_a_return_that_was_never_sent_is_unfinished() -> None:
    """A minion that dies while its return waits for its turn has sent nothing that the master could lose."""
    samples = _evidence(
        tallies=[_job("1", (3, 3, 3, 2, 1, 0))],
        returns=[*_sent("1", range(2)), *_sent("1", range(2, 3), attempts=0, acknowledged=False)],
        kept=_kept("1", range(2)),
    )
    assert [(job.unfinished, job.lost) for job in follow(samples, SCENARIO.asked)] == [(1, 0)]


def test_who_knows_more_is_believed() -> None:
    """Of a job in parts the fleet knows those that came, the master all; a client at least how many it asked."""
    samples = _evidence(
        clients=[_client(0, "3")],
        accepted=[AcceptedJob("1", SLEEP, 20), AcceptedJob("2", SLEEP, 0)],
        tallies=[_job("1", (4, 4, 0, 0, 0, 0)), _job("1", (5, 3, 0, 0, 0, 0), 1), _job("2", (7, 7, 0, 0, 0, 0))],
    )
    found = {job.jid: (job.published, job.targeted, job.reached) for job in follow(samples, SCENARIO.asked)}
    assert found == {"1": (True, 20, 7), "2": (True, 7, 7), "3": (False, 20, 0)}


def test_jobs_of_before_the_load_and_of_others_do_not_count() -> None:
    """What was published before the load, and what no client asked for, is followed by nobody; the rows are counted."""
    samples = _evidence(
        jobs=[JobRow(99.0, "1", SLEEP, 20), JobRow(101.0, "2", FIND, 20)],
        tallies=[_job("1", (20, 20, 20, 20, 0, 0)), TallyRow(101.0, 1, "2", FIND, 20, 20, 20, 20, 0, 0)],
        returns=_sent("1", range(20)),
    )
    assert follow(samples, SCENARIO.asked) == []
    assert figures.of_tree(samples, SCENARIO)["left_out"] == {"jobs": 1, "returns": 20}


def test_latency_of_complete_answers() -> None:
    """A request that fails at once makes nothing look fast: complete answers have a figure of their own."""
    slow = [replace(_client(number, ""), mode="sync", finished=105.0) for number in range(2)]
    quick = [replace(row, number=row.number + 2, finished=100.5, error="refused", answered=0) for row in slow]
    found = figures.of_tree(_evidence(clients=[*slow, *quick]), SCENARIO)
    assert (found["client_latency_s"]["p50"], found["client_latency_s"]["n"]) == (2.75, 4)
    assert (found["complete_latency_s"]["p50"], found["complete_latency_s"]["n"]) == (5.0, 2)


def test_how_late_requests_were_sent() -> None:
    """The latest and the number of those that were more than a tenth of a second late."""
    late = [0.0, 0.05, 0.2, 2.4]
    rows = [replace(_client(number, ""), started=100.0 + seconds) for number, seconds in enumerate(late)]
    found = figures.of_tree(_evidence(clients=rows), SCENARIO)["sent_late_s"]
    assert (found["max"], found["late"], found["n"], found["p95"]) == (2.4, 2, 4, None)
