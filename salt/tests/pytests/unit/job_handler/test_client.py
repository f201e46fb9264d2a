import hmac
import itertools

import pytest

import salt.client
import salt.job_handler.caller
import salt.job_handler.client
import salt.utils.event
from salt.exceptions import JobQueueFullError
from tests.support.mock import patch


class Client:
    """
    As much of a LocalClient as is asked for.
    """

    patience = None
    batching = False

    def __init__(self, **opts):
        self.opts = opts


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
    return salt.job_handler.client.QueuedJob(
        "1",
        {
            "publication": 7,
            "waiting": 2,
            "reason": "full",
            "position": 3,
            "ticket": "t",
        },
        clock,
    )


def test_nothing_is_announced_when_off():
    payload = {"cmd": "publish"}
    client = Client(rate_limiting={})
    assert salt.job_handler.client.announce(client, payload, True, 5, 7) == 7
    assert payload == {"cmd": "publish"}


def test_announce():
    client = Client(rate_limiting={"criteria": "capacity"})
    first, second = {}, {}
    assert salt.job_handler.client.announce(client, first, True, 5, 7) == 30
    client.batching = True
    client.patience = 9
    assert salt.job_handler.client.announce(client, second, False, 5, 60) == 60
    assert first["job_handler"].pop("id") != second["job_handler"].pop("id")
    # who he is, so that his job does not wait for longer than he does
    assert first["job_handler"].pop("caller") == salt.job_handler.caller.me()
    assert second["job_handler"].pop("caller") == salt.job_handler.caller.me()
    assert first["job_handler"] == {"sync": True, "timeout": 5, "extend": False}
    assert second["job_handler"] == {"sync": True, "timeout": 9, "extend": True}


def test_announce_of_who_does_not_wait():
    client = Client(rate_limiting={"criteria": "capacity"})
    payload = {}
    salt.job_handler.client.announce(client, payload, False, 5, 7)
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
    job = salt.job_handler.client.QueuedJob("1", {})
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
    queued.handle(_event("queued", publication=7, waiting=2, lease=100))
    clock.now = 158.0
    assert queued.waits
    clock.now = 159.0
    assert not queued.waits


def test_excluded_minions_are_not_waited_for(queued):
    minions = {"a", "b"}
    queued.handle(_event("excluded", excluded={"a": "the minion is at 2 of 2 points"}))
    queued.drop(minions)
    assert minions == {"b"}
    assert queued.rows({"a", "b"}) == {
        "a": {
            "failed": True,
            "out": "no_return",
            "ret": "Minion did not get the job. [the minion is at 2 of 2 points]",
            "retcode": 1,
        }
    }
    assert queued.rows({"b"}) == {}


def test_discarded(queued):
    minions = {"a", "b", "c"}
    queued.handle(_event("dispatched", publication=7, waiting=2, targets=["a"]))
    queued.handle(
        _event(
            "discarded", publication=7, waiting=2, sentence="Too long", targets=["b"]
        )
    )
    queued.drop(minions)
    assert (minions, queued.waits) == ({"a", "c"}, False)
    assert queued.rows({"b"})["b"]["ret"] == "Minion did not get the job. [Too long]"


def test_discarded_with_a_list_that_was_trimmed(queued):
    """
    The event bus trims what is large. All who did not get the job before are meant.
    """
    minions = {"a", "b", "c"}
    queued.handle(_event("dispatched", publication=7, waiting=2, targets=["a"]))
    queued.handle(
        _event(
            "discarded",
            publication=7,
            waiting=2,
            sentence="Too long",
            targets="VALUE_TRIMMED",
        )
    )
    queued.drop(minions, found={"c"})
    assert minions == {"a", "c"}


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
    assert queued.notice() == "Job 1 waits in the master's queue at place 3: full."
    other = salt.job_handler.client.QueuedJob("1", {"waiting": 1})
    assert other.notice() == "Job 1 waits in the master's queue."


class Subscriber:
    """
    A connection to the event bus that brings pieces of several events.
    """

    def __init__(self, *pieces):
        self.pieces = [list(piece) for piece in pieces]
        self.buffered = []

    def close(self):
        pass

    def recv(self, timeout):
        if not self.pieces:
            return None
        first, *others = self.pieces.pop(0)
        self.buffered = others
        return first

    def recv_buffered(self):
        return self.buffered.pop(0) if self.buffered else None


@pytest.fixture
def bus(minion_opts):
    with salt.utils.event.SaltEvent("master", opts=minion_opts, listen=False) as event:
        event.cpub = True
        yield event
        event.cpub = False
        event.subscriber = None


def _raw(tag, data=None):
    return salt.utils.event.SaltEvent.pack(tag, data or {})


def test_events_of_others_are_read_past(bus):
    """
    One turn of the caller reads all that has come, whatever it is.
    """
    others = [_raw(f"salt/job/2/ret/m{number}") for number in range(50)]
    mine = [_raw("salt/job/1/ret/a", {"id": "a"}), _raw("salt/job/1/ret/b")]
    bus.subscriber = Subscriber([*others, mine[0]], others, [mine[1]])
    events = salt.job_handler.client.events(bus, "salt/job/1")
    assert next(events) == {"tag": "salt/job/1/ret/a", "data": {"id": "a"}}
    assert next(events) == {"tag": "salt/job/1/ret/b", "data": {}}
    assert next(events) is None


def test_events_that_somebody_subscribed_to_are_kept(bus):
    bus.subscribe("salt/job/2")
    bus.subscriber = Subscriber([_raw("salt/job/2/ret/a"), _raw("salt/job/3/ret/a")])
    assert next(salt.job_handler.client.events(bus, "salt/job/1")) is None
    assert next(salt.job_handler.client.events(bus, "salt/job/2")) == {
        "tag": "salt/job/2/ret/a",
        "data": {},
    }
    assert next(salt.job_handler.client.events(bus, "salt/job/3")) is None


def test_an_event_that_is_no_event_is_skipped(bus):
    bus.subscriber = Subscriber([b"salt/job/1/ret/a\n\n\xc1", _raw("salt/job/1/ret/b")])
    events = salt.job_handler.client.events(bus, "salt/job/1")
    assert next(events)["tag"] == "salt/job/1/ret/b"


@pytest.mark.parametrize("limits, turns", [({}, 51), ({"criteria": "capacity"}, 0)])
def test_local_client_reads_past_others_when_jobs_are_limited(bus, limits, turns):
    others = [[_raw(f"salt/job/2/ret/m{number}")] for number in range(51)]
    bus.subscriber = Subscriber(*others, [_raw("salt/job/1/ret/a")])
    client = salt.client.LocalClient.__new__(salt.client.LocalClient)
    client.opts, client.event, client.auto_reconnect = (
        {"rate_limiting": limits},
        bus,
        False,
    )
    client.hears_own = False
    events = client.get_returns_no_block("salt/job/1")
    for _ in range(turns):
        assert next(events) is None
    assert next(events)["tag"] == "salt/job/1/ret/a"


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
        client.queued_jobs["1"] = salt.job_handler.client.QueuedJob(
            "1", {"publication": 7, "waiting": 0, "ticket": "t"}
        )
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


def test_who_is_sent_its_own_events_takes_those_that_there_are(bus):
    """
    It does not go on reading, and it does not pause when nothing comes
    """
    bus.prefixes = ["salt/job/1"]
    bus.subscriber = Subscriber(
        [_raw("salt/job/1/ret/a"), _raw("salt/job/1/ret/b")],
        [_raw("salt/job/1/ret/c")],
    )
    events = salt.job_handler.client.events(bus, "salt/job/1")
    with patch("time.sleep") as sleep, patch(
        "salt.job_handler.client._ALERT_SECONDS", -1
    ):
        tags = [event and event["tag"][-1] for event in itertools.islice(events, 6)]
    assert tags == ["a", "b", None, "c", None, None]
    assert not sleep.called


def test_answers_that_keep_coming_are_progress(queued, clock):
    assert queued.moves(0)
    queued.handle(_event("dispatched", publication=7, waiting=0))
    assert not queued.moves(0)
    assert queued.moves(1)
    assert not queued.moves(1)


def test_asynchronous_caller_learns_who_is_left_out():
    """
    With the job id, as nothing else reaches him.
    """
    state = {"state": "dispatched", "excluded": {"web2": "it is full"}}
    for pub_data, expected in (
        ({"jid": "1", "minions": ["web1"]}, {}),
        ({}, {}),
        (
            {"jid": "1", "minions": ["web1", "web2"], "job_handler": state},
            {"web2": "Minion did not get the job. [it is full]"},
        ),
    ):
        client = salt.client.LocalClient.__new__(salt.client.LocalClient)
        client.event = None
        with patch.object(client, "run_job", return_value=pub_data):
            client.cmd_async("*", "test.echo")
        assert client.left_out == expected


def test_event_of_a_minion_that_forges(clock):
    """
    A minion can fire any event on the bus of the master, but does not know the ticket.
    """
    job = salt.job_handler.client.QueuedJob(
        "1", {"publication": 7, "waiting": 2, "ticket": "secret"}, clock
    )
    forged = {"publication": 7, "targets": ["a"], "sentence": "x"}
    for ticket in ({}, {"ticket": "other"}, {"ticket": None}):
        assert job.handle(_event("discarded", **forged, **ticket))
        assert job.waits and not job.left_out
    assert job.handle(_event("discarded", **forged, ticket="secret"))
    assert not job.waits
    assert list(job.left_out) == ["a"]
