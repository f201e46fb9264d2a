"""Charges that leak come back, and those of jobs that run or wait on their minion don't: check 12 of the job handler.

A tenth of the minions die in mid-job, one return event in twenty is lost on its way to the job handler, and its
connection to the bus is cut.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from evil_minions import Selection
from harness.processes.deadline import Deadline, until
from tests.live.helpers.event_bus_proxy import EventBusProxy
from tests.live.helpers.handler_bed import IPC_MODE, HandlerBed, handler_bed

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.live,
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif(IPC_MODE != "ipc", reason="what loses events takes the place of a Unix socket"),
]

THRESHOLD_S, ROUND_S = 4, 4
# two rounds of asking, and for each of them a tick; the rest is for a machine that is busy
WHOLE_S = THRESHOLD_S + 2 * ROUND_S + 2
BUSY_S = 60.0
ONE_IN = 20
FULL, LASTING = "minion-00000", "minion-00001"


@pytest.fixture(scope="module", params=[100, pytest.param(1000, marks=pytest.mark.long)])
def setup(
    request: pytest.FixtureRequest, root: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HandlerBed]:
    """Yield a patched master whose limit is half of the fleet."""
    limits = {"criteria": "capacity", "max_master_jobs": request.param // 2 + 5}
    limits |= {"long_running": THRESHOLD_S, "reconcile_interval": ROUND_S}
    with handler_bed(root, tmp_path_factory.mktemp("handler"), request.param, limits) as found:  # type: ignore[arg-type]  # each has the field's type
        yield found


def test_capacities_are_whole_again(setup: HandlerBed) -> None:
    """Everything comes back within the threshold and two rounds, but for what really runs or waits on a minion."""
    ids = setup.bed.settings.minion_ids()
    control = setup.fleet.control
    control.order("behaviour", Selection(tgt=[FULL], tgt_type="list"), behaviour="minion-queue")
    with EventBusProxy(setup.bed.master.sock_dir / "master_event_pub.ipc", ONE_IN) as proxy:
        old = setup.pid()
        os.kill(old, signal.SIGKILL)
        proxy.lossy = setup.pid(other_than=old)
        # two jobs run on a minion that runs two at a time, and a third one waits in its own queue
        kept = setup.submit(FULL, "test.sleep", ["600"], 3)
        kept += setup.submit(LASTING, "test.sleep", ["600"])
        until(lambda: setup.arrivals(kept) == kept, Deadline(BUSY_S), lambda: "the lasting jobs do not arrive")
        others = [minion for minion in ids if minion not in (FULL, LASTING)]
        half = len(others) // 2
        jobs = setup.submit(others[:half], "test.sleep", ["8"])
        until(lambda: setup.arrivals(jobs) == jobs, Deadline(BUSY_S), lambda: "the job does not arrive")
        killed = control.order("kill", Selection(tgt=others[: len(ids) // 10], tgt_type="list"))
        assert killed == len(ids) // 10
        # whoever is alive gets five jobs more, one after the other, of which each leaks one return in twenty
        jobs += [jid for _ in range(5) for jid in setup.submit(others[half:], "test.echo", ["x"])]
        until(lambda: not setup.ask("status")["queued"], Deadline(2 * BUSY_S), lambda: f"{setup.ask('status')}")
        assert proxy.cut(proxy.lossy) == 1
        living = 5 * len(others[half:]) + half - killed
        until(lambda: len(setup.executions(jobs)) >= living, Deadline(BUSY_S), lambda: "jobs are missing")

        def whole() -> bool:
            return bool(setup.ask("status")["capacity"]["used"] <= len(kept))

        until(
            whole,
            Deadline(WHOLE_S + 2 * THRESHOLD_S + BUSY_S),
            lambda: f"capacities are not whole: {setup.ask('status')}",
        )
        assert proxy.lost >= len(ids) // ONE_IN
        # not once more or less, for as long as it would take to find that they leaked
        rounds = setup.fleet.control.status().counters.executions
        until(
            lambda: setup.fleet.control.status().counters.executions > rounds + 4,
            Deadline(BUSY_S),
            lambda: "the maintenance does not ask about the jobs that last",
        )
        status = setup.ask("status")
        assert status["capacity"]["used"] == len(kept)
        assert [setup.ask("show", jid=jid)["running_on"] for jid in kept] == [[FULL]] * 3 + [[LASTING]]
        # of those alive, some may have lost two answers in a row: they count again as soon as they are heard of
        assert status["silent_minions"] >= killed
        proxy.lossy = 0
        setup.submit(others[len(ids) // 10 :], "test.echo", ["x"])
        until(
            lambda: setup.ask("status")["silent_minions"] == killed,
            Deadline(BUSY_S),
            lambda: f"other minions than the dead count as such: {setup.ask('status')}",
        )
    assert len(set(setup.executions(jobs))) == len(setup.executions(jobs)) == living
