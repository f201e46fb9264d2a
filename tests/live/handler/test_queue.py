"""The job handler on a real master: order, limits, waves, minions at their own limit, batches, forged events."""

from __future__ import annotations

import json
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from evil_minions import Selection
from harness.processes.deadline import Deadline, until
from tests.live.helpers.handler_bed import Client, HandlerBed, answers, handler_bed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

MINIONS = 100
LIMIT = 50
BUSY = "minion-00007"
FORGED = "20300101000000000000"


@pytest.fixture(scope="module")
def setup(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HandlerBed]:
    """Yield a patched master with a limit of 50 and of 2 per minion, and 100 simulated minions."""
    limits = {"criteria": "capacity.py", "max_master_jobs": LIMIT, "max_minion_jobs": 2, "long_running": 3}
    options = {"nodegroups": {"ten": "minion-0000*"}}
    with handler_bed(
        root, tmp_path_factory.mktemp("handler"), MINIONS, {**limits, "reconcile_interval": 2}, master_options=options
    ) as found:
        yield found


def ids(setup: HandlerBed) -> list[str]:
    """Return the fleet's ids."""
    return setup.bed.settings.minion_ids()


def test_two_hundred_jobs_under_a_limit_of_fifty(setup: HandlerBed) -> None:
    """At most 50 are in flight at any time; all 200 run exactly once and in order."""
    jids = [jid for number in range(200) for jid in setup.submit(ids(setup)[number % MINIONS], "test.sleep", ["1"])]
    expected = [(jid, ids(setup)[number % MINIONS]) for number, jid in enumerate(jids)]
    assert sorted(setup.complete(jids, 200)) == sorted(expected)
    assert setup.arrivals(jids) == jids
    assert 10 < setup.most_at_once(jids) <= LIMIT


def test_wide_job_and_the_next_one(setup: HandlerBed) -> None:
    """A job wider than the limit reaches everybody once, under one job id, and the next one follows."""
    (wide,) = setup.submit("*", "test.sleep", ["1"])
    (following,) = setup.submit("minion-00001", "test.echo", ["next"])
    assert setup.ask("show", jid=wide)["state"] == "queued"
    assert Counter(minion for _, minion in setup.complete([wide], MINIONS)) == Counter(ids(setup))
    assert setup.arrivals([wide, following]) == [wide, following]


def test_synchronous_wide_job_gets_every_answer(setup: HandlerBed) -> None:
    """A command line whose job goes out in waves waits for all of them, without asking where they are."""
    before = setup.fleet.control.status().counters
    done = setup.bed.salt(["*", "test.echo", "hello", "--out=json", "--timeout=20"])
    assert answers(done.stdout) == dict.fromkeys(ids(setup), "hello")
    assert done.returncode == 0
    after = setup.fleet.control.status().counters
    assert after.returns - before.returns == MINIONS


TARGETS = [
    ("glob", "minion-0000*", 10),
    ("list", "minion-00006,minion-00007,minion-00008", 3),
    ("list", ["minion-00007", "minion-00009"], 2),
    ("pcre", "minion-0000[5-9]", 5),
    ("grain", f"id:{BUSY}", 1),
    ("grain", "id:minion-0000*", 10),
    ("grain_pcre", "id:minion-0000[67]", 2),
    ("compound", "minion-0000* and not E@minion-0000[0-4]", 5),
    ("nodegroup", "ten", 10),
    ("ipcidr", "10.16.0.8", 1),
    ("ipcidr", "10.16.0.8/29", 8),
]


@pytest.fixture(scope="class")
def busy(setup: HandlerBed) -> Iterator[list[str]]:
    """Keep one minion at its limit of two jobs, and then no longer."""
    setup.idle()
    jids = setup.submit(BUSY, "test.sleep", ["600"], 2)
    until(lambda: setup.arrivals(jids) == jids, Deadline(20), lambda: "the minion is not busy")
    yield jids
    # functions of saltutil are exempt, so this reaches it
    for jid in jids:
        setup.bed.salt([BUSY, "saltutil.kill_job", jid])
    setup.idle()


class TestBusyMinion:
    """A minion at its limit."""

    @pytest.mark.parametrize(("kind", "target", "wide"), TARGETS, ids=[f"{kind} {tgt}" for kind, tgt, _ in TARGETS])
    def test_busy_minion_is_left_out(
        self, setup: HandlerBed, busy: list[str], kind: str, target: str | list[str], wide: int
    ) -> None:
        """The third job reaches all but that minion, for every target type, and nobody waits for it."""
        assert len(busy) == 2
        before = setup.returns()
        found = setup.client.do("cmd", tgt=target, fun="test.echo", arg=["third"], tgt_type=kind, timeout=20)
        reached = sorted(minion for minion, answer in found.items() if answer == "third")
        assert len(found) == wide
        assert reached == sorted(set(found) - {BUSY})
        assert found[BUSY] == "Minion did not get the job. [the minion has 2 of 2 slots occupied]"
        # the client asked nobody where its answer is
        assert "saltutil.find_job" not in {row.fun for row in setup.returns()[len(before) :]}

    def test_command_line_names_the_busy_minion(self, setup: HandlerBed, busy: list[str]) -> None:
        """The command line says who was left out and why, and fails as for any minion that did not return."""
        assert len(busy) == 2
        done = setup.bed.salt(["minion-0000*", "test.echo", "x", "--timeout=20"])
        assert f"{BUSY}:\n    Minion did not get the job. [the minion has 2 of 2 slots occupied]" in done.stdout
        assert done.returncode == 1

    def test_lease_of_what_really_runs_is_renewed(self, setup: HandlerBed, busy: list[str]) -> None:
        """The maintenance asks about the long-running jobs, and their leases do not end."""
        before = setup.fleet.control.status().counters.returns
        until(
            lambda: setup.fleet.control.status().counters.returns > before + 1,
            Deadline(30),
            lambda: "the maintenance does not ask",
        )
        assert [setup.ask("show", jid=jid)["running_on"] for jid in busy] == [[BUSY], [BUSY]]


def test_batch_under_contention(setup: HandlerBed) -> None:
    """A batch of 10 has never more than 10 at a time, and ends complete, while other jobs fill the master."""
    others = [minion for minion in ids(setup) if minion != BUSY]
    before = setup.returns()
    load = setup.submit(others, "test.sleep", ["2"])
    done = setup.bed.salt(
        ["-L", ",".join(others[:40]), "test.sleep", "1", "--batch=10", "--timeout=3", "--out=json", "--static"],
        timeout=120,
    )
    found = answers(done.stdout)
    assert {minion: answer for minion, answer in found.items() if answer is not True} == {}
    assert set(found) == set(others[:40])
    slept = {row.jid for row in setup.returns() if (row.fun, row.minion) == ("test.sleep", others[0])}
    (batch,) = slept - set(load) - {row.jid for row in before}
    ends = sorted(row.time - row.seconds for row in setup.returns() if row.jid == batch)
    # each sleeps for a second, so ten that end before an eleventh one do so a second before it
    assert len(ends) == 40
    assert min(late - early for early, late in zip(ends, ends[10:], strict=False)) > 0.9
    until(lambda: len(setup.executions(load)) == len(others), Deadline(60), lambda: "jobs are missing")


def test_new_key_of_publications_with_a_queue(setup: HandlerBed) -> None:
    """Jobs that wait while the master changes the key of publications are all delivered."""
    setup.ask("pause", paused=True)
    jids = [jid for minion in ids(setup)[20:70] for jid in setup.submit(minion, "test.echo", ["x"], 2)]
    assert len(jids) == 100
    setup.bed.run("salt-key", ["--delete=minion-00099", "--yes"])
    setup.ask("pause", paused=False)
    until(lambda: len(setup.executions(jids)) == len(jids), Deadline(90), lambda: "jobs are missing")
    assert len(set(setup.executions(jids))) == len(jids)
    # the one whose key is gone hands it in again when it starts
    one, control = Selection(None, "minion-00099"), setup.fleet.control
    assert (control.order("kill", one), control.order("revive", one)) == (1, 1)
    until(lambda: control.status().ready == MINIONS, Deadline(90), lambda: "the minion stays away")


def fire(setup: HandlerBed, minion: str, data: dict[str, Any], tag: str) -> None:
    """Have a minion fire an event, one after the other: a minion at its limit would be left out."""
    jids = setup.submit(minion, "event.fire_master", [data, tag])
    until(lambda: setup.executions(jids), Deadline(30), lambda: f"{tag} is not fired")


@pytest.mark.long
def test_forged_events(setup: HandlerBed) -> None:
    """What a minion fires under the tags of others queues nothing and frees nothing."""
    forger, victim, sleeper = "minion-00030", "minion-00031", "minion-00032"
    (running,) = setup.submit(sleeper, "test.sleep", ["600"])
    until(lambda: setup.arrivals([running]) == [running], Deadline(30), lambda: "the job does not arrive")
    # the jobs of the busy minion may have leases as well
    before = setup.ask("status")
    job: dict[str, Any] = {
        "fun": "test.echo",
        "arg": ["forged"],
        "tgt": victim,
        "tgt_type": "list",
        "ret": "",
        "user": "root",
    }
    job |= {"jid": FORGED, "minions": [victim], "id": victim, "cmd": "submit"}
    tags = [f"salt/job/{job['jid']}/{kind}" for kind in ("new", "publish", "queued", "dispatched")]
    tags += [f"salt/job/{job['jid']}/ret/{victim}" for _ in range(5)]
    tags += [f"salt/minion/{sleeper}/start", "salt/job_handler/submit", "salt/job_handler/unavailable"]
    for tag in tags:
        fire(setup, forger, job, tag)
    after = setup.ask("status")
    assert after["submitted"] == before["submitted"] + len(tags)
    assert after["capacity"]["used"] == before["capacity"]["used"]
    assert setup.ask("show", jid=running)["running_on"] == [sleeper]
    assert setup.executions([FORGED]) == []
    # not even under the id of a job that runs
    for _ in range(3):
        fire(setup, forger, {"jid": running, "id": sleeper}, f"salt/job/{running}/ret/{sleeper}")
    after = setup.ask("status")["capacity"]
    assert (after["used"], after["leases"]) == (before["capacity"]["used"], before["capacity"]["leases"])
    assert setup.ask("show", jid=running)["running_on"] == [sleeper]
    setup.bed.salt([sleeper, "saltutil.kill_job", running])


def test_cancelled_and_discarded_jobs_never_run(setup: HandlerBed) -> None:
    """A synchronous job that waits past its timeout is never on the wire; its asynchronous twin runs."""
    setup.ask("pause", paused=True)
    (cancelled,) = setup.submit("minion-00011", "test.echo", ["cancelled"])
    found: dict[str, Any] = {}

    def wait() -> None:
        with Client(setup.bed) as client:
            found.update(client.do("cmd", tgt="minion-00012", fun="test.echo", arg=["late"], timeout=2))

    thread = threading.Thread(target=wait)
    thread.start()
    (twin,) = setup.submit("minion-00012", "test.echo", ["twin"])
    thread.join(60)
    assert setup.ask("cancel", jid=cancelled)["cancelled"] == 1
    assert [job["jid"] for job in setup.ask("list")["jobs"]] == [twin]
    setup.ask("pause", paused=False)
    until(lambda: setup.executions([twin]), Deadline(30), lambda: "the twin does not run")
    reason = "It waited in the master's queue for longer than its caller did"
    assert found == {"minion-00012": f"Minion did not get the job. [{reason}]"}
    assert setup.executions([cancelled]) == []


def test_runner(setup: HandlerBed) -> None:
    """The runner shows what waits and why."""
    setup.ask("pause", paused=True)
    (jid,) = setup.submit("minion-00013", "test.echo", ["x"])
    listed = json.loads(setup.bed.salt_run(["job_handler.list", "--out=json"]).stdout)
    assert [(job["jid"], job["waiting"]) for job in listed] == [(jid, 1)]
    setup.bed.salt_run(["job_handler.resume"])
    until(lambda: setup.executions([jid]), Deadline(30), lambda: "the job does not run")
