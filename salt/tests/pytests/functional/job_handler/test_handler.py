"""
The job handler and the master's side of its socket, together.
"""

import asyncio
import os
import sqlite3
import stat

import pytest

import salt.job_criteria.capacity
import salt.job_handler.claims
import salt.job_handler.gate
import salt.job_handler.ipc
import salt.job_handler.process
import salt.utils.files
import salt.utils.resource_registry
from salt.exceptions import CommandExecutionError, SaltInvocationError
from tests.support.mock import AsyncMock, patch

MINIONS = [f"m{number}" for number in range(25)]


async def _enter(setup, fun="state.apply", user="root", request=None, forced=False):
    return await salt.job_handler.gate.enter(
        setup.opts, setup.bus, {"fun": fun, "user": user}, request, forced=forced
    )


async def _publish(setup, jid, minions, request=None, fun="state.apply", **kwargs):
    """
    Do what ClearFuncs.publish does; return the answer, and None if it has to publish
    by itself.
    """
    gate = await _enter(setup, fun, request=request, **kwargs)
    if gate is None:
        return None
    if gate.answer is not None:
        return gate.answer
    load = {"jid": jid, "fun": fun, "arg": [], "tgt": "*", "tgt_type": "glob"}
    load.update({"ret": "", "user": "root"})
    return await gate.submit(load, list(minions), [])


def _request(name="1", **kwargs):
    return {"id": name, "sync": False, "timeout": 5, "extend": False, **kwargs}


def _return(setup, jid, *minions):
    for minion in minions:
        setup.handler.maintenance.returned(jid, minion)


async def _land(setup, handler):
    """
    Let time pass until what was published is certain to be on its way.
    """
    setup.clock.now += salt.job_handler.waves.FLIGHT_SECONDS
    await handler.tick()


def test_job_with_room_is_published_as_it_is(setup):
    """
    The load is the very one that the master would have published, and so is the answer.
    """

    async def run():
        await setup.start()
        return await _publish(setup, "1", ["m0", "m1"])

    answer = asyncio.run(run())
    assert answer == {
        "enc": "clear",
        "load": {"jid": "1", "minions": ["m0", "m1"], "missing": []},
    }
    assert setup.bus.published == [
        {
            "jid": "1",
            "fun": "state.apply",
            "arg": [],
            "tgt": "*",
            "tgt_type": "glob",
            "ret": "",
            "user": "root",
        }
    ]
    assert setup.bus.kinds("1") == ["publish"]


def test_wide_job_in_waves(setup):
    async def run():
        handler = await setup.start()
        answer = await _publish(setup, "1", MINIONS)
        state = answer["load"]["job_handler"]
        assert (state["state"], state["waiting"], state["sent"]) == ("queued", 15, 10)
        while handler.criteria.ledger.used:
            _return(setup, "1", *handler.criteria.ledger.of_job("1"))
            await handler.tick()

    asyncio.run(run())
    waves = setup.bus.reached("1", MINIONS)
    assert [len(wave) for wave in waves] == [10, 10, 5]
    assert sum(waves, []) == sorted(MINIONS)
    sent = setup.bus.told("1", "dispatched")
    assert [data["waiting"] for data in sent] == [15, 5, 0]
    assert sum((data["targets"] for data in sent), []) == sorted(MINIONS)
    # LocalClient would take these for something else
    assert not any({"minions", "error"} & set(data) for data in sent)


@pytest.fixture
def resources(setup):
    """
    A minion with two resources, and one whose own are known to nobody yet.
    """
    salt.utils.resource_registry.reset_registry()
    registry = salt.utils.resource_registry.get_registry(setup.opts)
    registry.register_minion("m3", {"dummy": ["res-1", "res-2"]})
    yield
    salt.utils.resource_registry.reset_registry()


@pytest.mark.parametrize("minions, full", [(MINIONS[:15], "m3"), (["res-1"], "res-1")])
def test_resources_of_minions(setup, resources, minions, full):
    """
    Which resources a minion runs a job on depends on how the target is written, so the
    job goes out as it is, in one piece and to minions at their limit as well.
    """
    setup.config(max_master_jobs=10, max_minion_jobs=1)

    async def run():
        handler = await setup.start()
        await _publish(setup, "1", minions)
        assert handler.criteria.ledger.used == len(minions)
        _return(setup, "1", *set(minions) - {full})
        await _publish(setup, "2", [full])

    asyncio.run(run())
    assert [load["tgt"] for load in setup.bus.published] == ["*", "*"]
    assert setup.bus.told("2", "excluded") == []


def test_minions_without_resources_beside_others(setup, resources):
    async def run():
        await setup.start()
        await _publish(
            setup, "1", [minion for minion in MINIONS[:16] if minion != "m3"]
        )

    asyncio.run(run())
    others = [minion for minion in MINIONS[:16] if minion != "m3"]
    (wave,) = setup.bus.reached("1", others)
    assert len(wave) == 10


def test_excluded_minion(setup):
    async def run():
        await setup.start()
        for jid in ("1", "2"):
            await _publish(setup, jid, ["m0"])
        return await _publish(setup, "3", MINIONS[:5])

    answer = asyncio.run(run())
    assert answer["load"]["job_handler"]["excluded"] == {
        "m0": "the minion is at 2 of 2 points"
    }
    assert answer["load"]["job_handler"]["waiting"] == 0
    assert setup.bus.published[-1]["tgt"] == "( * ) and not L@m0"
    assert setup.bus.published[-1]["tgt_type"] == "compound"
    assert setup.bus.kinds("3") == ["excluded", "publish"]


def test_minion_that_is_named_twice(setup):
    """
    As by ``salt -L m0,m0``: it is charged once, and has all of its capacity afterwards.
    """

    async def run():
        handler = await setup.start()
        for jid in ("1", "2", "3"):
            answer = await _publish(setup, jid, ["m0", "m0"])
            assert answer["load"] == {
                "jid": jid,
                "minions": ["m0", "m0"],
                "missing": [],
            }
            assert handler.criteria.ledger.used == 1
            _return(setup, jid, "m0")
        assert handler.criteria.ledger.points == {}

    asyncio.run(run())
    assert setup.bus.jids() == ["1", "2", "3"]


def test_exempt_functions_need_no_handler(setup):
    """
    There is none, and nobody asks.
    """

    async def run():
        with patch("salt.job_handler.ipc.ask", AsyncMock()) as ask:
            for fun in ("test.ping", "saltutil.find_job", ["test.ping", "test.ping"]):
                assert await _enter(setup, fun) is None
            assert not ask.called
            assert await _enter(setup, ["test.ping", "state.apply"]) is not None
            assert ask.called

    asyncio.run(run())


def test_nothing_when_off(setup):
    setup.opts["rate_limiting"] = {}
    assert asyncio.run(_enter(setup)) is None
    assert os.listdir(setup.opts["sock_dir"]) == []


def test_second_try_gets_the_first_job(setup):
    async def run():
        await setup.start()
        first = await _publish(setup, "1", ["m0"], _request())
        second = await _publish(setup, "2", ["m0"], _request())
        other = await _publish(setup, "3", ["m0"], _request(), user="bob")
        return [answer["load"]["jid"] for answer in (first, second, other)]

    assert asyncio.run(run()) == ["1", "1", "3"]
    assert setup.bus.jids() == ["1", "3"]


def test_second_try_while_the_first_has_no_job_id(setup):
    """
    It waits for the first one's answer.
    """

    async def run():
        await setup.start()
        first = await _enter(setup, request=_request())
        second = asyncio.ensure_future(_publish(setup, "2", ["m0"], _request()))
        await asyncio.sleep(0.3)
        assert not second.done()
        load = {"jid": "1", "fun": "f", "tgt": "*", "tgt_type": "glob"}
        await first.submit(load, ["m0"], [])
        return await second

    assert asyncio.run(run())["load"]["jid"] == "1"


def test_second_try_is_remembered_after_a_crash(setup):
    async def run():
        await setup.start()
        await _publish(setup, "1", ["m0"], _request())
        await setup.stop()
        await setup.start()
        return await _publish(setup, "2", ["m0"], _request())

    assert asyncio.run(run())["load"]["jid"] == "1"


def test_full_queue(setup):
    """
    A refusal before there is a job id; a retry succeeds when there is room.
    """
    setup.config(max_master_jobs=1, max_queue_size=2)

    async def run():
        handler = await setup.start()
        for number in range(3):
            await _publish(setup, f"{number}", ["m0"])
        refused = await _enter(setup)
        _return(setup, "0", "m0")
        await handler.tick()
        again = await _enter(setup)
        return refused.answer, again.answer

    refused, again = asyncio.run(run())
    assert refused["error"]["name"] == "JobQueueFullError"
    assert refused["error"]["message"].startswith(
        "The master has 2 jobs waiting, which is all it takes. Nothing was sent;"
    )
    assert 1 <= refused["error"]["retry_after"] <= 120
    assert again is None


def test_synchronous_job_is_discarded_in_time(setup):
    """
    Its asynchronous twin runs.
    """
    setup.config(max_master_jobs=1)

    async def run():
        handler = await setup.start()
        await _publish(setup, "runs", ["m0"])
        await _publish(setup, "sync", ["m1"], _request("1", sync=True))
        await _publish(setup, "async", ["m1"], _request("2"))
        setup.clock.now += 5
        await handler.tick()
        _return(setup, "runs", "m0")
        await handler.tick()

    asyncio.run(run())
    assert setup.bus.jids() == ["runs", "async"]
    (data,) = setup.bus.told("sync", "discarded")
    assert data["targets"] == ["m1"]
    assert data["sentence"].startswith("It waited in the master's queue for longer")


def test_caller_gives_up_while_others_are_published(setup):
    """
    Publishing many jobs takes a while, and the next one is asked about only then.
    """
    setup.config(max_master_jobs=100)

    async def slow(load):
        setup.clock.now += 2
        setup.bus.published.append(load)

    async def run():
        handler = await setup.start()
        handler.manager.orders.paused = True
        for jid in ("1", "2", "3"):
            await _publish(setup, jid, ["m0"], _request(jid, sync=True))
        handler.manager.orders.paused = False
        setup.bus.publish = slow
        setup.clock.now += 2
        await handler.tick()

    asyncio.run(run())
    assert setup.bus.jids() == ["1", "2"]
    assert setup.bus.kinds("3")[-1] == "discarded"


@pytest.mark.parametrize("how", ["setting", "request"])
def test_extended_wait(setup, how):
    setup.config(
        max_master_jobs=1, sync_wait="extend" if how == "setting" else "timeout"
    )

    async def run():
        handler = await setup.start()
        await _publish(setup, "runs", ["m0"])
        await _publish(
            setup, "sync", ["m1"], _request(sync=True, extend=how == "request")
        )
        setup.clock.now += 500
        await handler.tick()
        _return(setup, "runs", "m0")
        await handler.tick()

    asyncio.run(run())
    assert setup.bus.jids() == ["runs", "sync"]


def test_waiting_client_is_told_again(setup):
    setup.config(max_master_jobs=1, sync_wait="extend")

    async def run():
        handler = await setup.start()
        await _publish(setup, "runs", ["m0"])
        await _publish(setup, "sync", ["m1"], _request(sync=True))
        for _ in range(20):
            setup.clock.now += 1
            await handler.tick()

    asyncio.run(run())
    # the first one comes with the answer
    assert len(setup.bus.told("sync", "queued")) == 1 + 20 // 4


def test_private_socket(setup):
    async def run():
        await setup.start()

    asyncio.run(run())
    mode = os.stat(salt.job_handler.ipc.path(setup.opts)).st_mode
    assert stat.S_IMODE(mode) == 0o600


@pytest.mark.parametrize("fail_mode", ["open", "closed"])
def test_dead_handler(setup, fail_mode):
    setup.config(fail_mode=fail_mode)
    answer = asyncio.run(_publish(setup, "1", ["m0"]))
    if fail_mode == "open":
        assert answer is None
    else:
        assert answer["error"]["name"] == "JobQueueFullError"
    ((tag, data),) = setup.bus.events
    assert (tag, data["fail_mode"]) == ("salt/job_handler/unavailable", fail_mode)


def test_handler_that_stops_after_it_took_the_job(setup):
    """
    The worker gets no reply, but the job is safe: it must not be published twice.
    """

    async def run():
        handler = await setup.start()
        gate = await _enter(setup)

        async def stuck(*args):
            await asyncio.sleep(3)

        with patch.object(handler.dispatcher, "pump", stuck):
            answer = await gate.submit({"jid": "1", "fun": "f"}, ["m0"], [])
        assert answer["load"]["job_handler"] == {
            "state": "queued",
            "waiting": 1,
            "ticket": gate.submission,
        }
        await setup.stop()
        handler = await setup.start()
        await handler.tick()

    with patch("salt.job_handler.gate.ANSWER_SECONDS", 0.2):
        asyncio.run(run())
    assert setup.bus.jids() == ["1"]


def test_handler_that_goes_on_too_late(setup):
    """
    The worker has published the job itself: the job handler must not.
    """

    async def run():
        handler = await setup.start()
        gate = await _enter(setup)
        wait = asyncio.Event()

        async def stopped(request):
            await wait.wait()
            return await real(request)

        real = handler.commands.cmd_submit
        with patch.object(handler.commands, "cmd_submit", stopped):
            load = {"jid": "1", "fun": "f", "tgt": "*", "tgt_type": "glob"}
            assert await gate.submit(load, ["m0"], []) is None
            wait.set()
            await asyncio.sleep(0.2)
        await handler.tick()

    with patch("salt.job_handler.gate.ANSWER_SECONDS", 0.2):
        asyncio.run(run())
    assert setup.bus.published == []


def test_crash_with_a_queue(setup):
    """
    Jobs that wait are published by the next job handler, in their order, and once.
    """
    setup.config(max_master_jobs=1)

    async def run():
        handler = await setup.start()
        for number in range(4):
            await _publish(setup, f"{number}", ["m0"])
        await _land(setup, handler)
        await setup.stop()
        handler = await setup.start()
        assert handler.criteria.ledger.used == 1
        for number in range(4):
            _return(setup, f"{number}", "m0")
            await handler.tick()

    asyncio.run(run())
    assert setup.bus.jids() == ["0", "1", "2", "3"]


def test_job_that_is_too_old_is_not_published(setup):
    """
    A reboot that was queued by the master of ninety days ago must not happen today.
    """
    setup.config(max_master_jobs=1)

    async def run():
        handler = await setup.start()
        for jid in ("1", "2"):
            await _publish(setup, jid, ["m0"], fun="system.reboot")
        await _land(setup, handler)
        await setup.stop()
        setup.clock.now += 90 * 86400
        handler = await setup.start()
        await handler.tick()
        assert not len(handler.manager.queue)
        assert handler.journal.jobs() == []

    asyncio.run(run())
    assert setup.bus.jids() == ["1"]
    (told,) = setup.bus.told("2", "discarded")
    assert (told["reason"], told["waiting"]) == ("age", 1)
    assert told["sentence"].endswith("for longer than max_queue_age")


def test_how_old_a_job_may_get(setup):
    setup.config(max_master_jobs=1, max_queue_age=100)

    async def run():
        handler = await setup.start()
        await _publish(setup, "1", ["m0"])
        await _publish(setup, "2", ["m1"])
        sync = {"sync": True, "timeout": 50}
        await _publish(setup, "3", ["m1"], request=_request("3", **sync))
        await _publish(setup, "4", ["m1"], request=_request("4", **sync, extend=True))
        for setup.clock.now in (1049, 1051, 1099, 1101):
            await handler.tick()

    asyncio.run(run())
    assert [
        (jid, [told["reason"] for told in setup.bus.told(jid, "discarded")])
        for jid in "1234"
    ] == [("1", []), ("2", ["age"]), ("3", ["timeout"]), ("4", ["age"])]


def test_crash_between_two_waves(setup):
    """
    The rest goes to the rest only.
    """

    async def run():
        handler = await setup.start()
        await _publish(setup, "1", MINIONS[:15])
        await _land(setup, handler)
        await setup.stop()
        handler = await setup.start()
        _return(setup, "1", *setup.bus.reached("1", MINIONS[:15])[0])
        await handler.tick()

    asyncio.run(run())
    first, second = setup.bus.reached("1", MINIONS[:15])
    assert sorted(first + second) == sorted(MINIONS[:15])


def test_crash_after_most_have_returned(setup):
    """
    Of 31 minions at a limit of 3 jobs each, 30 have returned three jobs and one is dead:
    after a crash the next job goes to the 30, and nobody is left out before it has been
    asked.
    """
    minions = [f"m{number}" for number in range(31)]
    setup.config(max_minion_jobs=3, long_running=60, reconcile_interval=15)

    async def run():
        handler = await setup.start()
        for jid in "123":
            await _publish(setup, jid, minions)
            _return(setup, jid, *minions[:30])
        await _land(setup, handler)
        await setup.stop()
        handler = await setup.start()
        assert handler.criteria.ledger.minions() == {"m30": 3}
        await _publish(setup, "4", minions)
        assert setup.bus.told("4", "excluded") == []
        assert sorted(setup.bus.published[-1]["tgt"]) == sorted(minions[:30])
        assert handler.report.show("4", setup.clock())["state"] == "queued"
        _return(setup, "4", *minions[:30])
        for _ in range(2 * 15 + 2):
            setup.clock.now += 1
            await handler.tick()

    asyncio.run(run())
    ((minion, reason),) = setup.bus.told("4", "excluded")[0]["excluded"].items()
    assert (minion, reason[:27]) == ("m30", "the minion has not answered")
    assert setup.bus.jids() == list("1234")


def test_crash_before_the_last_returns_were_written_down(setup):
    """
    They are asked for, and nobody is left out meanwhile.
    """
    setup.config(max_minion_jobs=1)

    async def run():
        handler = await setup.start()
        await _publish(setup, "1", ["m0", "m1"])
        await _land(setup, handler)
        _return(setup, "1", "m0", "m1")
        await setup.stop()
        handler = await setup.start()
        assert handler.criteria.ledger.minions() == {"m0": 1, "m1": 1}
        await _publish(setup, "2", ["m0", "m1"])
        assert setup.bus.jids() == ["1"]
        for fun in ("saltutil.running", "saltutil.find_job"):
            await handler.tick()
            question = setup.bus.published[-1]
            assert (question["fun"], question["tgt"]) == (fun, ["m0", "m1"])
            for minion in question["tgt"]:
                handler.maintenance.answered(
                    question["jid"], minion, [] if "run" in fun else {}
                )
        await handler.tick()

    asyncio.run(run())
    assert setup.bus.jids() == ["1", "2"]
    assert setup.bus.told("2", "excluded") == []


def test_who_has_returned_is_not_sent_it_again(setup):
    async def run():
        handler = await setup.start()
        await _publish(setup, "1", ["m0", "m1"])
        _return(setup, "1", "m1")
        await handler.tick()
        await setup.stop()
        await setup.start()

    asyncio.run(run())
    assert setup.bus.jids() == ["1", "1"]
    assert setup.bus.published[1]["tgt"] == ["m0"]


def test_silent_minions_are_remembered(setup):
    async def run():
        handler = await setup.start()
        handler.criteria.on_silent("m0", setup.clock())
        await handler.tick()
        await setup.stop()
        handler = await setup.start()
        assert handler.criteria.silent == {"m0": setup.clock()}
        # nor is anybody left out who has been heard of before the end
        handler.criteria.heard("m0")
        await handler.tick()
        await setup.stop()
        handler = await setup.start()
        assert handler.criteria.silent == {}
        handler.criteria.on_silent("m0", setup.clock())
        await handler.tick()
        await setup.stop()
        # minions come back to a master that is started again
        handler = await setup.start(master="another")
        assert handler.criteria.silent == {}

    asyncio.run(run())


@pytest.mark.parametrize("fixed", ["order_masters", "resources"])
def test_what_is_sent_again_keeps_its_target(setup, resources, fixed):
    """
    It may reach others than those who are known. What manages resources executes it twice,
    so it is not sent again there.
    """
    setup.opts["order_masters"] = fixed == "order_masters"
    first = "m3" if fixed == "resources" else "m0"

    async def run():
        handler = await setup.start()
        await _publish(setup, "1", [first, "m1"])
        _return(setup, "1", "m1")
        await handler.tick()
        await setup.stop()
        await setup.start()

    asyncio.run(run())
    sent = [load["tgt"] for load in setup.bus.published if load["jid"] == "1"]
    assert sent == (["*"] if fixed == "resources" else ["*", "*"])


@pytest.mark.parametrize("later", [50, 51])
def test_what_minions_may_have_forgotten_is_not_sent_again(setup, caplog, later):
    """
    They remember the last hundred jobs.
    """
    setup.config(max_master_jobs=1000)

    async def run():
        handler = await setup.start()
        await _publish(setup, "1", ["m0"])
        for number in range(later):
            await _publish(setup, f"{number + 2}", ["m0"])
            _return(setup, f"{number + 2}", "m0")
        await handler.tick()
        await setup.stop()
        await setup.start()

    asyncio.run(run())
    assert setup.bus.jids().count("1") == (2 if later == 50 else 1)
    said = "Job 1 may have been sent to m0 when the job handler ended"
    assert (said in caplog.text) == (later == 51)


def test_crash_in_the_moment_of_publishing(setup):
    """
    What may not have been sent is sent again, under the same job id: the publisher may
    have been killed with the job handler.
    """

    async def run():
        await setup.start()
        await _publish(setup, "1", ["m0"])
        await setup.stop()
        await setup.start()

    asyncio.run(run())
    assert setup.bus.jids() == ["1", "1"]
    assert setup.bus.published[0] == setup.bus.published[1]


def test_restart_of_the_master(setup):
    """
    Minions have to connect again before anything is sent to them.
    """
    setup.config(max_master_jobs=1)

    async def run():
        handler = await setup.start()
        await _publish(setup, "0", ["m0"])
        await _publish(setup, "1", ["m0"])
        await _land(setup, handler)
        await setup.stop()
        handler = await setup.start(master="another")
        _return(setup, "0", "m0")
        await handler.tick()
        assert setup.bus.jids() == ["0"]
        setup.clock.now += salt.job_handler.recovery.RECONNECT_SECONDS
        await handler.tick()

    asyncio.run(run())
    assert setup.bus.jids() == ["0", "1"]


async def _restarted(setup):
    """
    Return the job handler of a master that was just started again, with nothing to do.
    """
    await setup.start()
    await setup.stop()
    return await setup.start(master="another")


def test_job_in_the_first_seconds_of_a_restarted_master(setup):
    """
    It waits for minions as well, also if the job handler is killed meanwhile.
    """

    async def run():
        handler = await _restarted(setup)
        answer = await _publish(setup, "1", ["m0", "m1"])
        assert answer["load"]["job_handler"]["state"] == "queued"
        await handler.tick()
        await setup.stop()
        setup.clock.now += salt.job_handler.recovery.RECONNECT_SECONDS - 1
        handler = await setup.start(master="another")
        await handler.tick()
        assert setup.bus.jids() == []
        setup.clock.now += 1
        await handler.tick()

    asyncio.run(run())
    assert setup.bus.jids() == ["1"]


def test_synchronous_job_in_the_first_seconds_of_a_restarted_master(setup):
    """
    Its client would have gone when all minions are there, so those that are answer.
    """

    async def run():
        await _restarted(setup)
        await _publish(setup, "1", ["m0"], _request(sync=True))
        assert setup.bus.jids() == ["1"]
        await _publish(setup, "2", ["m0"])
        await _publish(setup, "3", ["m0"], _request("3", sync=True))

    asyncio.run(run())
    assert setup.bus.jids() == ["1"]


def test_publisher_that_fails_while_jobs_wait_for_minions(setup):
    """
    They go on to wait.
    """

    async def run():
        handler = await _restarted(setup)
        setup.bus.broken = True
        await _publish(setup, "1", ["m0"], _request(sync=True, timeout=600))
        setup.bus.broken = False
        await _publish(setup, "2", ["m0"])
        setup.clock.now += salt.job_handler.recovery.RECONNECT_SECONDS - 1
        await handler.tick()
        assert setup.bus.jids() == []
        setup.clock.now += 1
        await handler.tick()

    asyncio.run(run())
    assert setup.bus.jids() == ["1", "2"]


async def _killed(setup, *jobs):
    """
    Publish jobs, kill the master in that moment, and return the job handler of the next
    one, which does not know whether they were sent.
    """
    await setup.start()
    for jid, minions in jobs:
        await _publish(setup, jid, minions)
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
        handler = await _killed(setup, ("1", MINIONS), ("2", ["m0"]))
        assert await _cancel(handler, "1") == len(MINIONS)
        assert handler.criteria.ledger.used == 0
        assert handler.manager.counters["cancelled"] == 1
        assert (handler.journal.waves(), len(handler.journal.jobs())) == ([], 1)
        await _connect(setup)

    asyncio.run(run())
    assert setup.bus.jids() == ["2"]
    (told,) = setup.bus.told("1", "discarded")
    assert told["targets"] == sorted(MINIONS)


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


def test_publisher_that_fails(setup):
    """
    The wave is given back, and goes out when the publisher is there again.
    """

    async def run():
        handler = await setup.start()
        setup.bus.broken = True
        answer = await _publish(setup, "1", ["m0", "m1"])
        assert handler.criteria.ledger.used == 0
        setup.bus.broken = False
        setup.clock.now += 1
        await handler.tick()
        return answer

    assert asyncio.run(run())["load"]["job_handler"]["reason"] == (
        "it could not be published"
    )
    assert [load["tgt"] for load in setup.bus.published] == [["m0", "m1"]]


def test_full_disk(setup):
    """
    What can't be written down is not published, and goes out when there is room again.
    """

    async def run():
        handler = await setup.start()
        full = sqlite3.OperationalError("database or disk is full")
        with patch.object(handler.journal, "dispatch", side_effect=full):
            answer = await _publish(setup, "1", ["m0", "m1"])
            assert handler.criteria.ledger.used == 0
        assert setup.bus.published == []
        setup.clock.now += 1
        await handler.tick()
        return answer

    assert asyncio.run(run())["load"]["job_handler"]["state"] == "queued"
    assert setup.bus.jids() == ["1"]


def test_settled_waves_are_forgotten(setup):
    async def run():
        handler = await setup.start()
        await _publish(setup, "1", ["m0", "m1"])
        _return(setup, "1", "m0")
        await handler.tick()
        assert len(handler.journal.waves()) == 1
        _return(setup, "1", "m1")
        await handler.tick()
        assert handler.journal.waves() == []

    asyncio.run(run())


def test_peer_publication_at_full_capacity(setup):
    """
    Its worker blocks, so it does not wait, but it is charged.
    """
    setup.config(max_master_jobs=1)

    async def run():
        handler = await setup.start()
        await _publish(setup, "1", ["m0"])
        for number in range(4):
            answer = await _publish(setup, f"peer{number}", ["m0"], forced=True)
            assert "job_handler" not in answer["load"]
        assert handler.criteria.ledger.used == 5

    asyncio.run(run())
    assert len(setup.bus.published) == 5


def test_maintenance_asks_without_the_queue(setup):
    setup.config(max_master_jobs=1, long_running=60)

    async def run():
        handler = await setup.start()
        await _publish(setup, "1", ["m0"])
        await _publish(setup, "2", ["m0"])
        setup.clock.now += 61
        await handler.tick()
        question = setup.bus.published[-1]
        assert (question["fun"], question["tgt"]) == ("saltutil.running", ["m0"])
        # a minion that runs as many jobs as it may answers all the same
        assert question["__ignore_process_count_max"] is True
        handler.maintenance.answered(question["jid"], "m0", [])
        await handler.tick()
        question = setup.bus.published[-1]
        assert (question["fun"], question["arg"]) == ("saltutil.find_job", ["1"])
        handler.maintenance.answered(question["jid"], "m0", {})
        await handler.tick()

    asyncio.run(run())
    assert setup.bus.published[-1]["jid"] == "2"


def test_questions_that_can_not_be_published(setup):
    """
    Nobody is silent who was not asked, and the queue goes on as far as it can.
    """

    async def run():
        handler = await setup.start()
        await _publish(setup, "1", ["m0"])
        setup.bus.broken = True
        for _ in range(60 + 3 * 15):
            setup.clock.now += 1
            await handler.tick()
        assert handler.criteria.silent == {}
        assert handler.criteria.ledger.used == 1
        setup.bus.broken = False
        await handler.tick()
        assert setup.bus.published[-1]["fun"] == "saltutil.running"
        assert handler.criteria.silent == {}

    asyncio.run(run())


def test_capacities_are_whole_again(setup):
    """
    Of 1,000 minions 100 die in mid-job, and of the others 50 returns are lost with the
    event bus: within the threshold and two rounds only what really runs, or waits in a
    minion's own queue, is charged.
    """
    setup.config(max_master_jobs=2000, long_running=60, reconcile_interval=15)
    minions = [f"m{number:04}" for number in range(1000)]
    dead, lost = set(minions[:100]), set(minions[100:150])
    runs, waits = set(minions[150:180]), set(minions[180:190])

    def answer(handler, load):
        for minion in set(load["tgt"]) - dead:
            if load["fun"] == "saltutil.running":
                found = [{"jid": "1"}] if minion in runs else []
            else:
                found = {"jid": "1"} if minion in waits else {}
            handler.maintenance.answered(load["jid"], minion, found)

    async def run():
        handler = await setup.start()
        await _publish(setup, "1", minions)
        assert handler.criteria.ledger.used == 1000
        _return(setup, "1", *set(minions) - dead - lost - runs - waits)
        handler.maintenance.missed()
        answered = 1
        for _ in range(60 + 2 * 15):
            setup.clock.now += 1
            await handler.tick()
            for load in setup.bus.published[answered:]:
                answer(handler, load)
            answered = len(setup.bus.published)
        assert set(handler.criteria.silent) == dead
        # what they were sent may still run when they are back
        assert handler.criteria.ledger.of_job("1") == runs | waits | dead
        assert handler.criteria.stats(setup.clock())["used"] == len(runs | waits)
        shown = handler.report.show("1", setup.clock())
        assert set(shown["silent"]) == dead
        assert set(shown["running_on"]) == runs | waits
        for _ in range(salt.job_criteria.capacity.HOLD_SECONDS + 60 + 2 * 15):
            setup.clock.now += 1
            await handler.tick()
            for load in setup.bus.published[answered:]:
                answer(handler, load)
            answered = len(setup.bus.published)
        assert handler.criteria.ledger.of_job("1") == runs | waits
        assert set(handler.criteria.silent) == dead

    asyncio.run(run())


def test_master_of_masters(setup):
    """
    It may not know a single target: the job counts, and its target stays as it is.
    """
    setup.opts["order_masters"] = True
    setup.config(max_master_jobs=1)

    async def run():
        handler = await setup.start()
        await _publish(setup, "1", [])
        await _publish(setup, "2", [])
        assert setup.bus.jids() == ["1"]
        setup.clock.now += 61
        await handler.tick()
        await handler.tick()

    asyncio.run(run())
    assert setup.bus.jids() == ["1", "2"]
    assert {load["tgt"] for load in setup.bus.published} == {"*"}


def test_peers_of_a_cluster_are_charged(setup):
    async def run():
        handler = await setup.start()
        handler.maintenance.peer_published("9", "state.apply", ["m0", "m1"])
        handler.maintenance.peer_published("8", "test.ping", ["m0", "m1"])
        return handler.criteria.ledger.jobs()

    assert asyncio.run(run()) == {"9": 2}


def test_runner(setup):
    """
    All functions of the runner, over the real socket.
    """
    # pylint: disable=import-outside-toplevel
    import salt.runners.job_handler as runner

    setup.config(max_master_jobs=1)

    async def run():
        await setup.start()
        await _publish(setup, "1", ["m0"])
        await _publish(setup, "2", ["m1", "m2"])
        loop = asyncio.get_running_loop()

        async def ask(function, *args):
            return await loop.run_in_executor(None, function, *args)

        with patch.object(runner, "__opts__", setup.opts, create=True):
            figures = await ask(runner.figures)
            assert (figures["queued"], figures["capacity"]["used"]) == (1, 1)
            status = await ask(runner.status)
            assert status["to do"] == ["Nothing: the queue is at work."]
            assert status["queue"].startswith("1 job of 10,000, the oldest since 1970")
            assert status["capacity"] == "1 of 1 points used"
            (line,) = await ask(runner.list_)
            assert line["jid"] == "2"
            assert line["reason"] == "the master is at 1 of 1 points"
            shown = await ask(runner.show, "2")
            assert (shown["state"], shown["waiting"][0]["waiting"]) == ("queued", 2)
            shown = await ask(runner.show, "1")
            assert (shown["state"], shown["running_on"]) == ("dispatched", ["m0"])
            assert (await ask(runner.show, "3"))["state"] == "not here"
            setup.clock.now += 7
            (charge,) = await ask(runner.charges)
            assert charge == {
                "minion": "m0",
                "jid": "1",
                "points": 1,
                "seconds": 7,
                "in_doubt": False,
            }
            assert await ask(runner.charges, "m0") == [charge]
            assert await ask(runner.charges, "m1") == []
            assert await ask(runner.pause) is True
            (advice,) = (await ask(runner.status))["to do"]
            assert "paused until 1970-01-01 01:16:47 UTC" in advice
            assert await ask(runner.pause, 0) is True
            (advice,) = (await ask(runner.status))["to do"]
            assert "paused: salt-run job_handler.resume" in advice
            assert await ask(runner.resume) is True
            assert await ask(runner.hold, "2") == 2
            (line,) = await ask(runner.list_)
            assert line["reason"] == "an administrator holds it"
            assert await ask(runner.prioritize, "2", 5) == 2
            (line,) = await ask(runner.list_)
            assert line["priority"] == 5
            assert await ask(runner.release, "2") == 2
            for call in (
                lambda: runner.pause("x"),
                lambda: runner.pause(-1),
                lambda: runner.prioritize("2", 1.5),
            ):
                with pytest.raises(SaltInvocationError):
                    await ask(call)
            assert await ask(runner.reconcile) == 1
            assert await ask(runner.cancel, "2") == 2
            assert await ask(runner.cancel, "2") == 0
            setup.opts["rate_limiting"] = {}
            with pytest.raises(CommandExecutionError, match="^The job handler is off"):
                await ask(runner.status)

    asyncio.run(run())
    assert setup.bus.told("2", "discarded")[0]["reason"] == "cancelled"


def test_pause_survives_a_restart(setup):
    async def run():
        handler = await setup.start()
        await handler.commands.handle({"cmd": "pause", "paused": True})
        await setup.stop()
        await setup.start()
        await _publish(setup, "1", ["m0"])

    asyncio.run(run())
    assert setup.bus.published == []


def test_pause_ends_by_itself(setup):
    """
    Also when the job handler was started again meanwhile.
    """

    async def run():
        handler = await setup.start()
        pause = {"cmd": "pause", "paused": True, "seconds": 60}
        await handler.commands.handle(pause)
        await _publish(setup, "1", ["m0"])
        await setup.stop()
        handler = await setup.start()
        (line,) = handler.report.jobs(setup.clock())
        assert line["reason"] == "the queue is paused until 1970-01-01 00:17:40 UTC"
        assert setup.bus.jids() == []
        setup.clock.now += 60
        await handler.tick()

    asyncio.run(run())
    assert setup.bus.jids() == ["1"]


def test_what_an_administrator_has_said_survives_a_restart(setup):
    setup.config(max_master_jobs=1)

    async def run():
        handler = await setup.start()
        for number in range(1, 5):
            await _publish(setup, f"{number}", ["m0"])
        order = {"cmd": "order", "jid": "2", "held": True}
        await handler.commands.handle(order)
        order = {"cmd": "order", "jid": "4", "priority": 1}
        await handler.commands.handle(order)
        await setup.stop()
        handler = await setup.start()
        for jid in "143":
            _return(setup, jid, "m0")
            await handler.tick()
        return [job.jid for job in handler.manager.queue]

    assert asyncio.run(run()) == ["2"]
    assert setup.bus.jids()[-2:] == ["4", "3"]


def test_jobs_that_wait_are_limited_in_bytes(setup):
    """
    Those that were taken over are counted, too.
    """
    setup.config(max_queue_bytes=100000)

    async def publish(jid, size):
        gate = await salt.job_handler.gate.enter(
            setup.opts,
            setup.bus,
            {"fun": "f", "user": "root", "arg": ["x" * size]},
            None,
        )
        if gate.answer is not None:
            return gate.answer["error"]["message"]
        load = {"jid": jid, "fun": "f", "arg": ["x" * size], "tgt": "*"}
        load.update({"tgt_type": "glob", "ret": "", "user": "root"})
        await gate.submit(load, ["m0"], [])
        return None

    async def run():
        handler = await setup.start()
        handler.manager.orders.paused = True
        await handler.commands.handle({"cmd": "pause", "paused": True})
        assert await publish("1", 60000) is None
        found = [await publish("2", 60000)]
        await setup.stop()
        await setup.start()
        found.append(await publish("3", 60000))
        assert await publish("4", 30000) is None
        await setup.handler.commands.handle({"cmd": "cancel", "jid": "1"})
        assert await publish("5", 60000) is None
        found.append(await publish("6", 200000))
        return found

    for message in asyncio.run(run()):
        assert message.startswith("With this one the jobs that wait would take ")
        assert "max_queue_bytes is 100000. Nothing was sent;" in message


def test_request_that_makes_no_sense(setup):
    """
    The private socket answers with an error and goes on.
    """

    async def run():
        await setup.start()
        for request in ({"cmd": "nonesuch"}, {"cmd": "submit"}):
            with pytest.raises(salt.job_handler.ipc.JobHandlerUnavailable):
                await salt.job_handler.ipc.ask(setup.opts, request, 1)
        return await salt.job_handler.ipc.ask(setup.opts, {"cmd": "list"}, 1)

    assert asyncio.run(run()) == {"jobs": []}


def test_client_may_say_anything(setup):
    async def run():
        await setup.start()
        for request in (
            "text",
            {"id": 7},
            {"id": "x" * 1000, "sync": True, "timeout": "long"},
            {"sync": True, "timeout": None},
            {"sync": True, "timeout": -5},
        ):
            assert (await _publish(setup, "1", ["m9"], request))["load"]["jid"] == "1"
            _return(setup, "1", "m9")

    asyncio.run(run())


def test_nothing_secret_is_kept(setup):
    """
    What authenticates a caller never comes near the queue.
    """
    setup.config(max_master_jobs=1)

    async def run():
        await setup.start()
        await _publish(setup, "1", ["m0"])
        await _publish(setup, "2", ["m0"], {**_request(), "token": "s3cret"})

    asyncio.run(run())
    folder = salt.job_handler.claims.folder(setup.opts)
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            with salt.utils.files.fopen(path, "rb") as file:
                assert b"s3cret" not in file.read()
