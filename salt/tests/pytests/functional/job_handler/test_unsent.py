"""
Waves that the job handler may not have published when the master ended: what happens
while its minions find it again.
"""

import asyncio

import pytest

import salt.job_handler.gate

MINIONS = ["m0", "m1", "m2"]


async def _publish(setup, jid, minions=None):
    load = {"fun": "state.apply", "user": "alice", "arg": []}
    minions = minions or MINIONS
    gate = await salt.job_handler.gate.enter(setup.opts, setup.bus, load, None, minions)
    load.update({"jid": jid, "tgt": "*", "tgt_type": "glob", "ret": ""})
    return await gate.submit(load, minions, [])


async def _kill(setup, jid, minion):
    load = {"fun": "saltutil.kill_job", "user": "root", "arg": [jid]}
    await salt.job_handler.gate.enter(setup.opts, setup.bus, load, None, [minion])


async def _pass(setup, seconds):
    for _ in range(seconds // 2):
        setup.clock.now += 2
        await setup.handler.tick()


def _return(setup, jid, *minions):
    for minion in minions:
        setup.handler.maintenance.returned(jid, minion)


async def _restarted(setup, master="another"):
    await setup.stop()
    await setup.start(master)


@pytest.fixture
def run(setup):
    """
    Return what runs something after a job has gone out and the master was killed.
    """

    def run(what):
        async def inside():
            await setup.start()
            await _publish(setup, "1")
            await _restarted(setup)
            return await what()

        return asyncio.run(inside())

    return run


def _reached(setup):
    return setup.bus.reached("1", MINIONS)


def test_all_return_meanwhile(setup, run):
    async def what():
        await _pass(setup, 8)
        _return(setup, "1", *MINIONS)
        await _pass(setup, 40)
        return setup.handler.journal.waves()

    assert run(what) == []
    assert _reached(setup) == [MINIONS]


def test_some_return_meanwhile(setup, run):
    async def what():
        await _pass(setup, 8)
        _return(setup, "1", "m0", "m2")
        await _pass(setup, 40)
        return setup.handler.criteria.ledger.of_job("1")

    assert run(what) == {"m1"}
    assert _reached(setup) == [MINIONS, ["m1"]]


def test_who_starts_meanwhile_would_not_recognise_it(setup, run, caplog):
    """
    He may have executed it, so he does not get it again, and that is said.
    """

    async def what():
        setup.handler.maintenance.started("m1")
        await _pass(setup, 40)
        return setup.handler.criteria.ledger.of_job("1")

    assert run(what) == {"m0", "m2"}
    assert _reached(setup) == [MINIONS, ["m0", "m2"]]
    assert "Job 1 may have been sent to m1 when the job handler ended" in caplog.text


def test_nobody_is_asked_before_it_is_sent(setup, run):
    """
    Who does not run it may not have got it, and is charged for it all the same.
    """

    async def what():
        await _pass(setup, 28)
        asked = [load for load in setup.bus.published if load["fun"] != "state.apply"]
        await _pass(setup, 40)
        return asked, setup.handler.criteria.ledger.of_job("1")

    assert run(what) == ([], set(MINIONS))
    assert _reached(setup) == [MINIONS, MINIONS]


def test_kill_for_one(setup, run):
    """
    Those that have returned got it again, and were charged for it.
    """

    async def what():
        await _pass(setup, 2)
        _return(setup, "1", "m0")
        await _kill(setup, "1", "m1")
        await _pass(setup, 40)
        return setup.handler.criteria.ledger.of_job("1")

    assert run(what) == {"m2"}
    assert _reached(setup) == [MINIONS, ["m2"]]


def test_kill_when_all_have_returned(setup, run):
    async def what():
        await _pass(setup, 2)
        _return(setup, "1", *MINIONS)
        await _kill(setup, "1", "m1")
        await _pass(setup, 40)
        return len(setup.handler.manager.queue), setup.handler.journal.waves()

    assert run(what) == (0, [])
    assert _reached(setup) == [MINIONS]


def test_second_restart(setup, run):
    """
    What had come back was forgotten, and all of it charged and sent again.
    """

    async def what():
        await _pass(setup, 2)
        _return(setup, "1", "m0", "m1", "m2")
        await _pass(setup, 4)
        await _restarted(setup, "a third")
        charged = setup.handler.criteria.ledger.of_job("1")
        await _pass(setup, 40)
        return charged

    assert run(what) == set()
    assert _reached(setup) == [MINIONS]
