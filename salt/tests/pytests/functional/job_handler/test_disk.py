"""
A disk that is full for a while: nothing is lost, done twice or kept from anybody.
"""

import asyncio
import sqlite3

import pytest

import salt.job_handler.gate
from tests.support.mock import patch

MINIONS = ["m0", "m1"]


def _full(*args, **kwargs):
    raise sqlite3.OperationalError("database or disk is full")


async def _publish(setup, jid, minions=None, request=None):
    load = {"fun": "state.apply", "user": "root", "arg": []}
    minions = minions or MINIONS
    gate = await salt.job_handler.gate.enter(
        setup.opts, setup.bus, load, request, minions
    )
    load.update({"jid": jid, "tgt": "*", "tgt_type": "glob", "ret": ""})
    return await gate.submit(load, minions, [])


async def _pass(setup, seconds=2, ticks=1):
    for _ in range(ticks):
        setup.clock.now += seconds
        await setup.handler.tick()


def _return(setup, jid, *minions):
    for minion in minions:
        setup.handler.maintenance.returned(jid, minion)


def _waiting(setup):
    return [job.jid for job in setup.handler.manager.queue]


def test_cancelling(setup):
    """
    The job was gone until the next restart, and was executed then.
    """

    async def run():
        handler = await setup.start()
        handler.manager.orders.paused = True
        await _publish(setup, "1")
        with patch.object(handler.journal, "remove", _full):
            with pytest.raises(OSError, match="^the job can't be taken out"):
                await handler.commands.handle({"cmd": "cancel", "jid": "1"})
        assert _waiting(setup) == ["1"]
        assert setup.bus.kinds("1") == ["queued"]
        again = await handler.commands.handle({"cmd": "cancel", "jid": "1"})
        assert again == {"cancelled": 2}
        handler.manager.orders.paused = False
        await setup.stop()
        await setup.start()
        await _pass(setup)

    asyncio.run(run())
    assert setup.bus.jids() == []


def test_cancelling_a_job_that_others_pass(setup):
    """
    It stays, and has its turn like any other.
    """
    setup.config(max_master_jobs=10, max_minion_jobs=1, minion_full="wait")

    async def run():
        handler = await setup.start()
        await _publish(setup, "long", ["m0"])
        await _publish(setup, "1", ["m0"])
        with patch.object(handler.journal, "remove", _full):
            with pytest.raises(OSError):
                await handler.commands.handle({"cmd": "cancel", "jid": "1"})
        assert _waiting(setup) == ["1"]
        _return(setup, "long", "m0")
        await _pass(setup)

    asyncio.run(run())
    assert setup.bus.jids() == ["long", "1"]


def test_cancelling_for_some(setup):
    async def run():
        handler = await setup.start()
        handler.manager.orders.paused = True
        await _publish(setup, "1")
        with patch.object(handler.journal, "dispatch", _full):
            gate = await salt.job_handler.gate.enter(
                setup.opts,
                setup.bus,
                {"fun": "saltutil.kill_job", "user": "root", "arg": ["1"]},
                None,
                ["m1"],
            )
        assert gate is None
        assert setup.bus.told("1", "excluded") == []
        handler.manager.orders.paused = False
        await _pass(setup)

    asyncio.run(run())
    assert setup.bus.reached("1", MINIONS) == [MINIONS]


def test_deadline(setup):
    """
    The caller never heard that his time was up, and the row stayed.
    """

    async def run():
        handler = await setup.start()
        handler.manager.orders.paused = True
        request = {"id": "1", "sync": True, "timeout": 5}
        await _publish(setup, "1", request=request)
        handler.manager.orders.paused = False
        handler.manager.orders.give("1", held=True)
        with patch.object(handler.journal, "remove", _full):
            await _pass(setup, 6)
        assert _waiting(setup) == ["1"]
        assert setup.bus.kinds("1") == ["queued", "queued"]
        await _pass(setup)
        assert _waiting(setup) == []
        assert handler.journal.jobs() == []
        return handler.journal.left_out("1"), handler.manager.counters["discarded"]

    left_out, count = asyncio.run(run())
    sentence = "It waited in the master's queue for longer than its caller did"
    assert (left_out, count) == (dict.fromkeys(MINIONS, sentence), 1)
    assert setup.bus.jids() == []
    assert len(setup.bus.told("1", "discarded")) == 1


def test_who_is_left_out(setup):
    """
    Nobody was told who it was when the wave went out later.
    """
    setup.config(max_master_jobs=10, max_minion_jobs=1)

    async def run():
        handler = await setup.start()
        await _publish(setup, "1", ["m0"])
        handler.manager.orders.paused = True
        await _publish(setup, "2")
        handler.manager.orders.paused = False
        with patch.object(handler.journal, "dispatch", _full):
            await _pass(setup)
        assert handler.manager.counters["excluded"] == 0
        assert setup.bus.told("2", "excluded") == []
        await _pass(setup)
        return list(handler.journal.left_out("2"))

    assert asyncio.run(run()) == ["m0"]
    assert setup.bus.jids() == ["1", "2"]
    assert len(setup.bus.told("2", "excluded")) == 1


def test_waves_that_went_out(setup):
    """
    One stayed as if it might not have, and was sent again a day later.
    """

    async def run():
        handler = await setup.start()
        await _publish(setup, "1")
        with patch.object(handler.journal, "sent", _full):
            await _pass(setup, 4)
        _return(setup, "1", *MINIONS)
        await _pass(setup, 1, 5)
        assert handler.journal.waves() == []
        setup.clock.now += 86400
        await setup.stop()
        await setup.start()
        await _pass(setup)

    asyncio.run(run())
    assert setup.bus.jids() == ["1"]


def test_returns(setup):
    async def run():
        handler = await setup.start()
        await _publish(setup, "1", ["m0", "m1", "m2"])
        _return(setup, "1", "m0", "m1")
        with patch.object(handler.journal, "returned", _full):
            await _pass(setup)
        await _pass(setup, 4)
        await setup.stop()
        handler = await setup.start()
        return handler.criteria.ledger.of_job("1")

    assert asyncio.run(run()) == {"m2"}


def test_publisher_and_disk_together(setup):
    """
    Nothing was published any more, also after a restart.
    """

    async def run():
        handler = await setup.start()
        setup.bus.broken = True
        with patch.object(handler.journal, "failed", _full):
            await _publish(setup, "1")
        assert _waiting(setup) == []
        await _pass(setup)
        setup.bus.broken = False
        await _pass(setup, 2, 3)
        await _publish(setup, "2")
        await setup.stop()
        await setup.start()
        await _pass(setup)

    asyncio.run(run())
    jids = setup.bus.jids()
    # the second one was on its way at the end
    assert jids[:2] == ["1", "2"]
    assert set(jids[2:]) <= {"1", "2"}
