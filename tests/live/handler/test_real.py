"""Real minions keep their slots: they connect again, the master is restarted or killed, and their jobs run on."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from harness.processes.deadline import Deadline, until
from tests.live.helpers import real_minion
from tests.live.helpers.handler_bed import HandlerBed, handler_bed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

REAL = "real-00000"
SECONDS = "600"
LIMITS = {
    "criteria": "capacity",
    "max_minion_jobs": 1,
    "minion_full": "wait",
    "long_running": 10,
    "reconcile_interval": 5,
}


@pytest.fixture(scope="module", params=["zeromq", "tcp"])
def setup(root: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HandlerBed]:
    """Yield a patched master with a real minion beside a simulated one."""
    folder = tmp_path_factory.mktemp("real")
    with handler_bed(root, folder, 1, LIMITS, transport=request.param) as found:
        real_minion.start(found.bed, REAL)
        yield found


def running(setup: HandlerBed) -> list[str]:
    """Return the ids of the jobs that the minion runs, as it says itself; none while it is not connected."""
    # a question that a minion misses while it connects again is not answered: ask again soon
    done = setup.bed.salt([REAL, "saltutil.running", "--out=json", "-t", "10"])
    found = json.loads(done.stdout or "{}").get(REAL)
    jids = [job["jid"] for job in found] if isinstance(found, list) else []
    # the job handler's own questions are jobs as well
    return [jid for jid in jids if not jid.endswith("_0")]


def cut(setup: HandlerBed) -> None:
    """Cut all connections of the minion's machine to the master's publisher."""
    port = setup.bed.master.publish_port
    for side in ("dport", "sport"):
        subprocess.run(["ss", "-K", side, "=", f":{port}"], check=False, capture_output=True)


def first_runs_alone(setup: HandlerBed, first: str, second: str) -> None:
    """Check for some rounds of questions that the first job runs, and that the second waits."""
    deadline = Deadline(45)
    while deadline.left() > 0:
        assert running(setup) == [first]
        assert [setup.ask("show", jid=jid)["running_on"] for jid in (first, second)] == [[REAL], []]
    assert setup.ask("show", jid=second)["state"] == "queued"


@pytest.fixture
def jobs(setup: HandlerBed) -> Iterator[list[str]]:
    """Yield two long jobs of the minion: the first one runs, the second one waits. End them."""
    found = setup.submit([REAL], "test.sleep", [SECONDS], 2)
    until(lambda: running(setup) == found[:1], Deadline(60), lambda: f"{running(setup)} run")
    yield found
    for jid in reversed(found):
        setup.bed.salt([REAL, "saltutil.kill_job", jid, "-t", "20"])
    until(lambda: not running(setup), Deadline(60), lambda: f"{running(setup)} run still")


def test_minion_that_connects_again(setup: HandlerBed, jobs: list[str]) -> None:
    """Its publish connection is cut; its job runs on, and the next one waits."""
    cut(setup)
    first_runs_alone(setup, *jobs)


def test_restarted_master(setup: HandlerBed, jobs: list[str]) -> None:
    """The same when the master is restarted: the minion connects again."""
    setup.bed.restart_master()
    setup.pid()
    until(lambda: running(setup) == jobs[:1], Deadline(120), lambda: "the minion does not come back")
    first_runs_alone(setup, *jobs)
