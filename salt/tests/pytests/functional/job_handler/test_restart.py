"""
What a job handler takes over from the one before it, after a crash or with a master that is
started again.
"""

import asyncio

import pytest

import salt.job_handler.recovery
import tests.pytests.functional.job_handler.worker as worker


def test_second_try_is_remembered_after_a_crash(setup):
    async def run():
        await setup.start()
        await worker.publish(setup, "1", ["m0"], worker.request())
        await setup.stop()
        await setup.start()
        return await worker.publish(setup, "2", ["m0"], worker.request())

    assert asyncio.run(run())["load"]["jid"] == "1"


def test_crash_with_a_queue(setup):
    """
    Jobs that wait are published by the next job handler, in their order, and once.
    """
    setup.config(max_master_jobs=1)

    async def run():
        handler = await setup.start()
        for number in range(4):
            await worker.publish(setup, f"{number}", ["m0"])
        await worker.land(setup, handler)
        await setup.stop()
        handler = await setup.start()
        assert handler.criteria.ledger.used == 1
        for number in range(4):
            worker.give_back(setup, f"{number}", "m0")
            await handler.tick()

    asyncio.run(run())
    assert setup.bus.jids() == ["0", "1", "2", "3"]


def test_crash_between_two_waves(setup):
    """
    The rest goes to the rest only.
    """

    async def run():
        handler = await setup.start()
        await worker.publish(setup, "1", worker.MINIONS[:15])
        await worker.land(setup, handler)
        await setup.stop()
        handler = await setup.start()
        worker.give_back(setup, "1", *setup.bus.reached("1", worker.MINIONS[:15])[0])
        await handler.tick()

    asyncio.run(run())
    first, second = setup.bus.reached("1", worker.MINIONS[:15])
    assert sorted(first + second) == sorted(worker.MINIONS[:15])


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
            await worker.publish(setup, jid, minions)
            worker.give_back(setup, jid, *minions[:30])
        await worker.land(setup, handler)
        await setup.stop()
        handler = await setup.start()
        assert handler.criteria.ledger.minions() == {"m30": 3}
        await worker.publish(setup, "4", minions)
        assert setup.bus.told("4", "excluded") == []
        assert sorted(setup.bus.published[-1]["tgt"]) == sorted(minions[:30])
        assert handler.report.show("4", setup.clock())["state"] == "queued"
        worker.give_back(setup, "4", *minions[:30])
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
        await worker.publish(setup, "1", ["m0", "m1"])
        await worker.land(setup, handler)
        worker.give_back(setup, "1", "m0", "m1")
        await setup.stop()
        handler = await setup.start()
        assert handler.criteria.ledger.minions() == {"m0": 1, "m1": 1}
        await worker.publish(setup, "2", ["m0", "m1"])
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
        await worker.publish(setup, "1", ["m0", "m1"])
        worker.give_back(setup, "1", "m1")
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
        await worker.publish(setup, "1", [first, "m1"])
        worker.give_back(setup, "1", "m1")
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
        await worker.publish(setup, "1", ["m0"])
        for number in range(later):
            await worker.publish(setup, f"{number + 2}", ["m0"])
            worker.give_back(setup, f"{number + 2}", "m0")
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
        await worker.publish(setup, "1", ["m0"])
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
        await worker.publish(setup, "0", ["m0"])
        await worker.publish(setup, "1", ["m0"])
        await worker.land(setup, handler)
        await setup.stop()
        handler = await setup.start(master="another")
        worker.give_back(setup, "0", "m0")
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
        answer = await worker.publish(setup, "1", ["m0", "m1"])
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
        await worker.publish(setup, "1", ["m0"], worker.request(sync=True))
        assert setup.bus.jids() == ["1"]
        await worker.publish(setup, "2", ["m0"])
        await worker.publish(setup, "3", ["m0"], worker.request("3", sync=True))

    asyncio.run(run())
    assert setup.bus.jids() == ["1"]


def test_publisher_that_fails_while_jobs_wait_for_minions(setup):
    """
    They go on to wait.
    """

    async def run():
        handler = await _restarted(setup)
        setup.bus.broken = True
        await worker.publish(setup, "1", ["m0"], worker.request(sync=True, timeout=600))
        setup.bus.broken = False
        await worker.publish(setup, "2", ["m0"])
        setup.clock.now += salt.job_handler.recovery.RECONNECT_SECONDS - 1
        await handler.tick()
        assert setup.bus.jids() == []
        setup.clock.now += 1
        await handler.tick()

    asyncio.run(run())
    assert setup.bus.jids() == ["1", "2"]
