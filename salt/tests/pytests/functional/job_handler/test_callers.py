"""
Callers that end, however they do, while their jobs wait.
"""

import asyncio
import os
import subprocess
import sys

import pytest

import salt.job_handler.caller
import salt.job_handler.followers
import salt.job_handler.gate
import salt.utils.files
import salt.utils.platform

pytestmark = [
    pytest.mark.skip_unless_on_linux(reason="nobody is followed without /proc"),
]

MINIONS = ["m0", "m1", "m2"]

_CALLER = (
    "import salt.job_handler.caller, sys, time;"
    "print(salt.job_handler.caller.me(), flush=True);"
    "sys.stdin.read()"
)


class Caller:
    """
    A process that waits until it is ended.
    """

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", _CALLER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        line = self.process.stdout.readline()
        self.name = [int(part) for part in line.strip("[]\n").split(",")]

    def kill(self):
        """
        Leave it as a parent does that never looks.
        """
        self.process.kill()
        os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)

    def end(self):
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def caller():
    ret = Caller()
    yield ret
    ret.end()


async def _publish(setup, jid, caller, user="alice", sync=True):
    load = {"fun": "state.apply", "user": user, "arg": []}
    request = {"sync": sync, "timeout": 5, "extend": True, "caller": caller}
    gate = await salt.job_handler.gate.enter(
        setup.opts, setup.bus, load, request, MINIONS
    )
    load.update({"jid": jid, "tgt": "*", "tgt_type": "glob", "ret": ""})
    return await gate.submit(load, MINIONS, [])


async def _later(setup):
    setup.clock.now += salt.job_handler.followers.LOOK_SECONDS + 1
    await setup.handler.tick()


def _waiting(setup):
    return [job.jid for job in setup.handler.manager.queue]


def test_name_of_a_process(caller):
    assert caller.name[0] == caller.process.pid
    assert salt.job_handler.caller.runs(caller.name)
    assert salt.job_handler.caller.runs(salt.job_handler.caller.me())
    caller.kill()
    assert not salt.job_handler.caller.runs(caller.name)
    caller.end()
    assert not salt.job_handler.caller.runs(caller.name)


def test_another_process_with_its_id(caller):
    pid, started = caller.name
    assert not salt.job_handler.caller.runs([pid, started + 1])


@pytest.mark.parametrize("name", [[0, 0], [-1, 5], [2**70, 1]])
def test_name_of_nobody(name):
    assert not salt.job_handler.caller.runs(name)


def test_killed_caller(setup, caller):
    """
    His job waits as long as he does, and the jobs of others go on waiting.
    """

    async def run():
        handler = await setup.start()
        handler.manager.orders.paused = True
        await _publish(setup, "1", caller.name)
        await _publish(setup, "2", salt.job_handler.caller.me())
        await _publish(setup, "3", caller.name, sync=False)
        await _later(setup)
        assert _waiting(setup) == ["1", "2", "3"]
        caller.kill()
        await _later(setup)
        assert _waiting(setup) == ["2", "3"]
        return handler.manager.counters["discarded"], handler.journal.left_out("1")

    count, left_out = asyncio.run(run())
    sentence = "It waited in the master's queue when its caller ended"
    assert (count, left_out) == (1, dict.fromkeys(MINIONS, sentence))
    (told,) = setup.bus.told("1", "discarded")
    assert (told["reason"], told["targets"]) == ("gone", MINIONS)
    assert setup.bus.jids() == []


def test_killed_caller_of_what_has_gone_out_in_part(setup, caller):
    async def run():
        setup.config(max_master_jobs=2)
        handler = await setup.start()
        await _publish(setup, "1", caller.name)
        assert _waiting(setup) == ["1"]
        caller.kill()
        await _later(setup)
        assert _waiting(setup) == []
        handler.maintenance.returned("1", "m0")
        handler.maintenance.returned("1", "m1")
        await _later(setup)
        return handler.journal.left_out("1"), len(handler.criteria.ledger)

    left_out, charges = asyncio.run(run())
    assert (list(left_out), charges) == (["m2"], 0)
    assert setup.bus.jids() == ["1"]


def test_caller_killed_while_the_job_handler_is_away(setup, caller):
    async def run():
        handler = await setup.start()
        handler.manager.orders.paused = True
        handler.journal.put_snapshot("orders", handler.manager.orders.snapshot())
        await _publish(setup, "1", caller.name)
        await _publish(setup, "2", salt.job_handler.caller.me())
        await setup.stop()
        caller.kill()
        await setup.start()
        assert _waiting(setup) == ["1", "2"]
        await _later(setup)
        assert _waiting(setup) == ["2"]

    asyncio.run(run())


@pytest.mark.parametrize(
    "name", [None, [1, 2], [2**70, 1], "init", [1], [1, "2"], [True, 1], {"pid": 1}]
)
def test_caller_that_cannot_be_seen(setup, name):
    """
    He may be in a container of his own, or say anything: his job waits all the same.
    """

    async def run():
        handler = await setup.start()
        handler.manager.orders.paused = True
        await _publish(setup, "1", name)
        await _later(setup)
        return _waiting(setup)

    assert asyncio.run(run()) == ["1"]
