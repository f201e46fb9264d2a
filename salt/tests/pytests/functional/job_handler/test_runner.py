"""
The runner ``job_handler``: what an administrator sees and says.
"""

import asyncio

import pytest

import salt.job_handler.ipc
import tests.pytests.functional.job_handler.worker as worker
from salt.exceptions import CommandExecutionError, SaltInvocationError
from tests.support.mock import patch


def test_runner(setup):
    """
    All functions of the runner, over the real socket.
    """
    # pylint: disable=import-outside-toplevel
    import salt.runners.job_handler as runner

    setup.config(max_master_jobs=1)

    async def run():
        await setup.start()
        await worker.publish(setup, "1", ["m0"])
        await worker.publish(setup, "2", ["m1", "m2"])
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
            assert await ask(runner.charges, 10**400) == []
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
                lambda: runner.pause(float("nan")),
                lambda: runner.pause(float("inf")),
                lambda: runner.pause(1e300),
                lambda: runner.pause(True),
                lambda: runner.prioritize("2", 1.5),
                lambda: runner.prioritize("2", 10**400),
                lambda: runner.prioritize("2", -(2**63)),
                lambda: runner.list_("x"),
                lambda: runner.list_(2**64),
            ):
                with pytest.raises(SaltInvocationError, match="^Give "):
                    await ask(call)
            assert await ask(runner.reconcile) == 1
            assert await ask(runner.cancel, "2") == 2
            assert await ask(runner.cancel, "2") == 0
            setup.opts["rate_limiting"] = {}
            with pytest.raises(CommandExecutionError, match="^The job handler is off"):
                await ask(runner.status)

    asyncio.run(run())
    assert setup.bus.told("2", "discarded")[0]["reason"] == "cancelled"


@pytest.mark.parametrize(
    "request_",
    [
        {"cmd": "pause", "paused": True, "seconds": float("nan")},
        {"cmd": "pause", "paused": True, "seconds": float("inf")},
        {"cmd": "pause", "paused": True, "seconds": "1"},
        {"cmd": "order", "jid": "2", "priority": 2**63},
        {"cmd": "order", "jid": "2", "priority": float("nan")},
        {"cmd": "list", "limit": "x"},
        {"cmd": "list", "limit": float("nan")},
    ],
)
def test_what_the_socket_refuses(setup, request_):
    """
    Whoever sends it, and nothing changes
    """

    async def run():
        handler = await setup.start()
        with pytest.raises(
            salt.job_handler.ipc.JobHandlerUnavailable,
            match="^SaltInvocationError: Give ",
        ):
            await salt.job_handler.ipc.ask(setup.opts, request_, 5)
        assert not handler.manager.orders.paused
        assert not handler.manager.orders.snapshot()["jobs"]

    asyncio.run(run())


def test_pause_survives_a_restart(setup):
    async def run():
        handler = await setup.start()
        await handler.commands.handle({"cmd": "pause", "paused": True})
        await setup.stop()
        await setup.start()
        await worker.publish(setup, "1", ["m0"])

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
        await worker.publish(setup, "1", ["m0"])
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
            await worker.publish(setup, f"{number}", ["m0"])
        order = {"cmd": "order", "jid": "2", "held": True}
        await handler.commands.handle(order)
        order = {"cmd": "order", "jid": "4", "priority": 1}
        await handler.commands.handle(order)
        await setup.stop()
        handler = await setup.start()
        for jid in "143":
            worker.give_back(setup, jid, "m0")
            await handler.tick()
        return [job.jid for job in handler.manager.queue]

    assert asyncio.run(run()) == ["2"]
    assert setup.bus.jids()[-2:] == ["4", "3"]


@pytest.mark.parametrize(
    "more, may",
    [
        ({}, True),
        ({"fun": "x", "doc": False, "async": False, "__cli": "salt-run"}, True),
        # Thorium
        ({"fun": "x", "kwarg": {}, "async": True, "__cli": "salt-master"}, True),
        ({"fun": "x", "doc": False}, False),
        ({"fun": "x", "doc": False, "async": True, "__cli": "salt-master"}, False),
        ({"fun": "x", "doc": False, "async": True}, False),
        ({"fun": "x", "doc": False, "__cli": "salt-run"}, False),
    ],
)
def test_a_minion_may_not_call_it(more, may):
    """
    What the master adds to its options for a minion that peer_run lets call a runner,
    whatever its configuration has besides
    """
    # pylint: disable=import-outside-toplevel
    import salt.runners.job_handler as runner

    with patch.object(runner, "__opts__", more, create=True):
        answer = runner.__virtual__()
    assert (answer is True) is may
    assert may or "Minions" in answer[1]
