"""
The job handler where things go wrong: clocks, disks, processes that hang, and requests
that come at the wrong moment.
"""

import asyncio
import os
import sqlite3
import time
import tracemalloc

import pytest

import salt.client
import salt.job_handler
import salt.job_handler.claims
import salt.job_handler.client
import salt.job_handler.gate
import salt.job_handler.ipc
import salt.job_handler.journal
import salt.job_handler.process
import salt.job_handler.vocabulary
import salt.payload
import salt.utils.jid
import salt.utils.job
from tests.support.mock import MagicMock, Mock, patch


async def _enter(setup, request=None, **kwargs):
    return await salt.job_handler.gate.enter(
        setup.opts, setup.bus, {"fun": "state.apply", "user": "root"}, request, **kwargs
    )


def _load(jid, **kwargs):
    load = {"jid": jid, "fun": "state.apply", "arg": [], "tgt": "*", "tgt_type": "glob"}
    return {**load, "ret": "", "user": "root", **kwargs}


async def _publish(setup, jid, minions, request=None, **kwargs):
    gate = await _enter(setup, request)
    if gate.answer is not None:
        return gate.answer
    return await gate.submit(_load(jid, **kwargs), list(minions), [])


def _request(name="1", **kwargs):
    return {"id": name, "sync": False, "timeout": 5, "extend": False, **kwargs}


def test_second_try_while_the_first_is_published(setup):
    """
    The first one has its job id, and the master is still at it.
    """
    slow = asyncio.Event()

    async def publish(load):
        await slow.wait()
        setup.bus.published.append(load)

    async def run():
        await setup.start()
        with patch.object(setup.bus, "publish", publish):
            first = asyncio.ensure_future(_publish(setup, "1", ["m0"], _request()))
            await asyncio.sleep(0.2)
            second = asyncio.ensure_future(_publish(setup, "2", ["m0"], _request()))
            await asyncio.sleep(0.2)
            slow.set()
            return [answer["load"]["jid"] for answer in (await first, await second)]

    assert asyncio.run(run()) == ["1", "1"]
    assert setup.bus.jids() == ["1"]


def test_second_try_after_a_crash_in_the_first(setup):
    async def run():
        handler = await setup.start()
        with patch.object(
            handler.dispatcher, "pump", side_effect=asyncio.CancelledError
        ):
            gate = await _enter(setup, _request())
            with pytest.raises(asyncio.CancelledError):
                await handler.commands.handle(
                    {
                        "cmd": "submit",
                        "submission": gate.submission,
                        "idempotency_key": gate.key,
                        "load": _load("1"),
                        "count": 1,
                        "ids": salt.payload.dumps(["m0"], use_bin_type=True),
                        "sync": False,
                        "timeout": None,
                        "forced": False,
                        "fixed": False,
                    }
                )
        await setup.stop()
        await setup.start()
        return await _publish(setup, "2", ["m0"], _request())

    assert asyncio.run(run())["load"]["jid"] == "1"


def test_clock_that_was_set_back(setup):
    """
    Two hours, while the master is started again: jobs do not wait for two hours.
    """
    setup.config(max_master_jobs=1)

    async def run():
        await setup.start("first")
        await _publish(setup, "runs", ["m0"])
        await _publish(setup, "waits", ["m1"], _request(sync=True, timeout=60))
        await setup.stop()
        await setup.start("second")
        await setup.stop()
        setup.clock.now -= 7200
        handler = await setup.start("second")
        assert handler.manager.held_until <= setup.clock.now + 30
        ((job,),) = ([*handler.manager.queue],)
        assert 0 < job.deadline - setup.clock.now <= 60
        setup.clock.now += 31
        handler.maintenance.returned("runs", "m0")
        await handler.tick()

    asyncio.run(run())
    assert setup.bus.jids()[-1] == "waits"


def test_full_disk_refuses(setup):
    """
    Published without being written down, each job would get past the limits.
    """
    full = sqlite3.OperationalError("database or disk is full")

    async def run():
        handler = await setup.start()
        with patch.object(handler.journal, "add", side_effect=full):
            return [await _publish(setup, f"{number}", ["m0"]) for number in range(28)]

    answers = asyncio.run(run())
    assert {answer["error"]["name"] for answer in answers} == {
        salt.job_handler.vocabulary.REFUSED
    }
    assert "database or disk is full" in answers[0]["error"]["message"]
    assert setup.bus.jids() == []


def test_submission_that_cannot_be_claimed(setup):
    """
    It is refused, and does not run after a restart.
    """

    async def run():
        handler = await setup.start()
        gate = await _enter(setup)
        full = OSError(28, "No space left on device")
        with patch("salt.job_handler.claims.claim", side_effect=full):
            answer = await gate.submit(_load("1"), ["m0"], [])
        assert handler.journal.jobs() == []
        await setup.stop()
        await setup.start()
        return answer

    assert "Nothing was sent" in asyncio.run(run())["error"]["message"]
    assert setup.bus.jids() == []


def test_cancelled_while_its_wave_fails(setup):
    """
    What was reported as cancelled does not run, neither now nor after a restart.
    """
    setup.config(max_master_jobs=10)
    sending, fail = asyncio.Event(), asyncio.Event()

    async def publish(load):
        sending.set()
        await fail.wait()
        raise OSError("the publisher is gone")

    async def run():
        handler = await setup.start()
        minions = [f"m{number}" for number in range(25)]
        with patch.object(setup.bus, "publish", publish):
            submitted = asyncio.ensure_future(_publish(setup, "1", minions))
            await sending.wait()
            cancel = asyncio.ensure_future(
                handler.commands.handle({"cmd": "cancel", "jid": "1"})
            )
            await asyncio.sleep(0.05)
            fail.set()
            cancelled = await cancel
            await submitted
        setup.clock.now += 5
        await handler.tick()
        await setup.stop()
        handler = await setup.start()
        setup.clock.now += 60
        await handler.tick()
        return cancelled

    assert asyncio.run(run()) == {"cancelled": 25}
    assert setup.bus.jids() == []


def test_forced_job_is_cancelled_while_it_fails(setup):
    sending, fail = asyncio.Event(), asyncio.Event()

    async def publish(load):
        sending.set()
        await fail.wait()
        raise OSError("the publisher is gone")

    async def run():
        handler = await setup.start()
        gate = await _enter(setup, forced=True)
        with patch.object(setup.bus, "publish", publish):
            submitted = asyncio.ensure_future(gate.submit(_load("1"), ["m0"], []))
            await sending.wait()
            cancel = asyncio.ensure_future(
                handler.commands.handle({"cmd": "cancel", "jid": "1"})
            )
            await asyncio.sleep(0.05)
            fail.set()
            assert await cancel == {"cancelled": 1}
            await submitted
        setup.clock.now += 5
        await handler.tick()

    asyncio.run(run())
    assert setup.bus.jids() == []


def _hang(setup):
    """
    The job handler was alive some seconds ago, and its socket still takes requests.
    """
    old = time.time() - 5
    os.utime(os.path.join(setup.opts["sock_dir"], "job_handler.alive"), (old, old))


def test_handler_that_hangs_costs_one_wait(setup):
    """
    The first who asks waits for it, all others know.
    """
    waits = []
    real = asyncio.wait_for

    async def wait_for(awaitable, timeout):
        waits.append(timeout)
        return await real(awaitable, timeout)

    async def never(request):
        await asyncio.sleep(30)

    async def run():
        handler = await setup.start()
        handler.server.close()
        handler.server = await salt.job_handler.ipc.serve(setup.opts, never)
        _hang(setup)
        with patch("salt.job_handler.gate.ANSWER_SECONDS", 0.3):
            with patch("salt.job_handler.ipc.asyncio.wait_for", wait_for):
                for number in range(11):
                    assert await _publish(setup, f"{number}", ["m0"]) is None
        assert waits == [0.3]
        # it goes on, and is asked again
        handler.server.close()
        handler.server = await salt.job_handler.ipc.serve(
            setup.opts, handler.commands.handle
        )
        await asyncio.sleep(0.02)
        salt.job_handler.ipc.alive(setup.opts)
        await _publish(setup, "asked", ["m0"])

    asyncio.run(run())
    assert setup.bus.jids() == ["asked"]


def test_busy_handler_does_not_count_as_one_that_hangs(setup):
    """
    It is alive while somebody waits in vain for its answer: others are to wait, too.
    """

    async def late(request):
        if request["cmd"] == "reserve" and request["idempotency_key"]:
            await asyncio.sleep(0.4)
        return await setup.handler.commands.handle(request)

    async def run():
        handler = await setup.start()
        handler.server.close()
        handler.server = await salt.job_handler.ipc.serve(setup.opts, late)
        with patch("salt.job_handler.gate.ANSWER_SECONDS", 0.3):
            gate = await _enter(setup, _request())
            assert gate.direct
            salt.job_handler.ipc.alive(setup.opts)
            await _publish(setup, "1", ["m0"])

    with patch(
        "salt.job_handler.ipc._last_alive", side_effect=lambda opts: time.time()
    ):
        asyncio.run(run())
    assert setup.bus.jids() == ["1"]


def test_large_jobs_wait_on_disk(setup):
    """
    300 jobs of 1 MB.
    """
    setup.config(max_master_jobs=1)

    async def run():
        handler = await setup.start()
        await _publish(setup, "0", ["m0"])
        before = tracemalloc.get_traced_memory()[0]
        for number in range(1, 301):
            large = os.urandom(500000).hex()
            await _publish(setup, f"{number}", ["m0"], arg=[large])
            await handler.tick()
        held = tracemalloc.get_traced_memory()[0] - before
        assert len(handler.manager.queue) == 300
        assert handler.journal.log_bytes() < 3 * salt.job_handler.database.LOG_BYTES
        return held

    tracemalloc.start()
    try:
        assert asyncio.run(run()) < 40e6
    finally:
        tracemalloc.stop()


def test_published_jobs_are_forgotten(setup):
    """
    Their deadlines are a day away.
    """
    setup.config(max_master_jobs=1000, max_minion_jobs=0)

    async def run():
        handler = await setup.start()
        for number in range(500):
            await _publish(setup, f"{number}", ["m0"])
            handler.maintenance.returned(f"{number}", "m0")
        return len(handler.manager.queue._deadlines)  # pylint: disable=protected-access

    assert asyncio.run(run()) <= 101


def test_damage_that_shows_later_ends_the_process(setup):
    """
    The next one keeps what can be read.
    """

    async def run():
        handler = await setup.start()
        malformed = sqlite3.DatabaseError("database disk image is malformed")
        with patch.object(handler.journal, "answered", side_effect=malformed):
            await handler.commands.handle(
                {"cmd": "reserve", "submission": "t", "idempotency_key": "r"}
            )

    with pytest.raises(SystemExit):
        asyncio.run(run())


def test_questions_have_job_ids_of_their_own(setup):
    """
    The master does not put the answers into the job cache.
    """
    setup.config(long_running=10)

    async def run():
        handler = await setup.start()
        await _publish(setup, "1", ["m0"])
        setup.clock.now += 11
        await handler.tick()

    asyncio.run(run())
    (question,) = (load for load in setup.bus.published if load["jid"] != "1")
    jid = question["jid"]
    assert salt.utils.jid.is_jid(jid)
    assert salt.job_handler.is_answer(setup.opts, jid)
    assert not salt.job_handler.is_answer({**setup.opts, "rate_limiting": {}}, jid)
    for other in (jid[:20], f"{jid[:20]}_{os.getpid()}", "req", "nocache"):
        assert not salt.job_handler.is_answer(setup.opts, other), other


@pytest.mark.parametrize("on", [True, False])
def test_answers_are_not_kept(setup, on):
    """
    But whoever listens hears them.
    """
    setup.opts["rate_limiting"] = {"criteria": "capacity"} if on else {}
    jid = salt.utils.jid.gen_jid(setup.opts)[:20] + salt.job_handler.QUESTION
    load = {"jid": jid, "id": "m0", "return": [], "fun": "saltutil.running"}
    event, mminion = Mock(), MagicMock()
    salt.utils.job.store_job(setup.opts, load, event=event, mminion=mminion)
    event.fire_event.assert_called_once_with(load, f"salt/job/{jid}/ret/m0")
    assert bool(mminion.mock_calls) != on
    event.reset_mock()
    salt.utils.job.store_job(setup.opts, {**load, "id": "../m0"}, event, mminion)
    event.fire_event.assert_not_called()


def test_cancelled_batch(setup):
    """
    Its job id is cancelled: what it publishes later goes to nobody, and says so, also
    after a restart of the job handler.
    """

    async def run():
        handler = await setup.start()
        await _publish(setup, "1", ["m0"])
        assert await handler.commands.handle({"cmd": "cancel", "jid": "1"}) == {
            "cancelled": 0
        }
        second = await _publish(setup, "1", ["m1"])
        setup.clock.now += salt.job_handler.waves.FLIGHT_SECONDS
        await handler.tick()
        await setup.stop()
        await setup.start()
        return second, await _publish(setup, "1", ["m2"])

    for answer, minion in zip(asyncio.run(run()), ("m1", "m2")):
        excluded = answer["load"]["job_handler"]["excluded"]
        assert excluded == {minion: "It was taken out of the master's queue"}
    assert setup.bus.jids() == ["1"]


def test_counters_go_on(setup):
    """
    Also after a crash, from what was last written down.
    """

    async def run():
        handler = await setup.start()
        for number in range(3):
            await _publish(setup, f"{number}", ["m0"])
            handler.maintenance.returned(f"{number}", "m0")
        await handler.tick()
        await handler.clean()
        await setup.stop()
        handler = await setup.start()
        await _publish(setup, "3", ["m0"])
        return handler.report.status(setup.clock(), 0)

    status = asyncio.run(run())
    assert (status["submitted"], status["dispatched"]) == (4, 4)


def test_disk_that_is_full_after_the_job_was_written_down(setup):
    """
    It is published, and nobody is told that nothing was sent.
    """
    setup.config(max_master_jobs=1)
    full = sqlite3.OperationalError("database or disk is full")

    async def run():
        handler = await setup.start()
        await _publish(setup, "1", ["m0"])
        real = handler.journal.answer

        def answer(request, data, ids):
            if data.get("job_handler"):
                raise full
            real(request, data, ids)

        with patch.object(handler.journal, "answer", answer):
            waits = await _publish(setup, "2", ["m0"], _request())
        handler.maintenance.returned("1", "m0")
        await handler.tick()
        return waits

    assert asyncio.run(run())["load"]["job_handler"]["state"] == "queued"
    assert setup.bus.jids() == ["1", "2"]


def test_disk_that_is_full_before_the_answer(setup):
    """
    The job is forgotten again: it was refused.
    """
    full = sqlite3.OperationalError("database or disk is full")

    async def run():
        handler = await setup.start()
        with patch.object(handler.journal, "answer", side_effect=full):
            answer = await _publish(setup, "1", ["m0"], _request())
        assert handler.journal.jobs() == []
        assert len(handler.manager.places) == 0
        return answer

    assert "Nothing was sent" in asyncio.run(run())["error"]["message"]
    assert setup.bus.jids() == []


def test_cancel_does_not_wait_for_the_whole_queue(setup):
    setup.config(max_master_jobs=1000)
    gates = [asyncio.Event() for _ in range(20)]

    async def publish(load):
        await gates[int(load["jid"])].wait()
        setup.bus.published.append(load)

    async def run():
        handler = await setup.start()
        handler.manager.orders.paused = True
        for number in range(20):
            await _publish(setup, f"{number}", [f"m{number}"])
        handler.manager.orders.paused = False
        with patch.object(setup.bus, "publish", publish):
            pump = asyncio.ensure_future(handler.tick())
            await asyncio.sleep(0.05)
            cancel = asyncio.ensure_future(
                handler.commands.handle({"cmd": "cancel", "jid": "5"})
            )
            await asyncio.sleep(0.05)
            gates[0].set()
            assert await cancel == {"cancelled": 1}
            for gate in gates:
                gate.set()
            await pump
            await handler.tick()

    asyncio.run(run())
    assert setup.bus.jids() == [f"{number}" for number in range(20) if number != 5]
