"""The job handlers of a cluster of two masters: one queue and one limit in PostgreSQL, whatever ends meanwhile."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

import pytest

from harness.processes.deadline import Deadline, until
from tests.halts import halt
from tests.live.helpers.handler_bed import Client, HandlerBed, RaisedError, answers
from tests.live.helpers.handler_cluster import Cluster, Server, cluster, kill, server

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

LIMIT = 5
JOBS = 100
WAIT_S = 90.0
# how long a master that was killed stays away
AWAY_S = 3.0
LIMITS: dict[str, Any] = {
    "criteria": "capacity",
    "max_master_jobs": LIMIT,
    "max_minion_jobs": 1,
    "minion_full": "wait",
    "long_running": 5,
    "reconcile_interval": 5,
}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Yield a PostgreSQL for the queue."""
    with server(tmp_path_factory.mktemp("postgres")) as found:
        yield found


@pytest.fixture(scope="module")
def setup(root: Path, tmp_path_factory: pytest.TempPathFactory, database: Server) -> Iterator[Cluster]:
    """Yield a cluster with tight limits; without the queue its first master publishes at once, the second refuses."""
    limits = {**LIMITS, "store": "postgresql", "postgresql": database.options()}
    sections = [{**limits, "fail_mode": mode} for mode in ("open", "closed")]
    with cluster(root, tmp_path_factory.mktemp("cluster"), sections) as found:
        yield found


class Pressure:
    """A thread that submits jobs for one minion each at a master until the end, and notes which were accepted."""

    def __init__(self, member: HandlerBed, minions: Sequence[str], seed: int) -> None:
        """Take the master."""
        self.accepted: dict[str, str] = {}
        self.refused = 0
        self._member = member
        self._minions = minions
        self._random = random.Random(seed)  # noqa: S311 - nothing secret
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        """Start."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self._end.set()
        self._thread.join()

    def busy(self) -> bool:
        """Return whether some jobs have been accepted."""
        return len(self.accepted) > 2

    def _run(self) -> None:
        with Client(self._member.bed) as client:
            while not self._end.wait(0.05):
                minion = self._random.choice(self._minions)
                try:
                    (jid,) = client.do("async", tgt=minion, fun="test.echo", arg=["x"], count=1)
                except RaisedError:
                    self.refused += 1
                else:
                    if jid != "0":
                        self.accepted[jid] = minion


def once(setup: Cluster, accepted: dict[str, str], sure: Sequence[str]) -> None:
    """Check that each job was executed at most once, and those of the minions `sure` exactly once."""
    wanted = {(jid, minion) for jid, minion in accepted.items() if minion in sure}

    def missing() -> dict[str, Any]:
        lost = wanted - set(setup.executions(list(accepted)))
        return {jid: setup.members[0].ask("show", jid=jid)["left_out"] for jid, _ in sorted(lost)}

    until(
        lambda: wanted <= set(setup.executions(list(accepted))),
        Deadline(WAIT_S),
        lambda: f"never executed, with the reasons: {missing()}",
    )
    for member in setup.members:
        member.idle()
    found = Counter(setup.executions(list(accepted)))
    lost = [pair for pair in accepted.items() if pair not in found]
    named = [pair for pair in lost if pair[1] in setup.members[0].ask("show", jid=pair[0])["left_out"]]
    print(f"of {len(accepted)} jobs {len(found)} were executed, {len(wanted)} had to be; {len(named)} have a reason")
    # an answer may have been lost on its way, and its client does not know of the job
    everything = Counter((row.jid, row.minion) for row in setup.returns() if row.fun in {"test.echo", "test.sleep"})
    assert [pair for pair, count in everything.items() if count > 1] == []


def goes_out(setup: Cluster, member: HandlerBed, minion: str) -> str:
    """Wait until a job that is submitted at a master that has to take over is executed, and return its id.

    How long that takes is printed: a busy machine takes longer.
    """
    begin, jids = time.monotonic(), list[str]()

    def executed() -> bool:
        if not jids:
            # with `fail_mode: closed` it is refused while nobody leads
            with suppress(RaisedError):
                jids.extend(member.submit(minion, "test.echo", ["x"]))
        return setup.executions(jids) == [(jid, minion) for jid in jids] != []

    until(executed, Deadline(WAIT_S), lambda: f"of {jids} none was executed")
    print(f"a job went out after {time.monotonic() - begin:.1f} s")
    return jids[0]


def test_one_master_leads(setup: Cluster) -> None:
    """Both masters answer with the state of one queue."""
    leader, follower = setup.leader(), setup.follower()
    assert leader.pid() == follower.pid()
    leader.ask("pause", paused=True)
    (jid,) = follower.submit("minion-00001", "test.echo", ["x"])
    for member in setup.members:
        done = member.bed.salt_run(["job_handler.list", "--out=json"])
        assert [job["jid"] for job in json.loads(done.stdout)] == [jid], done.stdout
        done = member.bed.salt_run(["job_handler.status", "--out=json"])
        assert json.loads(done.stdout)["queued"] == 1, done.stdout
    done = follower.bed.salt_run(["job_handler.resume"])
    assert done.returncode == 0, done.stdout
    once(setup, {jid: "minion-00001"}, ["minion-00001"])


def test_caller_at_the_follower(setup: Cluster) -> None:
    """He gets the answers of all minions, in several waves, and the exit code says whether they are complete."""
    everybody = setup.ids(0) + setup.ids(1)
    for member in (setup.follower(), setup.leader()):
        done = member.bed.salt(["*", "test.echo", "x", "--out=json"])
        assert (done.returncode, answers(done.stdout)) == (0, dict.fromkeys(everybody, "x")), done.stderr
        done = member.bed.salt(["*", "test.nothing", "--out=json"])
        assert done.returncode == 1
        assert len(answers(done.stdout)) == len(everybody)


def test_one_limit(setup: Cluster) -> None:
    """Of the jobs that both masters are asked for no more run at once than the limit says."""
    jids: list[str] = []

    def submit(member: HandlerBed, minions: Sequence[str]) -> None:
        for number in range(JOBS // 10):
            jids.extend(member.submit(minions[number % len(minions)], "test.sleep", ["0.3"], 10))

    everybody = setup.ids(0) + setup.ids(1)
    threads = [
        threading.Thread(target=submit, args=(member, everybody[place * 5 :]))
        for place, member in enumerate(setup.members)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(jids) == 2 * JOBS
    until(lambda: len(setup.executions(jids)) >= len(jids), Deadline(WAIT_S), lambda: "executions are missing")
    assert len(set(setup.executions(jids))) == len(setup.executions(jids)) == len(jids)
    assert 1 < setup.most_at_once(jids) <= LIMIT


@pytest.mark.parametrize("rounds", [2, pytest.param(10, marks=pytest.mark.long)])
def test_killed_master(setup: Cluster, rounds: int) -> None:
    """The leader is killed, and the follower, with jobs on their way from both; the other one has the queue."""
    rng = random.Random(rounds)  # noqa: S311 - nothing secret
    for number in range(rounds):
        leader, follower = setup.leader(), setup.follower()
        victim, survivor = (leader, follower) if number % 2 == 0 else (follower, leader)
        own = setup.ids(setup.members.index(survivor))
        everybody = setup.ids(0) + setup.ids(1)
        with Pressure(victim, everybody, number) as first, Pressure(survivor, everybody, number + 100) as second:
            for caller in (first, second):
                until(caller.busy, Deadline(WAIT_S), lambda: "no job is accepted")
            # the moment is what is tried here, it is no wait for anything
            time.sleep(rng.random())
            kill(victim)
            goes_out(setup, survivor, own[0])
            time.sleep(AWAY_S)
            victim.bed.restart_master()
            victim.pid()
        once(setup, first.accepted | second.accepted, own)


def test_suspended_leader(setup: Cluster) -> None:
    """The leader's job handler stands still with jobs on their way; the other one leads, and nothing goes out twice."""
    leader, follower = setup.leader(), setup.follower()
    pid = leader.pid()
    own = setup.ids(0) + setup.ids(1)
    with Pressure(follower, own, 1) as found:
        until(found.busy, Deadline(WAIT_S), lambda: "no job is accepted")
        halt(pid)
        try:
            jid = goes_out(setup, follower, own[0])
            taken = follower.pid(other_than=pid)
        finally:
            os.kill(pid, signal.SIGCONT)
        until(lambda: leader.pid() == taken, Deadline(WAIT_S), lambda: "the suspended master leads")
    assert setup.leader() is follower
    once(setup, found.accepted | {jid: own[0]}, own)


def test_stopped_postgresql(setup: Cluster, database: Server) -> None:
    """While PostgreSQL does not run, one master publishes at once, the other refuses; then the queue is back."""
    published, refuses = setup.members
    for member in setup.members:
        member.pid()
    published.ask("pause", paused=True)
    (waits,) = refuses.submit("minion-00003", "test.echo", ["waits"])
    database.stop()
    try:
        (jid,) = published.submit("minion-00001", "test.echo", ["x"])
        until(lambda: setup.executions([jid]), Deadline(WAIT_S), lambda: "it was not published at once")
        with pytest.raises(RaisedError, match=r"^JobQueueFullError: .* fail_mode is closed"):
            refuses.submit("minion-00002", "test.echo", ["x"])
        assert refuses.bed.salt(["minion-00002", "test.ping"]).returncode == 0
    finally:
        database.start()
    for member in setup.members:
        member.pid()
    assert [job["jid"] for job in refuses.ask("list")["jobs"]] == [waits]
    refuses.ask("pause", paused=False)
    once(setup, {waits: "minion-00003", jid: "minion-00001"}, ["minion-00003", "minion-00001"])


# failed once beside other beds: its fleet was not ready within three minutes
@pytest.mark.long
def test_each_master_has_its_own_sqlite(root: Path, tmp_path: Path) -> None:
    """Masters that share a cachedir and have no queue in common do not touch each other's."""
    with cluster(root, tmp_path, [LIMITS, LIMITS], survives=False) as found:
        first, second = found.members
        assert first.pid() != second.pid()
        folders = sorted((found.cache / "job_handler").iterdir())
        assert len(folders) == 2
        for member in found.members:
            member.ask("pause", paused=True)
        jids = [member.submit("minion-00001", "test.echo", ["x"])[0] for member in found.members]
        for member, jid in zip(found.members, jids, strict=True):
            assert [job["jid"] for job in member.ask("list")["jobs"]] == [jid]
        pid = second.pid()
        os.kill(pid, signal.SIGKILL)
        second.pid(other_than=pid)
        for member, jid in zip(found.members, jids, strict=True):
            assert [job["jid"] for job in member.ask("list")["jobs"]] == [jid]
            member.ask("pause", paused=False)
        once(found, dict.fromkeys(jids, "minion-00001"), ["minion-00001"])


@pytest.mark.long
def test_functional(root: Path, database: Server) -> None:
    """The job handler's functional tests pass on PostgreSQL."""
    argv = [sys.executable, "-m", "patches", "suite", "salt/tests/pytests/functional/job_handler", "--", "-q"]
    environment = {**os.environ, "SALT_JOB_HANDLER_POSTGRESQL": database.postgres.dsn, "PYTHONHASHSEED": "0"}
    done = subprocess.run(argv, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
