"""
What minions are asked about jobs that they have not returned.
"""

import asyncio

import salt.job_criteria.capacity
import tests.pytests.functional.job_handler.worker as worker


def test_maintenance_asks_without_the_queue(setup):
    setup.config(max_master_jobs=1, long_running=60)

    async def run():
        handler = await setup.start()
        await worker.publish(setup, "1", ["m0"])
        await worker.publish(setup, "2", ["m0"])
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
        await worker.publish(setup, "1", ["m0"])
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
        await worker.publish(setup, "1", minions)
        assert handler.criteria.ledger.used == 1000
        worker.give_back(setup, "1", *set(minions) - dead - lost - runs - waits)
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
