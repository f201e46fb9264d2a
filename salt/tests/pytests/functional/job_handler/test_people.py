"""
What people see of jobs that wait and of minions that are left out, and how they end them.
"""

import asyncio

import pytest

import salt.job_handler
import salt.job_handler.gate
import salt.job_handler.inquiry
import salt.runners.jobs
from tests.support.mock import MagicMock, patch

MINIONS = ("m0", "m1", "m2")


async def _ask(setup, fun, *args, user="root", minions=MINIONS, **request):
    """
    Do what ClearFuncs.publish does with an exempt function.
    """
    load = {"fun": fun, "user": user, "arg": list(args)}
    return await salt.job_handler.gate.enter(
        setup.opts, setup.bus, load, request or None, minions
    )


async def _publish(setup, jid, minions=MINIONS, user="root"):
    load = {"fun": "state.apply", "user": user, "arg": []}
    gate = await salt.job_handler.gate.enter(
        setup.opts, setup.bus, load, None, list(minions)
    )
    load.update({"jid": jid, "tgt": "*", "tgt_type": "glob", "ret": ""})
    return await gate.submit(load, list(minions), [])


def _run(setup, what):
    async def run():
        handler = await setup.start()
        handler.manager.orders.paused = True
        return await what(handler)

    return asyncio.run(run())


@pytest.mark.parametrize("fun", ["saltutil.kill_job", "saltutil.term_job"])
@pytest.mark.parametrize("arg", ["1", 1, {"__kwarg__": True, "jid": "1"}])
def test_kill_job_of_a_queued_job(setup, fun, arg):
    async def what(handler):
        await _publish(setup, "1")
        gate = await _ask(setup, fun, arg)
        handler.manager.orders.paused = False
        await handler.tick()
        # it goes to the minions, too
        assert gate.answer is None
        assert await gate.submit({}, [], []) is None
        return gate.complete({"jid": "2"})

    answer = _run(setup, what)
    assert answer == {"jid": "2", "job_handler": {"cancelled": 3}}
    assert setup.bus.jids() == []
    (told,) = setup.bus.told("1", "discarded")
    assert told["targets"] == list(MINIONS)


def test_kill_job_for_some_minions(setup):
    """
    As on minions that run it: the others go on.
    """

    async def what(handler):
        await _publish(setup, "1")
        await _publish(setup, "2")
        gate = await _ask(setup, "saltutil.kill_job", "1", minions=["m1", "m7"])
        handler.manager.orders.paused = False
        await handler.tick()
        return gate.complete({})

    assert _run(setup, what) == {"job_handler": {"cancelled": 1}}
    assert [load["tgt"] for load in setup.bus.published] == [["m0", "m2"], "*"]
    (told,) = setup.bus.told("1", "excluded")
    assert list(told["excluded"]) == ["m1"]


def test_kill_job_of_what_may_not_have_been_sent(setup):
    """
    The master was restarted, and its minions are not back yet.
    """

    async def run():
        await setup.start()
        await _publish(setup, "1")
        await setup.stop()
        handler = await setup.start("another")
        await _ask(setup, "saltutil.kill_job", "1", minions=["m1"])
        assert handler.manager.queue.bytes > 0
        await setup.stop()
        handler = await setup.start("another")
        assert handler.manager.queue.bytes > 0
        setup.clock.now += 31
        await handler.tick()
        assert handler.manager.queue.bytes == 0
        return handler.criteria.ledger.of_job("1")

    assert asyncio.run(run()) == {"m0", "m2"}
    assert [load["tgt"] for load in setup.bus.published] == ["*", ["m0", "m2"]]


@pytest.mark.parametrize("args", [(), (None,), ({"jid": "1"},), ("7",)])
def test_kill_job_of_nothing(setup, args):
    async def what(handler):
        await _publish(setup, "1")
        assert await _ask(setup, "saltutil.kill_job", *args) is None
        return len(handler.manager.queue)

    assert _run(setup, what) == 1


def _jobs(setup, function, *args, running=None, **kwargs):
    """
    Call a function of the runner ``jobs``.
    """
    load = {"fun": "state.apply", "tgt": "*", "tgt_type": "glob", "Minions": MINIONS}
    returners = {
        "local_cache.get_load": lambda jid: dict(load),
        "local_cache.get_jid": lambda jid: {"m2": {"return": 7}},
    }
    client = MagicMock()
    client.return_value.__enter__.return_value.cmd.return_value = running or {}
    with patch("salt.client.get_local_client", client), patch(
        "salt.minion.MasterMinion",
        MagicMock(return_value=MagicMock(returners=returners)),
    ), patch.object(
        salt.runners.jobs, "__opts__", {**setup.opts, "timeout": 1}, create=True
    ):
        return function(*args, **kwargs)


async def _in_thread(*args, **kwargs):
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(None, lambda: _jobs(*args, **kwargs))


def test_jobs_active_has_what_waits(setup):
    running = {"m9": [{"jid": "2", "fun": "f", "tgt": "*", "pid": 3}]}

    async def what(handler):
        await _publish(setup, "1")
        await _publish(setup, "2")
        return await _in_thread(setup, salt.runners.jobs.active, running=running)

    found = _run(setup, what)
    expected = {"Minions": 3, "Seconds": 0.0, "Reason": "the queue is paused"}
    assert {jid: job["Queued"] for jid, job in found.items()} == {
        "1": expected,
        "2": expected,
    }
    assert found["1"]["Running"] == []
    assert found["1"]["Function"] == "state.apply"
    assert found["2"]["Running"] == [{"m9": 3}]


def test_jobs_knows_who_was_left_out_and_after_a_restart(setup):
    setup.config(max_minion_jobs=1)

    async def what(handler):
        handler.manager.orders.paused = False
        handler.journal.clock = setup.clock
        await _publish(setup, "1", ["m0"])
        await _publish(setup, "2")
        await setup.stop()
        await setup.start()
        setup.handler.journal.clock = setup.clock
        await setup.handler.clean()
        return [
            await _in_thread(setup, function, "2")
            for function in (
                salt.runners.jobs.lookup_jid,
                salt.runners.jobs.exit_success,
                salt.runners.jobs.list_job,
            )
        ]

    found, success, job = _run(setup, what)
    sentence = "Minion did not get the job. [the minion is at 1 of 1 points]"
    assert found == {"m0": sentence, "m2": 7}
    assert success == {"m0": False, "m1": False, "m2": True}
    assert job["LeftOut"] == {"m0": sentence}


def test_jobs_knows_what_was_cancelled(setup):
    async def what(handler):
        await _publish(setup, "1")
        await handler.commands.handle({"cmd": "cancel", "jid": "1"})
        return await _in_thread(setup, salt.runners.jobs.lookup_jid, "1")

    found = _run(setup, what)
    sentence = "Minion did not get the job. [It was taken out of the master's queue]"
    assert found == {"m0": sentence, "m1": sentence, "m2": 7}


def test_who_was_left_out_is_forgotten_with_the_job(setup):
    async def what(handler):
        await _publish(setup, "1")
        await handler.commands.handle({"cmd": "cancel", "jid": "1"})
        handler.journal.clock = setup.clock
        setup.clock.now += setup.opts["keep_jobs_seconds"] + 1
        await handler.clean()
        return handler.journal.left_out("1")

    assert _run(setup, what) == {}


def test_turned_off_leaves_no_job_half_alive(setup, caplog):
    """
    It is known of each why it did not run, and nothing comes out of the queue or is
    charged when the job handler is turned on again.
    """
    process_manager = MagicMock()

    async def run():
        await setup.start()
        await _publish(setup, "1", ["m0"])
        await setup.handler.commands.handle({"cmd": "pause", "paused": True})
        await _publish(setup, "2")
        await setup.stop()
        section, setup.opts["rate_limiting"] = setup.opts["rate_limiting"], {}
        salt.job_handler.add_process(setup.opts, process_manager)
        found = _jobs(setup, salt.runners.jobs.lookup_jid, "2")
        setup.opts["rate_limiting"] = section
        await setup.start("another")
        await setup.handler.tick()
        ledger = setup.handler.criteria.ledger
        return found, len(setup.handler.manager.queue), ledger.used

    found, queued, used = asyncio.run(run())
    sentence = (
        "Minion did not get the job. [It waited in the master's queue when the job"
        " handler was turned off]"
    )
    assert found == {"m0": sentence, "m1": sentence, "m2": 7}
    assert (queued, used) == (0, 0)
    assert "Job 2 is not published to 3 minions" in caplog.text
    assert setup.bus.jids() == ["1"]
    process_manager.add_process.assert_not_called()


def test_turned_off_without_a_queue(setup):
    setup.opts["rate_limiting"] = {}
    salt.job_handler.add_process(setup.opts, MagicMock())
    assert _jobs(setup, salt.runners.jobs.lookup_jid, "2") == {"m2": 7}


def test_jobs_without_an_answer_of_the_handler(setup):
    """
    What the job cache knows is shown all the same.
    """
    assert _jobs(setup, salt.runners.jobs.lookup_jid, "1") == {"m2": 7}
