"""
Callers that wait for the answers of jobs that wait, and how long that may be.
"""

import asyncio

import pytest

import tests.pytests.functional.job_handler.worker as worker


def test_synchronous_job_is_discarded_in_time(setup):
    """
    Its asynchronous twin runs.
    """
    setup.config(max_master_jobs=1)

    async def run():
        handler = await setup.start()
        await worker.publish(setup, "runs", ["m0"])
        await worker.publish(setup, "sync", ["m1"], worker.request("1", sync=True))
        await worker.publish(setup, "async", ["m1"], worker.request("2"))
        setup.clock.now += 5
        await handler.tick()
        worker.give_back(setup, "runs", "m0")
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
            await worker.publish(setup, jid, ["m0"], worker.request(jid, sync=True))
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
        await worker.publish(setup, "runs", ["m0"])
        await worker.publish(
            setup, "sync", ["m1"], worker.request(sync=True, extend=how == "request")
        )
        setup.clock.now += 500
        await handler.tick()
        worker.give_back(setup, "runs", "m0")
        await handler.tick()

    asyncio.run(run())
    assert setup.bus.jids() == ["runs", "sync"]


def test_waiting_client_is_told_again(setup):
    setup.config(max_master_jobs=1, sync_wait="extend")

    async def run():
        handler = await setup.start()
        await worker.publish(setup, "runs", ["m0"])
        await worker.publish(setup, "sync", ["m1"], worker.request(sync=True))
        for _ in range(20):
            setup.clock.now += 1
            await handler.tick()

    asyncio.run(run())
    # the first one comes with the answer
    assert len(setup.bus.told("sync", "queued")) == 1 + 20 // 4


def test_job_that_is_too_old_is_not_published(setup):
    """
    A reboot that was queued by the master of ninety days ago must not happen today.
    """
    setup.config(max_master_jobs=1)

    async def run():
        handler = await setup.start()
        for jid in ("1", "2"):
            await worker.publish(setup, jid, ["m0"], fun="system.reboot")
        await worker.land(setup, handler)
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
        await worker.publish(setup, "1", ["m0"])
        await worker.publish(setup, "2", ["m1"])
        sync = {"sync": True, "timeout": 50}
        await worker.publish(setup, "3", ["m1"], request=worker.request("3", **sync))
        await worker.publish(
            setup, "4", ["m1"], request=worker.request("4", **sync, extend=True)
        )
        for setup.clock.now in (1049, 1051, 1099, 1101):
            await handler.tick()

    asyncio.run(run())
    assert [
        (jid, [told["reason"] for told in setup.bus.told(jid, "discarded")])
        for jid in "1234"
    ] == [("1", []), ("2", ["age"]), ("3", ["timeout"]), ("4", ["age"])]
