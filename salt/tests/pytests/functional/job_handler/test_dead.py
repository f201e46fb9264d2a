"""
A job handler that is dead, or stops for a while.
"""

import asyncio

import pytest

import tests.pytests.functional.job_handler.worker as worker
from tests.support.mock import patch


@pytest.mark.parametrize("fail_mode", ["open", "closed"])
def test_dead_handler(setup, fail_mode):
    setup.config(fail_mode=fail_mode)
    answer = asyncio.run(worker.publish(setup, "1", ["m0"]))
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
        gate = await worker.enter(setup)

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
        gate = await worker.enter(setup)
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
