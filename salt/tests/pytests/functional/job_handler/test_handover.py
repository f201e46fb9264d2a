"""
What the master's workers do: a place in the queue, a job id, and the job is handed over.
"""

# pylint: disable=protected-access

import asyncio
import sqlite3

import pytest

import salt.job_handler.control
import salt.job_handler.dispatch
import salt.job_handler.handover
import salt.job_handler.postgres
import salt.job_handler.store
import salt.payload
from tests.pytests.functional.job_handler.conftest import MINIONS, request, sqlite_only
from tests.support.mock import AsyncMock, MagicMock, patch


def test_job_with_room_is_published_as_it_is(setup):
    """
    The load is the very one that the master would have published, and so is the answer.
    """

    async def run():
        await setup.start()
        return await setup.publish("1", ["m00", "m01"])

    assert asyncio.run(run()) == {
        "enc": "clear",
        "load": {"jid": "1", "minions": ["m00", "m01"], "missing": []},
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


@pytest.mark.parametrize(
    "exempt, fun, passes",
    [
        (None, "test.ping", True),
        (None, ["test.ping", "saltutil.running"], True),
        (None, ["test.ping", "state.apply"], False),
        (None, "state.apply", False),
        (["state.*"], "state.apply", True),
    ],
)
def test_exempt_functions(setup, exempt, fun, passes):
    """
    They pass, also when there is no job handler.
    """
    if exempt is not None:
        setup.config(exempt=exempt)
    assert (asyncio.run(setup.enter(fun)) is None) is passes


def test_full_queue(setup):
    """
    The request is refused with when to try again, and leaves nothing behind. Requests
    under way have a place as well.
    """
    setup.config(max_master_jobs=1, max_queue_size=2)

    async def run():
        await setup.start()
        for jid in "123":
            await setup.publish(jid, ["m00"])
        refused = await setup.publish("4", ["m00"])
        setup.returns("1", "m00")
        await setup.tick()
        under_way = [await setup.enter() for _ in range(5)]
        return refused, under_way

    refused, under_way = asyncio.run(run())
    assert refused["error"]["name"] == "JobQueueFullError"
    assert "2 jobs waiting" in refused["error"]["message"]
    assert refused["error"]["retry_after"] >= 1
    assert [one.answer is None for one in under_way] == [True] + [False] * 4
    assert "4" not in setup.states()


def test_users_leave_room_for_others(setup):
    """
    One user may have half of the queue, all but root together nine tenths.
    """
    setup.config(max_master_jobs=1, max_queue_size=20)

    async def run():
        await setup.start()
        await setup.publish("first", ["m00"])
        counts = {}
        for user in ("alice", "bob", "root"):
            for number in range(20):
                answer = await setup.publish(f"{user}{number}", ["m00"], user=user)
                counts[user] = counts.get(user, 0) + ("load" in answer)
        return counts

    assert asyncio.run(run()) == {"alice": 10, "bob": 8, "root": 2}


def test_full_of_bytes(setup):
    setup.config(max_master_jobs=1, max_queue_bytes=5000)

    async def run():
        await setup.start()
        await setup.publish("1", ["m00"])
        first = await setup.publish("2", ["m00"], arg=["x" * 4000])
        return first, await setup.publish("3", ["m00"], arg=["x" * 4950])

    first, second = asyncio.run(run())
    assert "load" in first
    assert "bytes" in second["error"]["message"]


def test_too_large_a_job(setup):
    async def run():
        await setup.start()
        return await setup.publish("1", ["m00"], arg=["x" * 9 * 1024 * 1024])

    assert "takes at most" in asyncio.run(run())["error"]["message"]


def test_same_request_again(setup):
    """
    A second try gets the job id of the first, whatever has become of the job, and
    nothing is published again. Another user has requests of his own.
    """

    async def run():
        await setup.start()
        ret = [await setup.publish("1", ["m00"], request=request())]
        ret.append(await setup.publish("2", ["m00"], request=request()))
        setup.returns("1", "m00")
        await setup.land()
        ret.append(await setup.publish("3", ["m00"], request=request()))
        await setup.stop()
        await setup.start("other master")
        ret.append(await setup.publish("4", ["m00"], request=request()))
        ret.append(await setup.publish("5", ["m00"], request=request(), user="bob"))
        return [answer["load"]["jid"] for answer in ret]

    assert asyncio.run(run()) == ["1", "1", "1", "1", "5"]
    assert [jid for jid, _ in setup.bus.jobs()] == ["1"]


def test_second_try_for_a_job_that_waits(setup):
    """
    It gets to know that the job waits, as the first one did.
    """

    async def run():
        await setup.start()
        await setup.publish("1", MINIONS[:10])
        answers = [
            await setup.publish("2", ["m20"], request=request()) for _ in range(2)
        ]
        return [answer["load"]["job_handler"] for answer in answers]

    first, second = asyncio.run(run())
    assert second["state"] == "queued"
    assert second["ticket"] == first["ticket"]


def test_second_try_for_a_job_that_was_cancelled(setup):
    """
    It gets to know that no minion got the job.
    """

    async def run():
        handler = await setup.start()
        await setup.publish("1", MINIONS[:10])
        await setup.publish("2", ["m20"], request=request())
        await handler.dispatcher.cancel("2", None)
        return await setup.publish("3", ["m20"], request=request())

    answer = asyncio.run(run())["load"]
    assert answer["jid"] == "2"
    assert answer["job_handler"]["waiting"] == 0
    assert "taken out" in answer["job_handler"]["excluded"]["m20"]


def test_second_try_of_a_request_that_was_taken_back(setup, monkeypatch):
    """
    Its caller has read that nothing was sent, so it is a new job.
    """
    setup.config(fail_mode="closed", max_master_jobs=10)

    async def run():
        await setup.start()
        handover = await setup.enter(minions=["m00"], request=request())
        assert setup.handler.store.take_back(handover.seq, "discarded", "no")
        return await setup.publish("2", ["m00"], request=request())

    assert asyncio.run(run())["load"]["jid"] == "2"
    assert setup.bus.jobs() == [("2", "*")]


def test_second_try_waits_for_the_job_id_of_the_first(setup):
    async def run():
        await setup.start()
        first = await setup.enter(minions=["m00"], request=request())
        second = asyncio.ensure_future(setup.publish("2", ["m00"], request=request()))
        await asyncio.sleep(0.3)
        load = {"jid": "1", "fun": "f", "arg": [], "tgt": "*", "tgt_type": "glob"}
        await first.submit({**load, "ret": "", "user": "root"}, ["m00"], [])
        return await second

    assert asyncio.run(run())["load"]["jid"] == "1"
    assert setup.bus.jobs() == [("1", "*")]


def test_second_try_while_the_first_takes_long(setup, monkeypatch):
    """
    It is refused before it has a job id, so that salt-ssh minions run the job once and the
    job cache knows one; the first try keeps its place.
    """
    monkeypatch.setattr(salt.job_handler.handover, "TWIN_SECONDS", 0)
    load = {"fun": "f", "arg": [], "tgt": "*", "tgt_type": "glob", "ret": ""}

    async def run():
        await setup.start()
        first, second = [
            await setup.enter(minions=["m00"], request=request()) for _ in range(2)
        ]
        payload = {**load, "jid": "1", "user": "root"}
        return second.answer, await first.submit(payload, ["m00"], [])

    second, first = asyncio.run(run())
    assert "is being served already" in second["error"]["message"]
    # who asks again by itself would have a second job
    assert second["error"]["retry_after"] == 0
    assert first["load"]["jid"] == "1"
    assert setup.bus.jobs() == [("1", "*")]


def test_second_try_while_the_job_handler_is_away(setup):
    """
    The job of the first try waits and goes out, so nobody reads that nothing was sent.
    """
    setup.config(max_master_jobs=10, fail_mode="closed")

    async def run():
        handler = await setup.start()
        handler.queue.hold(setup.clock.now, 100)
        await setup.publish("1", ["m00"], request=request())
        await setup.stop()
        return await setup.publish("2", ["m00"], request=request())

    assert asyncio.run(run())["load"]["jid"] == "1"


def test_database_that_can_not_be_reached(setup, monkeypatch):
    """
    Each try to reach it may take seconds, so not each job tries.
    """
    load = {"fun": "state.apply", "user": "root", "tgt": "*", "arg": []}
    tries, now = [], [100]

    def connect(*_):
        tries.append(1)
        now[0] += 5
        raise sqlite3.OperationalError("database is locked")

    async def enter():
        return await salt.job_handler.handover.enter(setup.opts, setup.bus, load, None)

    clock = MagicMock(monotonic=lambda: now[0])
    monkeypatch.setattr(salt.job_handler.handover, "time", clock)
    with monkeypatch.context() as patched:
        patched.setattr(salt.job_handler.postgres, "connect", connect)
        assert all(asyncio.run(enter()).direct for _ in range(3))
        assert len(tries) == 1
    now[0] += 51
    assert not asyncio.run(enter()).direct


def test_request_that_gets_no_job_id(setup):
    """
    Its place is free again at once, and its second try goes on.
    """

    async def run():
        await setup.start()
        handover = await setup.enter(minions=["m00"], request=request())
        handover.abandon()
        return await setup.publish("2", ["m00"], request=request())

    assert asyncio.run(run())["load"]["jid"] == "2"


@pytest.mark.parametrize(
    "said",
    [
        None,
        "text",
        {"id": 5, "sync": "yes", "timeout": "long", "caller": [1], "extend": 1},
        {"id": "x" * 100, "sync": True, "timeout": float("nan"), "caller": ["a", "b"]},
        {"id": "1", "sync": True, "timeout": float("inf"), "priority": "high"},
        {"id": "1", "sync": True, "timeout": 10**12, "priority": 10**12},
    ],
)
def test_clients_may_say_anything(setup, said):
    async def run():
        await setup.start()
        return await setup.publish("1", ["m00"], request=said)

    assert asyncio.run(run())["load"]["jid"] == "1"
    assert setup.bus.jobs() == [("1", "*")]


@pytest.mark.parametrize(
    "fun, jid, expected",
    [
        ("saltutil.running", "1_0", True),
        ("saltutil.find_job", "1_0", True),
        ("saltutil.running", "1_1", False),
        # clients choose job ids
        ("state.apply", "1_0", False),
    ],
)
def test_answers_that_the_job_cache_does_not_keep(fun, jid, expected):
    assert salt.job_handler.is_question({"fun": fun, "jid": jid}) is expected


@pytest.mark.parametrize(
    "user, auth_type, priority",
    [
        ("root", "user", 3),
        ("sudo_bob", "user", 3),
        ("bob", "user", 0),
        ("root", "eauth", 0),
        ("sudo_bob", "token", 0),
    ],
)
def test_only_root_comes_before_others(setup, user, auth_type, priority):
    """
    A user whom somebody else has authenticated may have any name.
    """

    async def run(number):
        said = request(str(number), priority=number)
        return await setup.enter(user=user, request=said, auth_type=auth_type)

    assert asyncio.run(run(3)).info["priority"] == priority
    handover = asyncio.run(run(-3))
    assert handover.info["priority"] == -3


# ----------------------------------------------------------------------
# Without a job handler, and without a disk
# ----------------------------------------------------------------------


def test_open(setup):
    """
    The worker publishes the job itself. Later its minions have a lease, and its key holds.
    """

    async def run():
        await setup.start()
        await setup.stop()
        first = await setup.publish("1", ["m00"], request=request())
        handler = await setup.start()
        again = await setup.publish("2", ["m00"], request=request())
        return first, again["load"]["jid"], dict(handler.leases.slots)

    assert asyncio.run(run()) == (None, "1", {"m00": 1})
    assert setup.bus.data("1", "publish") == []
    ((_, data),) = (row for row in setup.bus.events if "unavailable" in row[0])
    assert data["fail_mode"] == "open"


def test_closed(setup):
    """
    The request is refused before it has a job id.
    """
    setup.config(fail_mode="closed")

    async def run():
        await setup.start()
        await setup.stop()
        return await setup.enter(minions=["m00"])

    message = asyncio.run(run()).answer["error"]["message"]
    assert "fail_mode is closed. Nothing was sent" in message
    assert setup.states.__self__ is setup


def test_slow_job_handler_keeps_the_job(setup):
    """
    It runs, but does not answer in time: the job is its own, and is not published twice.
    """

    async def run():
        handler = await setup.start()
        slow = AsyncMock(
            side_effect=salt.job_handler.control.JobHandlerUnavailable("late")
        )
        with patch("salt.job_handler.control.ask", slow):
            answer = await setup.publish("1", ["m00"])
        assert setup.bus.published == []
        await setup.tick()
        assert handler.leases.has("1", "m00")
        return answer

    answer = asyncio.run(run())
    assert answer["load"]["job_handler"]["state"] == "queued"
    assert setup.bus.jobs() == [("1", "*")]


def test_hanging_job_handler(setup):
    """
    It has the job in memory when a worker takes it back: one of the two publishes it.
    """

    async def run():
        handler = await setup.start()
        handler.queue.hold(setup.clock.now, 100)
        await setup.publish("1", ["m00"])
        assert len(handler.queue) == 1
        assert handler.store.take_back(1, "direct")
        handler.queue.held_until = None
        await handler.dispatcher.pump()
        await setup.tick()
        return handler

    handler = asyncio.run(run())
    assert setup.bus.jobs() == []
    assert len(handler.queue) == 0
    assert handler.leases.has("1", "m00")


def test_job_that_a_worker_has_published_is_not_cancelled(setup):
    """
    All of its minions run it, whatever the job handler still has in memory.
    """

    async def run():
        handler = await setup.start()
        handler.queue.hold(setup.clock.now, 100)
        await setup.publish("1", ["m00"])
        assert handler.store.take_back(1, "direct")
        assert await handler.dispatcher.cancel("1", None) == 0
        await setup.tick()
        return handler

    handler = asyncio.run(run())
    assert handler.store.left_out("1") == {}
    assert handler.leases.has("1", "m00")
    assert setup.bus.kinds("1") == ["queued"]


def test_published_job_can_not_be_taken_back(setup):
    async def run():
        handler = await setup.start()
        await setup.publish("1", MINIONS)
        return handler.store.take_back(1, "direct")

    assert asyncio.run(run()) is False


@pytest.mark.parametrize("minion, state", [("m20", "queued"), ("m00", "dispatched")])
def test_step_that_is_faster_than_the_worker(setup, minion, state):
    """
    It takes the job over before the worker has said that it is there; the caller gets to
    know all the same how far it is.
    """
    setup.config(max_master_jobs=10, max_minion_jobs=1, reserve=0)

    async def run():
        await setup.start()
        await setup.publish("1", MINIONS[:10])
        ask = salt.job_handler.control.ask

        async def late(opts, message, timeout):
            await setup.tick()
            return await ask(opts, message, timeout)

        if state == "dispatched":
            setup.returns("1", *MINIONS[1:10])
        with patch("salt.job_handler.control.ask", late):
            return await setup.publish("2", [minion])

    told = asyncio.run(run())["load"]["job_handler"]
    assert told["state"] == state
    assert ("ticket" in told) is (state == "queued")
    assert ("excluded" in told) is (state == "dispatched")


@pytest.mark.parametrize("mode", ["open", "closed"])
def test_full_disk(setup, mode):
    """
    What can't be written down is refused, whatever fail_mode says.
    """
    setup.config(fail_mode=mode)

    async def run():
        await setup.start()
        full = sqlite3.OperationalError("database or disk is full")
        with patch("salt.job_handler.store.Store.reserve", side_effect=full):
            return await setup.publish("1", ["m00"])

    message = asyncio.run(run())["error"]["message"]
    assert "can't write the job down (database or disk is full)" in message
    assert setup.bus.published == []


@sqlite_only
@pytest.mark.parametrize("mode", ["open", "closed"])
def test_locked_database(setup, mode):
    """
    Somebody else holds the database, so fail_mode decides, and a job that is refused has
    no job id.
    """
    setup.config(fail_mode=mode)

    async def run():
        await setup.start()
        await setup.enter()
        other = sqlite3.connect(setup.handler.store.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        try:
            return await setup.enter(minions=["m00"])
        finally:
            other.close()

    handover = asyncio.run(run())
    assert handover.direct is True
    assert (handover.answer is None) is (mode == "open")


def test_rule_that_rejects(setup):
    setup.config(
        rules=[{"function": "cmd.*", "action": "reject", "reason": "no shells today"}]
    )

    async def run():
        await setup.start()
        refused = await setup.enter("cmd.run", minions=["m00"])
        return refused.answer, await setup.publish("1", ["m00"])

    refused, taken = asyncio.run(run())
    assert refused["error"]["message"] == "no shells today. Nothing was sent."
    assert taken["load"]["jid"] == "1"


def test_disk_that_is_full_after_the_place(setup):
    """
    The answer is an error, as ClearFuncs.publish expects it.
    """

    async def run():
        await setup.start()
        full = sqlite3.OperationalError("database or disk is full")
        with patch("salt.job_handler.store.Store.complete", side_effect=full):
            return await setup.publish("1", ["m00"])

    assert list(asyncio.run(run())) == ["error"]


def test_job_that_a_worker_has_published_counts_as_any_other(setup):
    """
    For the limits what it costs, and for its rule, before anything of it is returned.
    """
    setup.config(
        max_master_jobs=10,
        reserve=0,
        costs={"state.apply": 4},
        rules=[{"function": "state.*", "action": "limit", "limit": 1}],
    )
    event = b"salt/job_handler/unavailable\n\n" + salt.payload.dumps({})

    async def run():
        handler = await setup.start()
        handler.queue.hold(setup.clock.now, 100)
        await setup.publish("1", ["m00", "m01"])
        assert handler.store.take_back(1, "direct")
        handler.maintenance.hear(event)
        assert handler.leases.has("1", "m00")
        used = handler.leases.occupied
        setup.returns("1", "m00")
        await setup.tick()
        handler.queue.held_until = None
        await setup.publish("2", ["m02"])
        await setup.tick()
        first = setup.bus.jobs()
        setup.returns("1", "m01")
        await setup.tick()
        return used, first

    used, first = asyncio.run(run())
    assert used == 8
    assert first == []
    assert setup.bus.jobs() == [("2", "*")]
    assert setup.handler.leases.occupied == 4


def test_cancelled_job_that_can_not_be_taken_out(setup):
    """
    It is not published, and those that came with it have their turn.
    """

    async def run():
        handler = await setup.start()
        handler.queue.hold(setup.clock.now, 100)
        for jid in ("1", "2"):
            await setup.publish(jid, ["m00"])
        for job in list(handler.queue):
            handler.queue.remove(job)
        setup.bus.events.clear()
        handler.dispatcher.order("1", None, None, True)
        full = sqlite3.OperationalError("database or disk is full")
        with patch("salt.job_handler.store.Store.finish", side_effect=full):
            await setup.tick()
        assert setup.bus.kinds("2") == ["queued"]
        handler.queue.held_until = None
        await setup.tick(60)
        assert setup.bus.jobs() == [("2", "*")]
        await handler.dispatcher.cancel("1", None)
        return setup.bus.kinds("1")

    assert "discarded" in asyncio.run(run())
    assert setup.bus.jobs() == [("2", "*")]


def test_caller_of_a_job_that_is_discarded_late(setup):
    """
    Nothing says that it was published.
    """

    async def run():
        handler = await setup.start()

        async def pump(patience=None):
            setup.clock.now += salt.job_handler.dispatch.PATIENCE_SECONDS
            await handler.dispatcher.cancel("1", None)

        with patch.object(handler.dispatcher, "pump", pump):
            await setup.publish("1", ["m00"])

    asyncio.run(run())
    assert setup.bus.kinds("1") == ["discarded"]


def test_connection_that_is_lost_after_it_was_done(setup):
    """
    What is done once more changes nothing.
    """

    async def run():
        handler = await setup.start()
        handler.queue.hold(setup.clock.now, 100)
        await setup.publish("1", ["m00"])
        before = list(handler.store.jobs("queued"))
        handler.store.complete(1, "1", {"fun": "other"}, ["m07"], {})
        assert list(handler.store.jobs("queued")) == before
        assert handler.store.take_back(1, "direct")
        assert handler.store.take_back(1, "direct")
        assert not handler.store.take_back(1, "discarded")
        await setup.tick()
        return handler.store.take_back(1, "direct")

    assert asyncio.run(run()) is False
    assert setup.states() == {"1": "running"}


@pytest.mark.parametrize("mode", ["open", "closed"])
@pytest.mark.parametrize("name", ["complete", "take_back"])
def test_database_that_is_lost_before_it_answers(setup, mode, name):
    """
    What it has written may be published by another master, so this one does not, and
    does not say that nothing was sent either.
    """
    setup.config(fail_mode=mode)
    lost = sqlite3.OperationalError("the database is locked")

    async def run():
        await setup.start()
        handover = await setup.enter(minions=["m00"])
        await setup.stop()
        store = type(salt.job_handler.handover._store(setup.opts))
        load = {"jid": "1", "fun": "f", "arg": [], "tgt": "*", "tgt_type": "glob"}
        with patch.object(store, name, side_effect=lost), patch.object(
            store,
            "replaced",
            side_effect=[False] * (1 + (name == "take_back")) + [True] * 9,
        ), patch("salt.job_handler.postgres.connect", side_effect=lost):
            return await handover.submit(
                {**load, "ret": "", "user": "root"}, ["m00"], []
            )

    error = asyncio.run(run())["error"]
    assert "see with salt-run jobs.list_jobs whether it runs" in error["message"]
    assert error["retry_after"] == 0
    assert setup.bus.published == []


def test_small_jobs_pass_many_that_are_held(setup):
    """
    They may use what is kept for them while a large one waits for room.
    """
    setup.config(max_master_jobs=10, reserve=0.2)

    async def run():
        handler = await setup.start()
        await setup.publish("1", [f"m{number:02}" for number in range(8)])
        handler.queue.hold(setup.clock.now, 1000)
        for number in range(120):
            await setup.publish(f"held{number}", ["m10"])
            handler.queue.order(f"held{number}", None, True, None)
        handler.queue.held_until = None
        await setup.publish("large", [f"m{number}" for number in range(20, 40)])
        await setup.publish("small", ["m11"])
        await setup.tick()

    asyncio.run(run())
    assert ("small", "*") in setup.bus.jobs()


@sqlite_only
@pytest.mark.parametrize("name", ["take_back", "abandon"])
def test_database_that_can_not_be_used_any_more(setup, name):
    """
    The caller of a job that was written down gets its job id, not a traceback.
    """
    newer = salt.job_handler.store.StoreError("a newer Salt has it")

    async def run():
        await setup.start()
        handover = await setup.enter(minions=["m00"])
        await setup.stop()
        load = {"jid": "1", "fun": "f", "arg": [], "tgt": "*", "tgt_type": "glob"}
        with patch(f"salt.job_handler.store.Store.{name}", side_effect=newer):
            if name == "abandon":
                return handover.abandon()
            return await handover.submit(
                {**load, "ret": "", "user": "root"}, ["m00"], []
            )

    answer = asyncio.run(run())
    if name == "take_back":
        assert answer["load"]["job_handler"]["state"] == "queued"
