"""
Jobs go out in waves, some minions are left out, and callers get to know.
"""

# pylint: disable=protected-access

import asyncio
import sqlite3

import pytest

import salt.job_criteria
import salt.job_handler.dispatch
import salt.job_handler.queue
import salt.payload
import salt.utils.event
from tests.pytests.functional.job_handler.conftest import MINIONS, request, sqlite_only
from tests.support.mock import MagicMock, patch


async def _end(setup):
    """
    Let all minions return, again and again, until nothing is out.
    """
    leases = setup.handler.leases
    for _ in range(100):
        if not (leases.occupied or len(setup.handler.queue)):
            break
        for jid, held in list(leases.jobs.items()):
            setup.returns(jid, *list(held))
        await setup.tick(0.5)
    await setup.land()


def test_waves(setup):
    async def run():
        await setup.start()
        answer = await setup.publish("1", MINIONS)
        state = answer["load"]["job_handler"]
        assert (state["state"], state["waiting"], state["sent"]) == ("queued", 15, 10)
        assert setup.states() == {"1": "queued"}
        await _end(setup)
        return setup.states()

    assert asyncio.run(run()) == {"1": "done"}
    waves = [minions for _, minions in setup.bus.jobs()]
    assert len(waves) <= 3
    assert sum(waves, []) == MINIONS
    sent = setup.bus.data("1", "dispatched")
    assert sent[-1]["waiting"] == 0
    # LocalClient would take these for something else
    assert not any({"minions", "error"} & set(data) for data in sent)


def test_minion_at_its_limit_is_left_out(setup):
    async def run():
        await setup.start()
        for jid in ("1", "2"):
            await setup.publish(jid, ["m00"])
        answer = await setup.publish("3", MINIONS[:5])
        return answer, setup.handler.store.left_out("3")

    answer, left_out = asyncio.run(run())
    expected = {"m00": "the minion has 2 of 2 slots occupied"}
    assert answer["load"]["job_handler"]["excluded"] == left_out == expected
    assert setup.bus.published[-1]["tgt"] == "* and not L@m00"
    assert setup.bus.published[-1]["tgt_type"] == "compound"
    assert setup.bus.data("3", "excluded")[0]["excluded"] == expected


def test_all_minions_are_left_out(setup):
    """
    No empty target is published.
    """

    async def run():
        await setup.start()
        for jid in ("1", "2", "3"):
            answer = await setup.publish(jid, ["m00"])
        return answer

    state = asyncio.run(run())["load"]["job_handler"]
    assert (state["state"], state["waiting"]) == ("dispatched", 0)
    assert [jid for jid, _ in setup.bus.jobs()] == ["1", "2"]


def test_many_are_left_out(setup):
    """
    The bus trims large events, so each names some minions only.
    """
    fleet = [f"m{number}" for number in range(6000)]
    setup.config(max_minion_jobs=1)

    async def run():
        await setup.start()
        for jid in ("1", "2"):
            await setup.publish(jid, fleet)

    asyncio.run(run())
    parts = [data["excluded"] for data in setup.bus.data("2", "excluded")]
    assert [len(part) for part in parts] == [5000, 1000]
    assert {name for part in parts for name in part} == set(fleet)


@pytest.mark.parametrize("far", [1, 19000])
def test_many_minions_of_a_cluster(setup, far):
    """
    The bus trims large events, and peers publish what they hear there.
    """
    setup.config(max_minion_jobs=1)
    setup.opts["cluster_id"] = "c"
    ids = [f"minion-{number:05}.example.com" for number in range(40000)]

    async def run():
        await setup.start()
        await setup.publish("1", ids[:far])
        await setup.publish("2", ids)

    asyncio.run(run())
    heard = []
    for data in setup.bus.data("2", "publish"):
        packed = salt.utils.event.SaltEvent.pack("tag", data, 1048576)
        heard.append(salt.utils.event.SaltEvent.unpack(packed)[1])
    if far == 1:
        assert [data["tgt"] for data in heard] == [f"* and not L@{ids[0]}"]
    else:
        assert [name for data in heard for name in data["tgt"]] == ids[far:]
    assert [load["tgt"] for load in setup.bus.published[1:]] == [
        data["tgt"] for data in heard
    ]
    setup.opts.pop("cluster_id")


def test_minions_with_resources(setup, resources):
    """
    On which resources a job runs depends on how the target is written, so the job goes
    out as it is, in one piece and to minions at their limit as well.
    """
    setup.config(max_master_jobs=10, max_minion_jobs=1)

    async def run():
        handler = await setup.start()
        await setup.publish("1", MINIONS[:15])
        assert handler.leases.occupied == 15
        setup.returns("1", *set(MINIONS[:15]) - {"m03"})
        await setup.publish("2", ["m03"])

    asyncio.run(run())
    assert [load["tgt"] for load in setup.bus.published] == ["*", "*"]
    assert setup.bus.data("2", "excluded") == []


@pytest.mark.parametrize(
    "load, excluded, expected",
    [
        ({"tgt": "*", "tgt_type": "glob"}, {"c": ""}, ("* and not L@c", "compound")),
        ({"tgt": "*"}, {"c": "", "b": ""}, ("* and not L@b,c", "compound")),
        ({"tgt": "*", "tgt_type": "glob"}, {}, (["aaa"], "list")),
        ({"tgt": "*", "tgt_type": "glob"}, {"b c": ""}, (["aaa"], "list")),
        ({"tgt": "*", "tgt_type": "glob"}, {"long": ""}, (["aaa"], "list")),
        (
            {"tgt": "os:x", "tgt_type": "grain", "delimiter": ":"},
            {"b": ""},
            (["aaa"], "list"),
        ),
        ({"tgt": ["aaa", "b"], "tgt_type": "list"}, {}, (["aaa"], "list")),
    ],
)
def test_targets(load, excluded, expected):
    before = dict(load)
    found = salt.job_handler.dispatch.narrow(load, ["aaa"], excluded)
    assert (found["tgt"], found["tgt_type"], "delimiter" in found) == (*expected, False)
    assert load == before


def test_caller_that_stops_waiting(setup):
    """
    Its job is not published any more, wherever it stands in the queue.
    """

    async def run():
        await setup.start()
        await setup.publish("1", MINIONS[:10])
        await setup.publish("2", ["m20"])
        sync = request(sync=True, timeout=5)
        await setup.publish("3", ["m21"], request=sync)
        await setup.tick(6)
        await _end(setup)
        return setup.handler.store.left_out("3"), setup.states()

    left_out, states = asyncio.run(run())
    assert [jid for jid, _ in setup.bus.jobs()] == ["1", "2"]
    assert states == {"1": "done", "2": "done", "3": "discarded"}
    (data,) = setup.bus.data("3", "discarded")
    assert (data["reason"], data["targets"]) == ("timeout", ["m21"])
    assert "longer than its caller did" in left_out["m21"]


@pytest.mark.parametrize("timeout", [0, -1, 0.001])
def test_caller_without_patience(setup, timeout):
    """
    Its job goes out if there is room.
    """

    async def run():
        await setup.start()
        await setup.publish("1", ["m00"], request=request(sync=True, timeout=timeout))

    asyncio.run(run())
    assert setup.bus.jobs() == [("1", "*")]


def test_too_old(setup):
    setup.config(max_master_jobs=1, max_queue_age=100)

    async def run():
        await setup.start()
        await setup.publish("1", ["m00"])
        await setup.publish("2", ["m01"])
        await setup.tick(101)

    asyncio.run(run())
    assert setup.bus.data("2", "discarded")[0]["reason"] == "age"


@sqlite_only
def test_caller_that_ends(setup):
    """
    What waits of its job is not published.
    """

    async def run():
        await setup.start()
        await setup.publish("1", MINIONS[:10])
        caller = salt.job_handler.client.me()
        ask = request(sync=True, extend=True, timeout=5, caller=caller)
        await setup.publish("2", ["m20"], request=ask)
        await setup.tick(1)
        assert setup.states()["2"] == "queued"
        with patch("salt.job_handler.client.runs", return_value=False):
            await setup.tick(1)
        return setup.states()["2"]

    assert asyncio.run(run()) == "discarded"
    assert setup.bus.data("2", "discarded")[0]["reason"] == "gone"


def test_callers_get_to_know_that_their_job_waits(setup):
    async def run():
        await setup.start()
        await setup.publish("1", MINIONS[:10])
        ask = request(sync=True, extend=True, timeout=5)
        await setup.publish("2", ["m20"], request=ask)
        for _ in range(100):
            await setup.tick(1)
            for minion in MINIONS[:10]:
                setup.handler.leases.renew("1", minion, setup.clock.now)

    asyncio.run(run())
    events = setup.bus.data("2", "queued")
    assert 4 <= len(events) <= 7
    assert "slots occupied" in events[-1]["reason"]


def test_publisher_that_fails(setup):
    """
    The job waits a moment, and goes out once.
    """

    async def run():
        handler = await setup.start()
        setup.bus.broken = True
        answer = await setup.publish("1", MINIONS[:5])
        assert answer["load"]["job_handler"]["waiting"] == 5
        assert handler.leases.occupied == 0
        setup.bus.broken = False
        await setup.tick(2)
        assert handler.leases.occupied == 5

    asyncio.run(run())
    assert setup.bus.jobs() == [("1", "*")]


def test_job_that_is_held_while_the_publisher_refuses_it(setup):
    async def run():
        handler = await setup.start()

        async def publish(load):
            handler.dispatcher.order("1", None, True, None)
            raise OSError("the publisher is gone")

        with patch.object(setup.bus, "publish", publish):
            await setup.publish("1", MINIONS[:5])
        await setup.tick(2)
        assert setup.bus.jobs() == []
        handler.dispatcher.order("1", None, False, None)
        await setup.tick()

    asyncio.run(run())
    assert setup.bus.jobs() == [("1", "*")]


def test_another_job_with_the_same_id_does_not_tell_whom_it_left_out(setup):
    async def run():
        handler = await setup.start()
        handler.leases.set_silent("m00", 0, setup.clock.now)
        first = await setup.publish("1", MINIONS[:2])
        setup.clock.now += 1
        second = await setup.publish("1", MINIONS[2:4])
        return [one["load"].get("job_handler", {}) for one in (first, second)]

    first, second = asyncio.run(run())
    assert list(first["excluded"]) == ["m00"]
    assert "excluded" not in second


@pytest.mark.parametrize("end", ["cancel", "timeout", "restart"])
def test_wave_that_the_publisher_refuses_waits(setup, end):
    """
    It can be cancelled, ends with the timeout of its caller, and outlasts a restart.
    """
    ask = request(sync=end == "timeout")

    async def run():
        handler = await setup.start()
        setup.bus.broken = True
        await setup.publish("1", MINIONS[:5], request=ask)
        await setup.tick(2)
        if end == "cancel":
            reply = await handler.commands.handle({"cmd": "cancel", "jid": "1"})
            assert reply["cancelled"] == 5
        if end == "restart":
            await setup.stop()
            setup.clock.now += 100
            handler = await setup.start("another master")
        setup.bus.broken = False
        await setup.tick(40)
        return setup.states()["1"], handler.leases.occupied

    expected = {"cancel": "cancelled", "timeout": "discarded", "restart": "running"}
    state, occupied = asyncio.run(run())
    assert state == expected[end]
    assert occupied == (5 if end == "restart" else 0)
    assert setup.bus.jobs() == ([("1", "*")] if end == "restart" else [])


def test_job_is_too_old_while_the_publisher_fails(setup):
    """
    Others are tried at each moment at which that is possible.
    """

    async def run():
        handler = await setup.start()
        setup.bus.broken = True
        await setup.publish("1", MINIONS[:5])
        await setup.publish("2", ["m20"], request=request(sync=True, timeout=5))
        for _ in range(5):
            setup.clock.now += 1.5
            await handler.dispatcher.pump()
            await setup.tick(0.5)
        return setup.states()

    assert asyncio.run(run()) == {"1": "queued", "2": "discarded"}


def test_publisher_that_fails_reaches_nobody_who_was_left_out(setup):
    """
    Who was told to be left out does not get the job with the second try.
    """

    async def run():
        await setup.start()
        for jid in ("1", "2"):
            await setup.publish(jid, ["m00"])
        setup.bus.broken = True
        answer = await setup.publish("3", MINIONS[:5])
        assert list(answer["load"]["job_handler"]["excluded"]) == ["m00"]
        setup.bus.broken = False
        await setup.tick(2)

    asyncio.run(run())
    assert setup.bus.jobs()[-1] == ("3", MINIONS[1:5])


@pytest.mark.parametrize("method", ["wave", "finish"])
def test_disk_that_is_full_for_a_moment(setup, method):
    """
    What can't be written down is not published, and not lost either.
    """

    async def run():
        handler = await setup.start()
        await setup.publish("1", MINIONS[:10])
        full = sqlite3.OperationalError("database or disk is full")
        with patch.object(handler.store, method, side_effect=full):
            await setup.publish("2", ["m20"], request=request(sync=True))
            setup.returns("1", *MINIONS[:10])
            await setup.tick(6)
        await setup.tick(2)
        await _end(setup)
        return setup.states()["2"]

    assert asyncio.run(run()) == "discarded"
    assert [jid for jid, _ in setup.bus.jobs()] == ["1"]


def test_old_job_that_can_not_be_discarded(setup):
    """
    It is tried again a moment later, and others have their turn meanwhile.
    """
    setup.config(max_master_jobs=1, max_queue_age=10)

    async def run():
        handler = await setup.start()
        await setup.publish("1", ["m00"])
        await setup.publish("2", ["m01"])
        full = sqlite3.OperationalError("database or disk is full")
        with patch.object(handler.store, "finish", side_effect=full) as finish:
            for _ in range(3):
                await setup.tick(11)
        assert finish.call_count <= 6
        await setup.tick(2)
        return setup.states()["2"]

    assert asyncio.run(run()) == "discarded"


def test_kill_job_takes_the_job_out_of_the_queue(setup):
    async def run():
        await setup.start()
        await setup.publish("1", MINIONS[:10])
        await setup.publish("2", ["m20", "m21", "m22"])
        for arg in (["2"], [{"jid": "2", "__kwarg__": True}], [], "text"):
            await setup.enter("saltutil.kill_job", minions=["m21"], arg=arg)
        await setup.enter(
            ["test.ping", "saltutil.kill_job"], minions=["m22"], arg=[[], ["2"]]
        )
        await _end(setup)
        return setup.handler.store.left_out("2")

    assert sorted(asyncio.run(run())) == ["m21", "m22"]
    assert setup.bus.jobs()[-1] == ("2", ["m20"])


@pytest.mark.parametrize("target, cancelled", [("*", 1), ("web*", 0)])
def test_kill_job_on_a_master_of_masters(setup, target, cancelled):
    """
    It knows whom a job is for only if that is all.
    """
    setup.opts["order_masters"] = True

    async def run():
        await setup.start()
        for number in range(11):
            await setup.publish(str(number), MINIONS[:1])
        await setup.enter("saltutil.kill_job", arg=["10"], load={"tgt": target})
        return len(setup.handler.store.left_out("10"))

    assert asyncio.run(run()) == cancelled


def test_forced_job(setup):
    """
    What a minion publishes is not held back, as a worker of the master waits for it, and
    occupies slots like any other.
    """

    async def run():
        handler = await setup.start()
        await setup.publish("1", MINIONS[:10])
        await setup.publish("2", MINIONS[:3], forced=True)
        return handler.leases.occupied

    assert asyncio.run(run()) == 13
    assert [jid for jid, _ in setup.bus.jobs()] == ["1", "2"]


def test_pause_in_the_middle_of_a_long_look(setup):
    """
    There is no more to be done, so the dispatcher does not ask again and again.
    """

    async def run():
        handler = await setup.start()
        handler.queue.more = True
        handler.queue.hold(setup.clock.now, 100)
        assert handler.queue.advance(setup.clock.now) is None
        return handler.queue.more

    assert asyncio.run(run()) is False


def test_cancelled_job_that_a_step_finds_first(setup):
    """
    It was cancelled before its worker had said that it is there.
    """

    async def run():
        handler = await setup.start()
        await handler.dispatcher.cancel("1", None)
        ask = salt.job_handler.control.ask

        async def late(opts, message, timeout):
            if message["cmd"] == "submitted":
                await setup.tick()
            return await ask(opts, message, timeout)

        with patch("salt.job_handler.control.ask", late):
            return await setup.publish("1", MINIONS)

    asyncio.run(run())
    assert setup.bus.jobs() == []


def test_beat_that_fails(setup):
    """
    It is logged, and the next one follows.
    """

    async def run():
        handler = await setup.start()
        beats = [OSError("the disk is full"), None, None]
        with patch("salt.job_handler.control.beat", side_effect=beats) as beat:
            beating = asyncio.ensure_future(handler._every(0, handler.beat))
            while beat.call_count < 3 and not beating.done():
                await asyncio.sleep(0.01)
        beating.cancel()
        return beat.call_count

    assert asyncio.run(run()) >= 3


@pytest.mark.parametrize(
    "reason", [None, 5, object(), "half of a pair: \ud800", "nothing: \0"]
)
@pytest.mark.parametrize("what", ["excluded", "waits"])
def test_reason_that_can_not_be_stored(setup, reason, what):
    """
    A criteria module may give any reason. It does not stop the queue.
    """

    async def run():
        handler = await setup.start()
        decision = salt.job_criteria.requeue(reason)
        if what == "excluded":
            decision = salt.job_criteria.publish(["m01"], {"m00": reason})
        decide = handler.queue.criteria.decide
        decisions = [decision, decision]
        handler.queue.criteria.decide = lambda job, now: (
            decisions.pop() if job.jid == "1" and decisions else decide(job, now)
        )
        answer = await setup.publish("1", ["m00", "m01"])
        salt.payload.dumps(answer, use_bin_type=True)
        salt.payload.dumps(setup.bus.data("1", what), use_bin_type=True)
        await setup.publish("2", ["m02"])
        await setup.tick(1)

    asyncio.run(run())
    assert {jid for jid, _ in setup.bus.jobs()} == {"1", "2"}


@pytest.mark.parametrize(
    "decision",
    [
        salt.job_criteria.publish(frozenset(["m00", "m01"])),
        salt.job_criteria.publish({"m00": 1, "m01": 1}.keys()),
        salt.job_criteria.publish({"m01"}, {"m00": "left out"}.items()),
        salt.job_criteria.publish(["m01"], ["m00"]),
        salt.job_criteria.publish(5),
    ],
)
def test_decision_that_can_not_be_stored(setup, decision):
    """
    A criteria module gives minions in any form, or ones that are none: that is its failure.
    """

    async def run():
        handler = await setup.start()
        decide = handler.queue.criteria.decide
        handler.queue.criteria.decide = lambda job, now: (
            decision if job.jid == "1" else decide(job, now)
        )
        await setup.publish("1", ["m00", "m01"])
        await setup.publish("2", ["m02"])
        await setup.tick(1)

    asyncio.run(run())
    assert {jid for jid, _ in setup.bus.jobs()} == {"1", "2"}


def test_reason_of_a_rule_that_can_not_be_stored(setup):
    """
    The rule was added while the job waited.
    """

    async def run():
        handler = await setup.start()
        handler.queue.hold(setup.clock.now, 1)
        await setup.publish("1", ["m00"])
        rule = {"function": "state.*", "action": "reject", "reason": "no\0\ud800"}
        handler.queue.rules.set([rule])
        await setup.tick(2)
        await setup.publish("2", ["m01"], fun="test.echo")

    asyncio.run(run())
    assert setup.bus.jobs() == [("2", "*")]
    assert setup.states() == {"1": "discarded", "2": "running"}


def test_job_whose_minions_are_not_known_any_more(setup):
    """
    It is discarded, and the next one has its turn.
    """

    async def run():
        handler = await setup.start()
        handler.queue.hold(setup.clock.now, 1)
        await setup.publish("1", ["m00"])
        await setup.publish("2", ["m01"])
        for job in handler.queue:
            job.minions = None
        handler.store.db.execute("UPDATE jobs SET digest = NULL WHERE jid = '1'")
        await setup.tick(2)

    asyncio.run(run())
    assert setup.bus.jobs() == [("2", "*")]
    assert setup.states()["1"] == "discarded"


def test_minions_that_return_before_the_publication_has_ended(setup):
    """
    A step comes in between, and the job ends all the same.
    """

    async def run():
        handler = await setup.start()
        publish = handler.bus.publish

        async def slow(load, minions=None):
            await publish(load, minions)
            setup.returns("1", "m00")
            await handler.dispatcher.tick()

        with patch.object(handler.bus, "publish", slow):
            await setup.publish("1", ["m00"])
        await setup.land()
        return setup.states()

    assert asyncio.run(run()) == {"1": "done"}


def test_job_for_nobody_ends(setup):
    """
    All of its minions were left out.
    """

    async def run():
        await setup.start()
        for jid in "123":
            await setup.publish(jid, ["m00"])
        await setup.tick()
        return setup.states()["3"]

    assert asyncio.run(run()) == "done"


@pytest.mark.parametrize("what", ["tick", "request"])
def test_many_jobs_that_can_go(setup, what, monkeypatch):
    """
    A step, and the answer to a worker, do not wait until all have gone.
    """
    monkeypatch.setattr(salt.job_handler.dispatch, "PATIENCE_SECONDS", 0.1)
    setup.config()
    stuck = asyncio.Event()

    async def publish(load, minions=None):
        await stuck.wait()

    async def run():
        handler = await setup.start()
        monkeypatch.setattr(handler.bus, "publish", publish)
        if what == "request":
            answer = await asyncio.wait_for(setup.publish("1", ["m00"]), 10)
            assert answer["load"]["jid"] == "1"
        else:
            handler.queue.hold(setup.clock.now, 1)
            await setup.publish("1", ["m00"])
            setup.clock.now += 2
            await asyncio.wait_for(handler.tick(), 10)
        stuck.set()
        await setup.tick()
        return setup.states()

    assert asyncio.run(run()) == {"1": "running"}


def test_place_of_a_job_that_could_not_be_published(setup):
    """
    It is still the first one.
    """

    async def run():
        handler = await setup.start()
        handler.queue.hold(setup.clock.now, 1)
        for jid in "12":
            await setup.publish(jid, MINIONS[:10])
        setup.bus.broken = True
        await setup.tick(2)
        return [job.jid for job in handler.queue]

    assert asyncio.run(run()) == ["1", "2"]


def test_module_that_changes_the_minions_of_a_job(setup):
    """
    Those that it takes away still wait.
    """

    def decide(job, now):
        job.minions.remove("m00")
        return salt.job_criteria.publish(job.minions)

    async def run():
        handler = await setup.start()
        module = MagicMock(wraps=handler.queue.criteria._criteria, decide=decide)
        handler.queue.criteria = salt.job_handler.queue.Guarded(module)
        await setup.publish("1", ["m00", "m01"])

    asyncio.run(run())
    # the second decision is about nobody, and fail_mode is open
    assert setup.bus.jobs() == [("1", ["m01"]), ("1", ["m00"])]
