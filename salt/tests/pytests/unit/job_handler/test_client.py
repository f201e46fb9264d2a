import asyncio
import hmac

import pytest

import salt.client
import salt.job_handler.client
from salt.exceptions import JobQueueFullError
from tests.support.mock import MagicMock, patch


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def _event(kind, jid="1", **data):
    return {"tag": f"salt/job/{jid}/{kind}", "data": {"ticket": "t", **data}}


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def queued(clock):
    ret = salt.job_handler.client.QueuedJob("1", clock)
    ret.add({"publication": 7, "waiting": 2, "reason": "full", "ticket": "t"})
    return ret


@pytest.fixture
def caller():
    return salt.job_handler.client.Caller({"rate_limiting": {"criteria": "capacity"}})


def test_nothing_is_announced_when_off():
    payload = {"cmd": "publish"}
    caller = salt.job_handler.client.Caller({"rate_limiting": {}})
    assert caller.announce(payload, True, 5, 7) == 7
    assert payload == {"cmd": "publish"}


def test_announce(caller):
    first, second = {}, {}
    assert caller.announce(first, True, 5, 7) == 30
    caller.batching = True
    caller.patience = 9
    assert caller.announce(second, False, 5, 60) == 60
    assert first["job_handler"].pop("id") != second["job_handler"].pop("id")
    # who he is, so that his job does not wait for longer than he does
    assert first["job_handler"].pop("caller") == salt.job_handler.client.me()
    assert second["job_handler"].pop("caller") == salt.job_handler.client.me()
    assert first["job_handler"] == {
        "sync": True,
        "timeout": 5,
        "extend": False,
        "priority": 0,
    }
    assert second["job_handler"]["timeout"] == 9
    assert second["job_handler"]["extend"] is True


def test_announce_of_a_caller_that_does_not_wait(caller):
    caller.patience = 9
    caller.announce({}, False, 5, 7)
    payload = {}
    # it holds for one publication
    caller.announce(payload, False, 5, 7)
    assert "caller" not in payload["job_handler"]


def test_check():
    salt.job_handler.client.check("some error")
    salt.job_handler.client.check({"name": "AuthorizationError"})
    with pytest.raises(JobQueueFullError, match="^full$") as caught:
        salt.job_handler.client.check(
            {"name": "JobQueueFullError", "message": "full", "retry_after": 7}
        )
    assert caught.value.retry_after == 7


def test_waits_until_it_is_sent(queued):
    assert queued.waits
    assert queued.handle(_event("dispatched", publication=7, waiting=1, targets=["a"]))
    assert queued.waits
    assert queued.handle(_event("dispatched", publication=7, waiting=0, targets=["b"]))
    assert not queued.waits


def test_other_events_are_not_its_own(queued):
    for event in (
        _event("ret/a", id="a"),
        _event("new"),
        _event("dispatched", jid="12", publication=7, waiting=0),
    ):
        assert not queued.handle(event)
    assert queued.waits


@pytest.mark.parametrize(
    "ticket", ["", "T", "t ", "tt", "\u00e9", "\udcff", b"t", ["t"]]
)
def test_an_event_with_another_ticket(queued, ticket):
    """
    Tickets are compared in a time that tells nothing of them.
    """
    with patch("hmac.compare_digest", wraps=hmac.compare_digest) as compare:
        assert queued.handle(_event("excluded", excluded={"m": "x"}, ticket=ticket))
        assert queued.left_out == {}
        assert compare.called == isinstance(ticket, str)
        assert queued.handle(_event("excluded", excluded={"m": "x"}))
    assert list(queued.left_out) == ["m"]


@pytest.mark.parametrize("ticket", [{}, {"ticket": None}, {"ticket": []}])
@pytest.mark.parametrize("kind", ["queued", "dispatched", "excluded", "discarded"])
def test_no_event_is_about_a_job_that_was_not_queued(kind, ticket):
    """
    Such as a batch on a master whose job handler is off
    """
    job = salt.job_handler.client.QueuedJob("1")
    job.add({})
    data = {**ticket, "excluded": {"m": "x"}, "targets": ["m"], "waiting": 1}
    assert job.handle({"tag": f"salt/job/1/{kind}", "data": data})
    assert not job.left_out
    assert not job.waits


def test_lease_ends(queued, clock):
    """
    Nothing heard for long: go on as if there was no queue.
    """
    clock.now = 59.0
    assert queued.waits
    queued.handle(_event("queued", publication=7, waiting=2))
    clock.now = 118.0
    assert queued.waits
    clock.now = 119.0
    assert not queued.waits


def _rest(wait, found=(), minions=()):
    return list(wait.rest(None, set(found), set(minions)))


def test_excluded_minions_are_not_waited_for(queued):
    minions = {"a", "b"}
    wait = salt.job_handler.client.Wait(queued, minions)
    assert wait.handle(_event("excluded", excluded={"a": "the minion is busy"}))
    wait.drop(minions)
    assert minions == {"b"}
    row = {
        "failed": True,
        "left_out": True,
        "out": "no_return",
        "ret": "Minion did not get the job. [the minion is busy]",
        "retcode": 1,
    }
    assert _rest(wait) == [{"a": row}]
    # another part of the batch
    assert _rest(salt.job_handler.client.Wait(queued, {"b"})) == []


def test_wait_for_a_job_that_does_not_wait(caller):
    """
    All is as on stock Salt.
    """
    minions = {"a"}
    wait = caller.wait("1", minions)
    assert not wait.handle(_event("excluded", excluded={"a": "x"}))
    wait.drop(minions)
    assert minions == {"a"}
    assert not wait.moves(1)
    assert _rest(wait, minions={"a"}) == []


def test_discarded(queued):
    minions = {"a", "b", "c"}
    wait = salt.job_handler.client.Wait(queued, minions)
    queued.handle(_event("dispatched", publication=7, waiting=2, targets=["a"]))
    queued.handle(
        _event(
            "discarded", publication=7, waiting=2, sentence="Too long", targets=["b"]
        )
    )
    wait.drop(minions)
    assert (minions, queued.waits) == ({"a", "c"}, False)
    assert _rest(wait)[0]["b"]["ret"] == "Minion did not get the job. [Too long]"


def test_parts_of_a_batch(queued):
    """
    One part is sent, another one waits: the job waits.
    """
    queued.add({"publication": 8, "waiting": 1})
    queued.handle(_event("dispatched", publication=7, waiting=0))
    assert queued.waits
    queued.handle(_event("dispatched", publication=8, waiting=0))
    assert not queued.waits


def test_notice(queued):
    assert queued.notice() == "Job 1 waits in the master's queue: full."
    other = salt.job_handler.client.QueuedJob("1")
    other.add({"waiting": 1})
    assert other.notice() == "Job 1 waits in the master's queue."


class FastClock:
    """
    A second goes by with each look at the event bus.
    """

    now = 1000.0

    def time(self):
        return self.now

    def sleep(self, seconds):
        self.now += 1


def test_answers_to_a_question_are_no_answers_to_the_job(master_opts):
    """
    Who has answered find_job has not answered the job: that is looked up under its
    own id.
    """
    answers = {
        "salt/job/2": [
            {
                "tag": "salt/job/2/ret/b",
                "data": {"id": "b", "return": {}, "retcode": 0, "jid": "2"},
            }
        ]
    }
    cache = {"1": {"a": {"ret": True}}, "2": {"b": {"ret": {}}}}
    with salt.client.LocalClient(mopts=master_opts) as client:
        queued = salt.job_handler.client.QueuedJob("1")
        queued.add({"publication": 7, "waiting": 0, "ticket": "t"})
        client.job_handler.jobs["1"] = queued
        with patch.object(
            client,
            "get_returns_no_block",
            lambda tag, *_: iter([*answers.get(tag, []), *[None] * 99]),
        ), patch.object(client, "returns_for_job", return_value={"1": 1}), patch.object(
            client, "gather_job_info", return_value={"jid": "2"}
        ), patch.object(
            client, "get_cache_returns", cache.get
        ), patch(
            "salt.utils.minions.CkMinions._pki_minions", return_value={"a", "b"}
        ), patch(
            "salt.client.time", FastClock()
        ):
            found = list(client.get_iter_returns("1", {"a", "b"}, timeout=3))
    assert found == [{"a": {"ret": True}}]


def test_answers_that_keep_coming_are_progress(queued, clock):
    first = salt.job_handler.client.Wait(queued, {"a"})
    second = salt.job_handler.client.Wait(queued, {"b"})
    assert first.moves(0) and second.moves(0)
    queued.handle(_event("dispatched", publication=7, waiting=0))
    assert not first.moves(0)
    assert first.moves(1)
    # parts of a batch count for themselves
    assert not second.moves(0)
    assert not first.moves(1)


def test_events_that_come_before_the_answer_of_the_master(clock):
    """
    They may be on the bus before the master's answer is.
    """
    job = salt.job_handler.client.QueuedJob("1", clock)
    assert job.handle(_event("dispatched", publication=7, waiting=0))
    assert job.handle(_event("excluded", excluded={"a": "x"}, ticket="forged"))
    job.add({"publication": 7, "waiting": 2, "ticket": "t"})
    assert (job.waits, job.left_out) == (False, {})


def test_job_that_has_timed_out(clock):
    """
    A caller with an event loop waits until the job has gone out, and minions that do not
    get it count as done.
    """
    job = salt.job_handler.client.QueuedJob("1", clock)
    job.add({"publication": 7, "waiting": 2, "ticket": "t"})
    minions = {"a": False, "b": True}

    async def run():
        task = asyncio.ensure_future(job.timed_out(minions, 3600))
        await asyncio.sleep(0.3)
        assert not task.done()
        job.handle(_event("excluded", excluded={"a": "the minion is busy"}))
        job.handle(_event("dispatched", publication=7, waiting=0))
        await task

    asyncio.run(run())
    assert minions == {"a": True, "b": True}


def test_events_that_come_together_to_rest_tornado(clock):
    """
    None is lost, though its futures hear one event each.
    """
    pytest.importorskip("tornado")
    # pylint: disable-next=import-outside-toplevel
    from salt.netapi.rest_tornado.saltnado import EventListener

    listener = EventListener.__new__(EventListener)
    listener.event = MagicMock(unpack=lambda raw: raw)
    listener.tag_map = {("salt/job/1/ret/a", str.startswith): []}
    job = salt.job_handler.client.QueuedJob("1", clock)
    listener.queued_jobs.add(job)
    job.add({"publication": 7, "waiting": 2, "ticket": "t"})

    async def receive():
        for event in (
            _event("dispatched", publication=7, waiting=1),
            _event("ret/a", id="a"),
            _event("excluded", excluded={"b": "the minion is busy"}),
            _event("dispatched", publication=7, waiting=0),
        ):
            # pylint: disable-next=protected-access
            await listener._handle_event_socket_recv((event["tag"], event["data"]))

    asyncio.run(receive())
    assert (job.waits, list(job.left_out)) == (False, ["b"])


def test_asynchronous_caller_learns_who_is_left_out(caller):
    """
    With the job id, as nothing else reaches him.
    """
    state = {"state": "dispatched", "excluded": {"web2": "it is full"}}
    for pub_data, expected in (
        ({"jid": "1", "minions": ["web1"]}, {}),
        (
            {"jid": "1", "minions": ["web1", "web2"], "job_handler": state},
            {"web2": "Minion did not get the job. [it is full]"},
        ),
    ):
        assert caller.answer(pub_data, False) == pub_data
        assert (caller.left_out, caller.jobs) == (expected, {})


def test_event_of_a_minion_that_forges(clock):
    """
    A minion can fire any event on the bus of the master, but does not know the ticket.
    """
    job = salt.job_handler.client.QueuedJob("1", clock)
    job.add({"publication": 7, "waiting": 2, "ticket": "secret"})
    forged = {"publication": 7, "targets": ["a"], "sentence": "x"}
    for ticket in ({}, {"ticket": "other"}, {"ticket": None}):
        assert job.handle(_event("discarded", **forged, **ticket))
        assert job.waits and not job.left_out
    assert job.handle(_event("discarded", **forged, ticket="secret"))
    assert not job.waits
    assert list(job.left_out) == ["a"]
