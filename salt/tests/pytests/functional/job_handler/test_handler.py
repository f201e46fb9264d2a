"""
The job handler and the master's side of its socket, together.
"""

import asyncio
import os
import sqlite3
import stat

import pytest

import salt.job_handler.claims
import salt.job_handler.gate
import salt.job_handler.ipc
import salt.utils.files
import tests.pytests.functional.job_handler.worker as worker
from tests.support.mock import AsyncMock, patch


def test_job_with_room_is_published_as_it_is(setup):
    """
    The load is the very one that the master would have published, and so is the answer.
    """

    async def run():
        await setup.start()
        return await worker.publish(setup, "1", ["m0", "m1"])

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
        answer = await worker.publish(setup, "1", worker.MINIONS)
        state = answer["load"]["job_handler"]
        assert (state["state"], state["waiting"], state["sent"]) == ("queued", 15, 10)
        while handler.criteria.ledger.used:
            worker.give_back(setup, "1", *handler.criteria.ledger.of_job("1"))
            await handler.tick()

    asyncio.run(run())
    waves = setup.bus.reached("1", worker.MINIONS)
    assert [len(wave) for wave in waves] == [10, 10, 5]
    assert sum(waves, []) == sorted(worker.MINIONS)
    sent = setup.bus.told("1", "dispatched")
    assert [data["waiting"] for data in sent] == [15, 5, 0]
    assert sum((data["targets"] for data in sent), []) == sorted(worker.MINIONS)
    # LocalClient would take these for something else
    assert not any({"minions", "error"} & set(data) for data in sent)


@pytest.mark.parametrize(
    "minions, full", [(worker.MINIONS[:15], "m3"), (["res-1"], "res-1")]
)
def test_resources_of_minions(setup, resources, minions, full):
    """
    Which resources a minion runs a job on depends on how the target is written, so the
    job goes out as it is, in one piece and to minions at their limit as well.
    """
    setup.config(max_master_jobs=10, max_minion_jobs=1)

    async def run():
        handler = await setup.start()
        await worker.publish(setup, "1", minions)
        assert handler.criteria.ledger.used == len(minions)
        worker.give_back(setup, "1", *set(minions) - {full})
        await worker.publish(setup, "2", [full])

    asyncio.run(run())
    assert [load["tgt"] for load in setup.bus.published] == ["*", "*"]
    assert setup.bus.told("2", "excluded") == []


def test_minions_without_resources_beside_others(setup, resources):
    async def run():
        await setup.start()
        await worker.publish(
            setup, "1", [minion for minion in worker.MINIONS[:16] if minion != "m3"]
        )

    asyncio.run(run())
    others = [minion for minion in worker.MINIONS[:16] if minion != "m3"]
    (wave,) = setup.bus.reached("1", others)
    assert len(wave) == 10


def test_excluded_minion(setup):
    async def run():
        await setup.start()
        for jid in ("1", "2"):
            await worker.publish(setup, jid, ["m0"])
        return await worker.publish(setup, "3", worker.MINIONS[:5])

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
            answer = await worker.publish(setup, jid, ["m0", "m0"])
            assert answer["load"] == {
                "jid": jid,
                "minions": ["m0", "m0"],
                "missing": [],
            }
            assert handler.criteria.ledger.used == 1
            worker.give_back(setup, jid, "m0")
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
                assert await worker.enter(setup, fun) is None
            assert not ask.called
            assert await worker.enter(setup, ["test.ping", "state.apply"]) is not None
            assert ask.called

    asyncio.run(run())


def test_nothing_when_off(setup):
    setup.opts["rate_limiting"] = {}
    assert asyncio.run(worker.enter(setup)) is None
    assert os.listdir(setup.opts["sock_dir"]) == []


def test_second_try_gets_the_first_job(setup):
    async def run():
        await setup.start()
        first = await worker.publish(setup, "1", ["m0"], worker.request())
        second = await worker.publish(setup, "2", ["m0"], worker.request())
        other = await worker.publish(setup, "3", ["m0"], worker.request(), user="bob")
        return [answer["load"]["jid"] for answer in (first, second, other)]

    assert asyncio.run(run()) == ["1", "1", "3"]
    assert setup.bus.jids() == ["1", "3"]


def test_second_try_while_the_first_has_no_job_id(setup):
    """
    It waits for the first one's answer.
    """

    async def run():
        await setup.start()
        first = await worker.enter(setup, request=worker.request())
        second = asyncio.ensure_future(
            worker.publish(setup, "2", ["m0"], worker.request())
        )
        await asyncio.sleep(0.3)
        assert not second.done()
        load = {"jid": "1", "fun": "f", "tgt": "*", "tgt_type": "glob"}
        await first.submit(load, ["m0"], [])
        return await second

    assert asyncio.run(run())["load"]["jid"] == "1"


def test_full_queue(setup):
    """
    A refusal before there is a job id; a retry succeeds when there is room.
    """
    setup.config(max_master_jobs=1, max_queue_size=2)

    async def run():
        handler = await setup.start()
        for number in range(3):
            await worker.publish(setup, f"{number}", ["m0"])
        refused = await worker.enter(setup)
        worker.give_back(setup, "0", "m0")
        await handler.tick()
        again = await worker.enter(setup)
        return refused.answer, again.answer

    refused, again = asyncio.run(run())
    assert refused["error"]["name"] == "JobQueueFullError"
    assert refused["error"]["message"].startswith(
        "The master has 2 jobs waiting, which is all it takes. Nothing was sent;"
    )
    assert 1 <= refused["error"]["retry_after"] <= 120
    assert again is None


def test_private_socket(setup):
    async def run():
        await setup.start()

    asyncio.run(run())
    mode = os.stat(salt.job_handler.ipc.path(setup.opts)).st_mode
    assert stat.S_IMODE(mode) == 0o600


def test_publisher_that_fails(setup):
    """
    The wave is given back, and goes out when the publisher is there again.
    """

    async def run():
        handler = await setup.start()
        setup.bus.broken = True
        answer = await worker.publish(setup, "1", ["m0", "m1"])
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
            answer = await worker.publish(setup, "1", ["m0", "m1"])
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
        await worker.publish(setup, "1", ["m0", "m1"])
        worker.give_back(setup, "1", "m0")
        await handler.tick()
        assert len(handler.journal.waves()) == 1
        worker.give_back(setup, "1", "m1")
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
        await worker.publish(setup, "1", ["m0"])
        for number in range(4):
            answer = await worker.publish(setup, f"peer{number}", ["m0"], forced=True)
            assert "job_handler" not in answer["load"]
        assert handler.criteria.ledger.used == 5

    asyncio.run(run())
    assert len(setup.bus.published) == 5


def test_master_of_masters(setup):
    """
    It may not know a single target: the job counts, and its target stays as it is.
    """
    setup.opts["order_masters"] = True
    setup.config(max_master_jobs=1)

    async def run():
        handler = await setup.start()
        await worker.publish(setup, "1", [])
        await worker.publish(setup, "2", [])
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
            assert (await worker.publish(setup, "1", ["m9"], request))["load"][
                "jid"
            ] == "1"
            worker.give_back(setup, "1", "m9")

    asyncio.run(run())


def test_nothing_secret_is_kept(setup):
    """
    What authenticates a caller never comes near the queue.
    """
    setup.config(max_master_jobs=1)

    async def run():
        await setup.start()
        await worker.publish(setup, "1", ["m0"])
        await worker.publish(
            setup, "2", ["m0"], {**worker.request(), "token": "s3cret"}
        )

    asyncio.run(run())
    folder = salt.job_handler.claims.folder(setup.opts)
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            with salt.utils.files.fopen(path, "rb") as file:
                assert b"s3cret" not in file.read()
