"""
Jobs that are cancelled while it is not known whether they have been sent.
"""

import asyncio

import pytest

import salt.job_handler.recovery
import tests.pytests.functional.job_handler.worker as worker
from tests.support.mock import patch


async def _killed(setup, *jobs):
    """
    Publish jobs, kill the master in that moment, and return the job handler of the next
    one, which does not know whether they were sent.
    """
    await setup.start()
    for jid, minions in jobs:
        await worker.publish(setup, jid, minions)
    await setup.stop()
    setup.bus.published.clear()
    return await setup.start(master="another")


async def _cancel(handler, jid):
    return (await handler.commands.handle({"cmd": "cancel", "jid": jid}))["cancelled"]


async def _connect(setup):
    """
    Let time pass until minions have found a restarted master.
    """
    setup.clock.now += salt.job_handler.recovery.RECONNECT_SECONDS
    await setup.handler.tick()


def test_cancelled_job_that_may_not_have_been_sent(setup):
    """
    It is never sent, not by the next job handler either, and others are.
    """

    async def run():
        handler = await _killed(setup, ("1", ["m0", "m1"]), ("2", ["m0"]))
        assert handler.criteria.ledger.used == 3
        assert await _cancel(handler, "1") == 2
        assert await _cancel(handler, "1") == 0
        assert handler.criteria.ledger.used == 1
        assert handler.manager.counters["cancelled"] == 1
        assert [jid for _, _, jid, *_ in handler.journal.waves()] == ["2"]
        await setup.stop()
        await setup.start(master="another")
        await _connect(setup)

    asyncio.run(run())
    assert setup.bus.jids() == ["2"]
    (told,) = setup.bus.told("1", "discarded")
    assert (told["reason"], told["waiting"]) == ("cancelled", 2)
    assert told["targets"] == ["m0", "m1"]


def test_cancelled_job_of_which_a_wave_may_not_have_been_sent(setup):
    """
    The wave and the rest of the job are one: one job is cancelled, one event tells it.
    """

    async def run():
        handler = await _killed(setup, ("1", worker.MINIONS), ("2", ["m0"]))
        assert await _cancel(handler, "1") == len(worker.MINIONS)
        assert handler.criteria.ledger.used == 0
        assert handler.manager.counters["cancelled"] == 1
        assert (handler.journal.waves(), len(handler.journal.jobs())) == ([], 1)
        await _connect(setup)

    asyncio.run(run())
    assert setup.bus.jids() == ["2"]
    (told,) = setup.bus.told("1", "discarded")
    assert told["targets"] == sorted(worker.MINIONS)


@pytest.mark.parametrize("broken", (False, True))
def test_job_is_cancelled_while_it_is_sent_again(setup, broken):
    """
    It is either sent or cancelled, and not sent later if that failed.
    """

    async def run():
        handler = await _killed(setup, ("1", ["m0"]))
        begun, goes_on = asyncio.Event(), asyncio.Event()
        publish = setup.bus.publish

        async def slow(load):
            begun.set()
            await goes_on.wait()
            await publish(load)

        setup.bus.broken = broken
        with patch.object(setup.bus, "publish", slow):
            sending = asyncio.ensure_future(_connect(setup))
            await begun.wait()
            cancelling = asyncio.ensure_future(_cancel(handler, "1"))
            await asyncio.sleep(0)
            goes_on.set()
            await asyncio.gather(sending, return_exceptions=True)
        cancelled = await cancelling
        setup.bus.broken = False
        await _connect(setup)
        return cancelled, handler.criteria.ledger.used

    assert asyncio.run(run()) == ((1, 0) if broken else (0, 1))
    assert setup.bus.jids() == ([] if broken else ["1"])
