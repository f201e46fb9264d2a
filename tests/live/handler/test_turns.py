"""Whose turn it is on a real master: full minions, users that take turns, orders, bytes, other transports."""

from __future__ import annotations

import base64
import http.client
import json
import os
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from evil_minions import TRANSPORTS
from harness.bed import api
from harness.bed.settings import ApiSettings
from harness.processes.deadline import Deadline, until
from harness.processes.ports import HOST
from tests.live.helpers.handler_bed import HandlerBed, RaisedError, handler_bed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

MINIONS = 20
FIRST, SECOND, THIRD = (f"minion-{number:05d}" for number in range(3))


@pytest.fixture(scope="module")
def setup(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HandlerBed]:
    """Yield a patched master on which a minion runs one job at a time and jobs wait for it, and a salt-api."""
    limits = {"criteria": "capacity", "max_master_jobs": 4, "max_minion_jobs": 1, "minion_full": "wait", "reserve": 0}
    limits |= {"max_queue_bytes": 100_000}
    with handler_bed(root, tmp_path_factory.mktemp("turns"), MINIONS, limits, api=ApiSettings()) as found:
        yield found


@pytest.fixture
def paused(setup: HandlerBed) -> Iterator[HandlerBed]:
    """Yield the master with a queue that stands still."""
    setup.idle()
    setup.ask("pause", paused=True)
    yield setup
    setup.ask("pause", paused=False)


def test_job_waits_for_a_minion_that_is_full(setup: HandlerBed) -> None:
    """Its part for that minion goes out when there is room, the others' at once, and the caller gets all answers."""
    (long,) = setup.submit(FIRST, "test.sleep", ["3"])
    until(lambda: setup.arrivals([long]) == [long], Deadline(20), lambda: "the job does not arrive")
    targets = [FIRST, SECOND, THIRD]
    found = setup.client.do("cmd", tgt=targets, fun="test.echo", arg=["x"], tgt_type="list", timeout=20)
    assert found == dict.fromkeys(targets, "x")

    def echoes() -> list[str]:
        rows = sorted(setup.returns(), key=lambda row: row.time)
        return [row.minion for row in rows if row.fun == "test.echo"]

    # the fleet writes its samples a moment after it has sent a return
    until(lambda: len(echoes()) == len(targets), Deadline(20), lambda: f"only {echoes()} are written down")
    order = echoes()
    assert sorted(order[:2]) == [SECOND, THIRD]
    assert order[2:] == [FIRST]
    ends = {row.fun: row.time for row in setup.returns() if row.minion == FIRST}
    assert ends["test.sleep"] <= ends["test.echo"]


def test_others_pass_a_job_that_waits_for_its_minion(setup: HandlerBed) -> None:
    """A job for a full minion holds nobody up."""
    (long,) = setup.submit(FIRST, "test.sleep", ["3"])
    (waits,) = setup.submit(FIRST, "test.echo", ["x"])
    (passes,) = setup.submit(SECOND, "test.echo", ["x"])
    assert len(setup.complete([long, waits, passes], 3)) == 3
    assert setup.arrivals([long, waits, passes]) == [long, passes, waits]


def test_users_take_turns(paused: HandlerBed) -> None:
    """Who floods the queue waits behind himself: another user's job goes before most of his."""
    flood = [jid for number in range(30) for jid in paused.submit(f"minion-{number % 10:05d}", "test.sleep", ["0.2"])]
    token = api.login(paused.bed.api)
    connection = http.client.HTTPConnection(HOST, paused.bed.api.port, timeout=60)
    body = json.dumps([{"client": "local_async", "tgt": "minion-00015", "fun": "test.sleep", "arg": ["0.2"]}])
    headers = {"X-Auth-Token": token, "Content-Type": "application/json", "Accept": "application/json"}
    connection.request("POST", "/", body, headers)
    answer = json.loads(connection.getresponse().read())
    connection.close()
    jid = answer["return"][0]["jid"]
    waiting = paused.ask("list")["jobs"]
    assert (waiting[-1]["jid"], waiting[-1]["position"]) == (jid, 31)
    assert len({line["user"] for line in waiting}) == 2
    paused.ask("pause", paused=False)
    assert len(paused.complete([*flood, jid], 31)) == 31
    # the first of both have had nothing so far, and the older one of these goes first
    assert paused.arrivals([*flood, jid]).index(jid) <= 2


def test_orders(paused: HandlerBed) -> None:
    """A job that is held stays, one with a priority goes first, and the held one goes when it is released."""
    first, held, urgent = (paused.submit(minion, "test.echo", ["x"])[0] for minion in (FIRST, SECOND, THIRD))
    assert paused.ask("order", jid=held, held=True) == {"minions": 1}
    paused.ask("order", jid=urgent, priority=5)
    paused.ask("pause", paused=False)
    until(
        lambda: len(paused.executions([first, urgent])) == 2,
        Deadline(20),
        lambda: "the jobs are not executed",
    )
    assert paused.arrivals([first, held, urgent]) == [urgent, first]
    assert paused.ask("show", jid=held)["waiting"][0]["reason"] == "an administrator holds it"
    paused.ask("order", jid=held, held=False)
    assert paused.complete([held], 1) == [(held, SECOND)]


def test_bytes_of_the_queue(paused: HandlerBed) -> None:
    """Jobs with large arguments fill a queue that has places left; room comes back with those that go."""
    # the queue takes what it has compressed, and these can't be
    large = base64.b64encode(os.urandom(24_000)).decode()
    accepted = paused.submit(FIRST, "test.echo", [large], 3)
    with pytest.raises(RaisedError, match=r"^JobQueueFullError: .*bytes"):
        paused.submit(FIRST, "test.echo", [large])
    assert paused.ask("status")["queued"] == 3
    paused.ask("pause", paused=False)
    assert sorted(paused.complete(accepted, 3)) == sorted((jid, FIRST) for jid in accepted)
    (again,) = paused.submit(FIRST, "test.echo", [large])
    assert paused.complete([again], 1) == [(again, FIRST)]


@pytest.mark.long
@pytest.mark.parametrize("transport", TRANSPORTS[1:])
def test_waves_over_other_transports(root: Path, tmp_path: Path, transport: str) -> None:
    """A job of several waves, each for neighbours by a regular expression, reaches each minion once."""
    limits = {"criteria": "capacity", "max_master_jobs": 20}
    with handler_bed(root, tmp_path, 100, limits, transport=transport) as setup:
        jids = setup.submit("*", "test.sleep", ["0.5"], 3)
        found = Counter(setup.complete(jids, 300))
        ids = setup.bed.settings.minion_ids()
        assert found == Counter((jid, minion) for jid in jids for minion in ids)
        assert setup.ask("status")["waves"] >= 15
