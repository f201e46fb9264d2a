"""
Lanes of jobs that the job handler found again.
"""

import asyncio

from tests.pytests.functional.job_handler.test_unsent import (
    MINIONS,
    _kill,
    _pass,
    _publish,
    _reached,
    _restarted,
)


def test_recalled_job_has_its_lane(setup, caplog):
    """
    It had none, and whose turn it was could not be told while it waited.
    """
    setup.config(criteria="priority")

    async def run():
        await setup.start()
        await _publish(setup, "1")
        await _restarted(setup)
        await _kill(setup, "1", "m1")
        (job,) = setup.handler.manager.queue
        assert job.deadline is not None
        await _publish(setup, "2", ["m0"])
        await _pass(setup, 40)

    asyncio.run(run())
    assert "failed to choose" not in caplog.text
    assert _reached(setup) == [MINIONS, ["m0", "m2"]]
