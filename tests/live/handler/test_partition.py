"""The job handler while half of a fleet is cut off under load, and when it comes back."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Self

import pytest

from evil_minions import Selection
from evil_minions.samples import JobRow, read_samples
from harness.errors import StartError
from tests.live.helpers.handler_bed import Client, HandlerBed, RaisedError, handler_bed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECONDS = float(os.environ.get("SALTBED_PARTITION_S", "120"))
MINIONS, LIMIT = 60, 12
IDS = [f"minion-{number:05d}" for number in range(MINIONS)]
NEAR, FAR = IDS[: MINIONS // 2], IDS[MINIONS // 2 :]
# jobs wait until their predecessors are done, and those of minions that are cut off until these have been asked
WAIT_S = 45.0

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.timeout(SECONDS + 900)]


@pytest.fixture(scope="module", params=["defaults", "eager"])
def setup(request: pytest.FixtureRequest, root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HandlerBed]:
    """Yield a patched master with a limit, once with the defaults and once with one that asks early."""
    limits = {"criteria": "capacity", "max_master_jobs": LIMIT}
    if request.param == "eager":
        limits |= {"long_running": 8, "reconcile_interval": 5, "max_minion_jobs": 2}
    with handler_bed(root, tmp_path_factory.mktemp("partition"), MINIONS, limits) as found:
        yield found


class Load:
    """A thread that asks for jobs on single minions until it is told to stop, and notes which were accepted when."""

    def __init__(self, setup: HandlerBed) -> None:
        """Take the bed; the minions are chosen at random."""
        self.setup = setup
        self.accepted: dict[str, tuple[float, str]] = {}
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

    def _run(self) -> None:
        rng = random.Random(4)  # noqa: S311 - nothing secret
        with Client(self.setup.bed) as client:
            # somewhat more than the limit lets through, but for what the queue holds
            while not self._end.wait(0.08):
                minion = rng.choice(IDS)
                with suppress(RaisedError):
                    (jid,) = client.do("async", tgt=minion, fun="test.sleep", arg=["1"], tgt_type="glob", count=1)
                    self.accepted[jid] = (time.time(), minion)


def test_half_of_the_fleet_is_cut_off(setup: HandlerBed) -> None:
    """The other half's jobs are executed meanwhile; jobs whose leases expired may run beside them when all are back."""
    control = setup.fleet.control
    with Load(setup) as load:
        # the moments are what is tried here, they are no wait for anything
        time.sleep(20)
        control.order("partition", Selection(tgt=FAR, tgt_type="list"))
        cut = time.time()
        time.sleep(SECONDS)
        control.order("heal")
        healed = time.time()
        time.sleep(30)
    with suppress(StartError):
        setup.idle()
    rows = setup.returns()
    found = Counter((row.jid, row.minion) for row in rows)
    ended = {row.jid: row.time - row.seconds for row in rows}
    begun = {row.jid: row.time for row in read_samples(setup.fleet.folder, JobRow)}
    lost, late = [], []
    for jid, (since, minion) in load.accepted.items():
        if minion not in NEAR:
            continue
        if not found[jid, minion]:
            shown = setup.ask("show", jid=jid)
            # one that runs as many jobs as it may is left out, and that is said
            if "slots occupied" not in shown["left_out"].get(minion, ""):
                lost.append((jid, minion, shown))
        elif cut <= since < healed - WAIT_S and ended[jid] > healed:
            late.append((jid, minion, since - cut, ended[jid] - cut))
    meanwhile = sum(1 for jid, end in ended.items() if jid in load.accepted and cut <= end < healed)
    most = setup.most_at_once(list(load.accepted))
    after = sum(1 for jid, begin in begun.items() if jid in load.accepted and healed <= begin < healed + 1)
    print(f"{len(load.accepted)} accepted, {meanwhile} executed while cut, most {most}, {after} begun in 1 s after it")
    assert lost == []
    assert late == []
    # what was published to the lost half before anybody could know is the whole limit; its leases expire, and it may
    # run when these minions are back. Others of that half are asked first, so they get nothing
    assert most <= LIMIT * 2
    assert {pair for pair, count in found.items() if count > 1} == set()
    assert not setup.ask("status")["capacity"]["used"]
