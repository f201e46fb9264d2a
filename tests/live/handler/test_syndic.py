"""The job handler on a master of masters: it counts jobs, and leaves the targets alone that only the syndic knows."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import pytest

from harness.bed import Bed, BedSettings
from harness.errors import StartError
from harness.processes.deadline import Deadline, until
from tests.live.helpers import syndic
from tests.live.helpers.handler_bed import TRANSPORT, Client, HandlerBed, RaisedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.timeout(600)]

MINIONS = 10
WAIT_S = 180


class Masters(NamedTuple):
    """A master of masters and the one below it."""

    above: HandlerBed
    below: HandlerBed


@pytest.fixture(scope="module")
def masters(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Masters]:
    """Yield a patched master of masters with room for one job, and one with a short queue that has the minions."""
    # the syndic takes up to six seconds to pass a job on
    limits = {"criteria": "capacity", "max_master_jobs": 1, "long_running": 20, "reconcile_interval": 2}
    below_limits = {"criteria": "capacity", "max_queue_size": 3}
    bare = {"pillar": "none", "postgres": "none", "api": None, "tree": root / "salt", "transport": TRANSPORT}
    upper = BedSettings(
        folder=tmp_path_factory.mktemp("upper"),
        master_options={"rate_limiting": limits, "order_masters": True},
        **bare,  # type: ignore[arg-type]  # each has the field's type
    )
    with Bed(upper) as above, Client(above) as client:
        lower = BedSettings(
            folder=tmp_path_factory.mktemp("lower"),
            minions=MINIONS,
            master_options={**syndic.options(above), "rate_limiting": below_limits},
            **bare,  # type: ignore[arg-type]  # each has the field's type
        )
        with Bed(lower) as below, Client(below) as lower_client:
            fleet = below.start_fleet()
            fleet.wait_ready(WAIT_S)
            syndic.start(above, below, TRANSPORT)
            found = HandlerBed(above, fleet, client)

            def reached() -> bool:
                (jid,) = found.submit("minion-*", "test.ping")
                try:
                    until(lambda: found.arrivals([jid]), Deadline(10), lambda: "the job does not arrive")
                except StartError:
                    return False
                return True

            until(reached, Deadline(WAIT_S), lambda: "the syndic takes no jobs")
            yield Masters(found, HandlerBed(below, fleet, lower_client))


@pytest.fixture
def setup(masters: Masters) -> HandlerBed:
    """Return the master of masters."""
    return masters.above


@pytest.mark.parametrize("target", ["minion-*", "*"])
def test_jobs_go_one_after_the_other(setup: HandlerBed, target: str) -> None:
    """The second job waits for the first one, and both reach everybody behind the syndic once."""
    setup.idle()
    setup.ask("pause", paused=True)
    jids = setup.submit(target, "test.sleep", ["1"], 2)
    assert [job["jid"] for job in setup.ask("list")["jobs"]] == jids
    setup.ask("pause", paused=False)
    until(lambda: setup.arrivals(jids) == jids[:1], Deadline(WAIT_S), lambda: "the first job does not arrive")
    assert setup.ask("show", jid=jids[1])["state"] == "queued"
    ids = [f"minion-{number:05d}" for number in range(MINIONS)]
    expected = Counter((jid, minion) for jid in jids for minion in ids)
    until(lambda: len(setup.executions(jids)) >= len(expected), Deadline(WAIT_S), lambda: "executions are missing")
    assert Counter(setup.executions(jids)) == expected
    assert setup.arrivals(jids) == jids


def test_full_queue_below(masters: Masters) -> None:
    """The syndic asks again, passes other jobs on meanwhile, and no minion loses the job."""
    above, below = masters
    above.idle()
    below.ask("pause", paused=True)
    with pytest.raises(RaisedError, match="JobQueueFullError"):
        below.submit("minion-00000", "test.echo", ["x"], 9)
    (jid,) = above.submit("*", "test.echo", ["passed on"])

    (ping,) = above.submit("*", "test.ping")
    # the syndic passes jobs on in their order, so it was refused before
    until(lambda: below.arrivals([ping]), Deadline(WAIT_S), lambda: "the syndic passes nothing on")
    assert below.arrivals([jid]) == []
    below.ask("pause", paused=False)
    until(lambda: len(below.executions([jid])) >= MINIONS, Deadline(WAIT_S), lambda: "executions are missing")
    assert len(below.executions([jid])) == MINIONS
