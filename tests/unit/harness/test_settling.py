"""Settling: what has to be over before a run is."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from harness.load import run as settling
from harness.load.backend import Job
from harness.load.reading import RunnerJob
from harness.samples import AcceptedJob, ClientSample, FleetSample, RunnerSample, SampleFile
from harness.scenarios import scenario
from harness.scenarios.clients import Expected

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

REST = FleetSample(0.0, 20, 20, 20, 20, 0, 0, 0.0, 3, 60, 9000, 60, 0, 60, 60, 60, 0, 0)


class Run:
    """A run whose clock goes as its samples are taken; `states` tells the fleet's sample at a time."""

    def __init__(self, states: Callable[[float], FleetSample]) -> None:
        """Begin at zero."""
        self.now = 0.0
        self.states = states

    def sample(self, _: str) -> FleetSample:
        """Return the sample of this moment."""
        return replace(self.states(self.now), time=self.now)

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    def settle(self, seconds: float, empty: Callable[[], bool] = lambda: True) -> tuple[float, bool]:
        """Settle within so many seconds."""
        return settling.settle(seconds, cast("Any", self), empty, self.sleep, lambda: self.now)


def test_minions_at_work_are_waited_for() -> None:
    """Three sleeps of eight seconds on twenty minions are over when their returns are, however silent it is before."""

    def states(now: float) -> FleetSample:
        if now < 8:
            return replace(REST, returns=0, return_sends=0, returns_acked=0, executing=60)
        return replace(REST, returns_acked=60 if now >= 9 else 40)

    settled, in_time = Run(states).settle(60)
    assert in_time
    assert settled >= 9


def test_the_limit_ends_it() -> None:
    """Minions that are still at work when the time is over have not settled."""
    assert Run(lambda _: replace(REST, executing=1)).settle(5) == (5.0, False)


def test_returns_on_their_way_are_waited_for() -> None:
    """A return that is neither acknowledged nor given up keeps a run from settling."""
    assert Run(lambda _: replace(REST, returns=61)).settle(5) == (5.0, False)
    assert Run(lambda _: replace(REST, returns=61, returns_given_up=1)).settle(5) == (2.0, True)


def test_jobs_in_the_masters_queue_are_waited_for() -> None:
    """A fleet at rest has not settled while the master keeps a job back."""
    run = Run(lambda now: replace(REST, publications=3 + (now >= 20)))
    settled, in_time = run.settle(60, lambda: run.now >= 21)
    assert in_time
    assert settled >= 20 + settling.QUIET_S
    assert Run(lambda _: REST).settle(10, lambda: False) == (10.0, False)


def test_what_was_published_while_nobody_looked_is_waited_for() -> None:
    """To find out that nothing waits takes a while; the job that left the queue meanwhile is at work then."""
    empty = iter([True, True])
    run = Run(lambda now: replace(REST, publications=3 + (now > 3), executing=20 if 3 < now < 12 else 0))

    def look() -> bool:
        run.now += 2
        return next(empty)

    settled, in_time = run.settle(60, look)
    assert in_time
    assert settled >= 12


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """Return a job with a folder for samples."""
    folder = tmp_path / "stock"
    (folder / "samples").mkdir(parents=True)
    return Job("stock", tmp_path, scenario.load(scenario.find("quick")), tmp_path / "s.toml", folder, tmp_path)


def _accept(job: Job, *jids: str) -> None:
    file = SampleFile(job.samples / "accepted.csv", AcceptedJob)
    for jid in jids:
        file.write(AcceptedJob(jid, "test.sleep", 20))
    file.close()


def test_accepted_jobs(job: Job) -> None:
    """Whatever the job cache holds and whatever clients were told counts as accepted."""
    _accept(job, "2", "3")
    assert settling.accepted(job) == ["2", "3"]
    file = SampleFile(job.samples / "requests.csv", ClientSample)
    file.write(ClientSample("a", "api", "f", "async", 0, 0, 0, 1, "1 2", 20, 20, ""))
    file.close()
    assert settling.accepted(job) == ["1", "2", "3"]


def test_the_job_cache_is_read_when_the_queue_may_be_empty(job: Job) -> None:
    """Reading it costs a process: while jobs wait that are known, only the fleet is asked; at the end once more."""
    seen: set[str] = set()
    held = ["1", "2"]
    reads = []

    def read(what: str, functions: list[str]) -> None:
        assert what == "accepted"
        reads.append(functions)
        _accept(job, *held)

    backend = SimpleNamespace(read_cache=read, running=list)
    fleet = SimpleNamespace(unseen=lambda jids: [jid for jid in jids if jid not in seen])
    queue = settling.Queue(job, cast("Any", backend), cast("Any", fleet), {})
    assert not queue.empty()
    assert not queue.empty()
    assert len(reads) == 1
    seen.update(held)
    # another one came meanwhile
    held.append("3")
    assert not queue.empty()
    assert len(reads) == 2
    seen.add("3")
    assert queue.empty()
    assert reads == [sorted(job.scenario.functions)] * 3


ORCHESTRATE = """
description = "x"
minions = 10
[[clients]]
name = "a"
kind = "runner"
function = "state.orchestrate"
mode = "async"
burst = 1
"""


def test_runners_are_waited_for(job: Job, tmp_path: Path) -> None:
    """A runner at work keeps a run from settling, and so does one that was started and has not answered yet.

    Between two steps of an orchestration no minion has anything to do, and none ever hears of the runner's own id.
    """
    (tmp_path / "mine.toml").write_text(ORCHESTRATE)
    job = replace(job, scenario=scenario.load(tmp_path / "mine.toml"))
    requests = SampleFile(job.samples / "requests.csv", ClientSample)
    requests.write(ClientSample("a", "runner", "state.orchestrate", "async", 0, 0, 0, 1, "7", 10, 10, ""))
    requests.close()
    at_work, ended, asked = ["7"], list[str](), list[object]()

    def read(what: str, jobs: object) -> None:
        if what == "accepted":
            _accept(job)
            return
        asked.append(jobs)
        file = SampleFile(job.samples / "runners.csv", RunnerSample)
        for jid in ended:
            file.write(RunnerSample(jid, 10, "", ""))
        file.close()

    backend = SimpleNamespace(running=lambda: at_work, read_cache=read)
    queue = settling.Queue(job, cast("Any", backend), cast("Any", SimpleNamespace(unseen=list)), {"a": 10})
    assert not queue.empty()
    assert not asked
    at_work.clear()
    assert not queue.empty()
    assert asked == [[RunnerJob("7", "state.orchestrate", Expected(10)).line()]]
    ended.append("7")
    assert queue.empty()
    assert settling.accepted(job) == []
