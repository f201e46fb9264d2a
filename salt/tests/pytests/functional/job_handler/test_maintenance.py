"""
What is heard of minions, and what they are asked.
"""

# pylint: disable=protected-access

import asyncio

import pytest

import salt.payload
import salt.utils.event
from tests.pytests.functional.job_handler.conftest import MINIONS
from tests.support.mock import MagicMock, patch


def event(tag, data):
    """
    Return an event as it comes from the bus.
    """
    end = salt.utils.event.TAGEND.encode()
    return tag.encode() + end + salt.payload.dumps(data, use_bin_type=True)


def answer(setup, question, **answers):
    for minion, value in answers.items():
        tag = f"salt/job/{question['jid']}/ret/{minion}"
        setup.handler.maintenance.hear(event(tag, {"id": minion, "return": value}))


def test_returns(setup):
    async def run():
        handler = await setup.start()
        await setup.publish("1", ["m00", "m01"])
        tag = "salt/job/1/ret/m00"
        for _ in range(2):
            handler.maintenance.hear(event(tag, {"id": "m00", "return": "x" * 10**6}))
        return dict(handler.leases.slots)

    assert asyncio.run(run()) == {"m01": 1}


@pytest.mark.parametrize(
    "tag, data",
    [
        ("salt/job/1/ret/m00", {"id": "m01"}),
        ("salt/job/1/ret/m00", {"return": {"id": "m00"}}),
        ("salt/job/1/ret/m00", "m00"),
        ("salt/job/1/ret/m00", [{"id": "m00"}]),
        ("salt/job/1/ret/m00", None),
        ("salt/job/1/ret/", {"id": "m00"}),
        ("salt/minion/m00/start", {"id": "m01"}),
        ("salt/minion/m00/start", ["m00"]),
        ("salt/job/1/publish", {"jid": "1", "minions": ["m00"]}),
        ("salt/job/x/publish", {"jid": "x", "minions": MINIONS}),
        ("salt/job/1/excluded", {"excluded": {"m00": "so"}}),
    ],
)
def test_forged_events(setup, tag, data):
    """
    They neither end a lease of another minion nor begin one, and nothing fails.
    """

    async def run():
        handler = await setup.start()
        await setup.publish("1", ["m00"])
        handler.maintenance.hear(event(tag, data))
        handler.maintenance.hear(tag.encode() + b"\n\n\xc1")
        return dict(handler.leases.slots)

    assert asyncio.run(run()) == {"m00": 1}


def test_start_asks(setup):
    """
    Jobs survive that a minion connects again, so it keeps its leases until it has said
    what it runs.
    """

    async def run():
        handler = await setup.start()
        await setup.publish("1", ["m00"])
        await setup.publish("2", ["m00"])
        await setup.land()
        handler.maintenance.hear(event("salt/minion/m00/start", {"id": "m00"}))
        assert handler.leases.slots == {"m00": 2}
        await setup.tick(1)
        (asked,) = setup.bus.questions()
        assert (asked["fun"], asked["tgt"]) == ("saltutil.running", ["m00"])
        answer(setup, asked, m00=[{"jid": "1"}])
        await setup.tick(1)
        find = setup.bus.questions()[1]
        assert (find["fun"], find["arg"]) == ("saltutil.find_job", ["2"])
        answer(setup, find, m00={})
        await setup.tick(31)
        return list(handler.leases.jobs)

    assert asyncio.run(run()) == ["1"]


def test_a_process_that_stood_still(setup):
    """
    It was stopped while minions were to answer: what they said is read first.
    """

    async def run():
        handler = await setup.start()
        await setup.publish("1", ["m00", "m01"])
        await setup.land()
        await setup.tick(60)
        (asked,) = setup.bus.questions()
        handler._ticked -= 100
        await setup.tick(100)
        assert handler.leases.slots == {"m00": 1, "m01": 1}
        await setup.tick(0.5)
        answer(setup, asked, m00=[{"jid": "1"}])
        # the others have as long to answer as before
        await setup.tick(31)
        await setup.tick(31)
        return dict(handler.leases.slots), list(handler.leases.silent)

    assert asyncio.run(run()) == ({"m00": 1}, ["m01"])


def test_steps_that_take_long(setup):
    """
    The process works all the time: minions are asked after each step.
    """

    async def run():
        handler = await setup.start()
        await setup.publish("1", ["m00"])
        await setup.land()

        async def tick():
            handler._ticked -= 3

        with patch.object(handler.dispatcher, "tick", tick):
            await setup.tick(1)
            await setup.tick(60)
        return [asked["tgt"] for asked in setup.bus.questions()]

    assert asyncio.run(run()) == [["m00"]]


@pytest.mark.parametrize(
    "value", ["'saltutil.running' is not available.", None, {}, [], 5, [["1"]], [{}]]
)
def test_answers_that_name_no_job(setup, value):
    """
    The lease expires, the minion is not silent, and its next job goes out.
    """

    async def run():
        handler = await setup.start()
        await setup.publish("1", ["m00"])
        await setup.tick(61)
        answer(setup, setup.bus.questions()[0], m00=value)
        for _ in range(4):
            await setup.tick(10)
            for asked in setup.bus.questions()[1:]:
                answer(setup, asked, m00=value)
        await setup.publish("2", ["m00"])
        return list(handler.leases.jobs), handler.leases.silent

    assert asyncio.run(run()) == (["2"], {})


def test_job_that_takes_long(setup):
    async def run():
        handler = await setup.start()
        await setup.publish("1", ["m00"])
        for _ in range(60):
            await setup.tick(10)
            for asked in setup.bus.questions():
                answer(setup, asked, m00=[{"jid": "1"}])
        asked = len(setup.bus.questions())
        await setup.tick(200)
        return handler.leases.has("1", "m00"), asked

    held, asked = asyncio.run(run())
    assert held
    assert 8 <= asked <= 11


def test_silent_minion(setup):
    """
    It gets no jobs until something comes from it, and is asked less and less often.
    """

    async def run():
        handler = await setup.start()
        await setup.publish("1", ["m00"])
        for _ in range(20):
            await setup.tick(5)
        assert list(handler.leases.silent) == ["m00"]
        assert handler.leases.occupied == 0
        await setup.publish("2", ["m00", "m01"])
        reason = handler.store.left_out("2")["m00"]
        before = len(setup.bus.questions())
        for _ in range(24 * 60):
            await setup.tick(60)
            setup.returns("2", "m01")
        asked = len(setup.bus.questions()) - before
        handler.maintenance.hear(event("salt/minion/m00/start", {"id": "m00"}))
        await setup.publish("3", ["m00"])
        return reason, asked, handler.leases.has("3", "m00")

    reason, asked, held = asyncio.run(run())
    assert reason.startswith("the minion has not answered for ")
    assert 20 <= asked <= 40
    assert held


def test_silent_minion_whose_key_is_deleted(setup):
    async def run():
        handler = await setup.start()
        handler.leases.set_silent("m00", setup.clock.now, setup.clock.now)
        handler.leases.set_silent("m01", setup.clock.now, setup.clock.now)
        with patch.object(handler.maintenance, "_accepted", lambda: ["m01"]):
            await handler.maintenance.forget_deleted()
        return list(handler.leases.silent)

    assert asyncio.run(run()) == ["m01"]


def test_minions_are_asked_early_if_jobs_wait(setup):
    """
    After five seconds in which no lease has ended.
    """

    async def run():
        await setup.start()
        await setup.publish("1", MINIONS[:10])
        await setup.tick(6)
        quiet = len(setup.bus.questions())
        await setup.publish("2", MINIONS[:10])
        for _ in range(7):
            await setup.tick(1)
        return quiet, setup.bus.questions()

    quiet, asked = asyncio.run(run())
    assert quiet == 0
    assert asked[0]["tgt"] == MINIONS[:10]


def test_question_that_can_not_be_published(setup):
    """
    A minion that was not asked is not silent.
    """

    async def run():
        handler = await setup.start()
        await setup.publish("1", ["m00"])
        setup.bus.broken = True
        for _ in range(30):
            await setup.tick(5)
        assert handler.leases.has("1", "m00")
        setup.bus.broken = False
        await setup.tick(1)
        return setup.bus.questions()

    assert [asked["tgt"] for asked in asyncio.run(run())] == [["m00"]]


def test_requests_without_an_answer_are_counted(setup):
    """
    Workers have no port of an exporter, so the job handler exports what they say.
    """

    async def run():
        handler = await setup.start()
        counter = handler.report._unavailable = MagicMock()
        tag = "salt/job_handler/unavailable"
        handler.maintenance.hear(event(tag, {"fail_mode": "open"}))
        return counter.add

    asyncio.run(run()).assert_called_once_with(1, attributes={"result": "open"})


def test_lost_bus(setup):
    """
    What it has sent meanwhile is lost, so all minions with leases are asked.
    """

    async def run():
        handler = await setup.start()
        await setup.publish("1", MINIONS[:3])
        await handler.maintenance._disconnected()
        await handler.maintenance._connected(None)
        await setup.tick(1)
        return setup.bus.questions()[0]["tgt"]

    assert asyncio.run(run()) == MINIONS[:3]


def test_peers_of_a_cluster(setup):
    """
    What they publish occupies slots here as well, for its list of minions or those of the
    event ``new``. What this master publishes occupies none twice.
    """
    setup.opts["cluster_id"] = "c"
    setup.config(exempt=["test.ping"])

    async def run():
        handler = await setup.start()

        def hear(jid, kind, **data):
            data = {"jid": jid, "fun": "f", **data}
            handler.maintenance.hear(event(f"salt/job/{jid}/{kind}", data))

        hear("1", "new", minions=["m00"])
        hear("1", "publish", tgt="*")
        hear("2", "publish", tgt=["m01"], tgt_type="list")
        hear("3", "new", minions="VALUE_TRIMMED")
        hear("3", "publish", tgt="*")
        hear("4", "publish", tgt="*")
        hear("5", "publish", tgt=["m02"], tgt_type="list", fun="test.ping")
        question = {"fun": "saltutil.running", "tgt_type": "list"}
        hear("6_0", "publish", tgt=["m03"], **question)
        hear("8", "new", minions=["m05", "m06"])
        hear("8", "publish", tgt="* and not L@m06", minions=["m05"])
        hear("9", "publish", tgt="*", minions=["m07"])
        await setup.publish("7", ["m04"])
        handler.leases.end("7", "m04")
        hear("7", "publish", tgt=["m04"], tgt_type="list")
        return dict(handler.leases.slots)

    assert asyncio.run(run()) == {"m00": 1, "m01": 1, "m05": 1, "m07": 1}
    (published,) = setup.bus.data("7", "publish")
    assert published["minions"] == ["m04"]


def test_master_of_masters(setup):
    """
    It does not know its minions, so the job counts, until its returns have stopped.
    """
    setup.opts["order_masters"] = True
    setup.config(max_master_jobs=1)

    async def run():
        handler = await setup.start()
        for jid in ("1", "2"):
            await setup.publish(jid, ["syndic"])
        assert setup.bus.jobs() == [("1", "*")]
        for _ in range(5):
            await setup.tick(10)
            setup.returns("1", "m00")
        assert setup.bus.jobs() == [("1", "*")]
        for _ in range(4):
            await setup.tick(5)
        assert setup.bus.questions() == []
        return [jid for jid, _ in setup.bus.jobs()], handler.leases.silent

    assert asyncio.run(run()) == (["1", "2"], {})
