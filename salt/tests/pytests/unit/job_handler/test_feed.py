import asyncio

import pytest

import salt.job_handler.feed
import salt.utils.event
from tests.support.mock import patch


class Sink:
    """
    Writes down what it is told.
    """

    def __init__(self):
        self.told = []
        self.questions = set()

    def is_question(self, jid):
        return jid in self.questions

    def returned(self, *args):
        self.told.append(("returned", *args))

    def answered(self, *args):
        self.told.append(("answered", *args))

    def started(self, *args):
        self.told.append(("started", *args))

    def peer_published(self, *args):
        self.told.append(("peer_published", *args))

    def missed(self):
        self.told.append(("missed",))


@pytest.fixture
def sink():
    return Sink()


def _hear(sink, tag, data, **opts):
    feed = salt.job_handler.feed.Feed(opts, sink)
    feed.hear(salt.utils.event.SaltEvent.pack(tag, data))
    return sink.told


@pytest.mark.parametrize("more", ({}, {"return": {"x": [1]}, "jid": "20260101"}))
def test_return(sink, more):
    data = {**more, "id": "web1", "retcode": 0}
    assert _hear(sink, "salt/job/20260101/ret/web1", data) == [
        ("returned", "20260101", "web1")
    ]


def test_what_is_returned_is_not_unpacked(sink):
    """
    It may be large. Nothing that follows the id is looked at.
    """
    feed = salt.job_handler.feed.Feed({}, sink)
    raw = salt.utils.event.SaltEvent.pack("salt/job/1/ret/web1", {"id": "web1", "x": 1})
    with patch.object(feed, "_unpack", side_effect=AssertionError):
        feed.hear(raw[:-1] + b"\xc1")
    assert sink.told == [("returned", "1", "web1")]


@pytest.mark.parametrize(
    "data",
    [{"id": "evil"}, {"id": ["web1"]}, {"return": {"id": "web1"}}, {}, "web1", []],
)
def test_return_of_somebody_else(sink, data):
    """
    Nothing is given back unless the data name the minion of the tag.
    """
    assert _hear(sink, "salt/job/20260101/ret/web1", data) == []


@pytest.mark.parametrize(
    "body", [b"", b"\x81", b"\x81\xa2id", b"\xc1", b"\x81\xa1\xff"]
)
def test_return_that_makes_no_sense(sink, body):
    feed = salt.job_handler.feed.Feed({}, sink)
    feed.hear(b"salt/job/20260101/ret/web1\n\n" + body)
    assert sink.told == []


def test_answer_to_a_question(sink):
    sink.questions.add("20260101")
    data = {"id": "web1", "return": [{"jid": "x"}]}
    assert _hear(sink, "salt/job/20260101/ret/web1", data) == [
        ("answered", "20260101", "web1", [{"jid": "x"}])
    ]


def test_answer_of_somebody_else(sink):
    """
    A minion that answers for another one in a tag of its own choice.
    """
    sink.questions.add("20260101")
    assert _hear(sink, "salt/job/20260101/ret/web1", {"id": "evil", "return": []}) == []


def test_start(sink):
    assert _hear(sink, "salt/minion/web1/start", {"id": "web1"}) == [
        ("started", "web1")
    ]


@pytest.mark.parametrize("data", [{"id": "evil"}, {}, "text", None])
def test_start_of_somebody_else(sink, data):
    assert _hear(sink, "salt/minion/web1/start", data) == []


@pytest.mark.parametrize(
    "tag",
    [
        "salt/job/20260101/new",
        "salt/job/20260101/publish",
        "salt/job/20260101/prog/web1/0",
        "syndic/one/salt/job/20260101/ret/web1",
        "salt/minion/web1/stop",
        "minion_start",
        "20260101",
    ],
)
def test_other_events(sink, tag):
    assert _hear(sink, tag, {"id": "web1", "jid": "20260101"}) == []


def test_peer_of_a_cluster(sink):
    """
    What another master publishes comes back to all of them.
    """
    feed = salt.job_handler.feed.Feed({"cluster_id": "c"}, sink)
    for kind, data in (
        ("new", {"minions": ["a", "b"]}),
        ("publish", {"tgt": "*", "tgt_type": "glob"}),
        ("publish", {"tgt": ["b"], "tgt_type": "list"}),
    ):
        data.update({"jid": "1", "fun": "f"})
        feed.hear(salt.utils.event.SaltEvent.pack(f"salt/job/1/{kind}", data))
    assert sink.told == [
        ("peer_published", "1", "f", ["a", "b"]),
        ("peer_published", "1", "f", ["b"]),
    ]


class Client:
    """
    A connection to the event bus that breaks after each piece of some events.
    """

    def __init__(self, *pieces):
        self.pieces = list(pieces)
        self.unpacker = iter(())
        self.connected = self.disconnected = None

    async def connect(self, connect_callback, disconnect_callback):
        self.connected, self.disconnected = connect_callback, disconnect_callback
        await connect_callback(True)

    async def recv(self):
        if not self.pieces:
            raise asyncio.CancelledError
        first, *others = self.pieces.pop(0)
        self.unpacker = iter([{b"body": raw} for raw in others])
        return first


def _run(sink, client):
    async def run():
        feed = salt.job_handler.feed.Feed({}, sink)
        with patch("salt.transport.ipc_publish_client", return_value=client):
            await feed.connect()
        try:
            await feed.run()
        except asyncio.CancelledError:
            pass
        return feed

    return asyncio.run(run())


def test_all_of_a_piece_is_heard(sink):
    """
    Also what comes after an event that the job handler fails on.
    """
    sink.started = None
    piece = [
        salt.utils.event.SaltEvent.pack(tag, {"id": "a"})
        for tag in ("salt/job/1/ret/a", "salt/minion/a/start", "salt/job/2/ret/a")
    ]
    last = salt.utils.event.SaltEvent.pack("salt/job/3/ret/a", {"id": "a"})
    feed = _run(sink, Client(piece, [last]))
    assert sink.told == [("returned", jid, "a") for jid in ("1", "2", "3")]
    assert feed.heard == 4


def test_lost_bus(sink):
    """
    What comes between the loss and the new connection is missed as well, so the doubt
    begins with that.
    """

    async def run():
        client = Client()
        feed = salt.job_handler.feed.Feed({}, sink)
        with patch("salt.transport.ipc_publish_client", return_value=client):
            await feed.connect()
        await client.disconnected()
        before = list(sink.told)
        await client.connected(True)
        return before

    assert asyncio.run(run()) == []
    assert sink.told == [("missed",)]


def test_return_of_a_job_with_an_id_of_its_own(sink):
    assert _hear(sink, "salt/job/my-own.jid/ret/web1", {"id": "web1"}) == [
        ("returned", "my-own.jid", "web1")
    ]


@pytest.mark.parametrize("minions", ["VALUE_TRIMMED", None])
def test_trimmed_minions_are_not_charged(sink, minions):
    """
    A text of 13 letters is not a list of 13 minions.
    """
    feed = salt.job_handler.feed.Feed({"cluster_id": "x"}, sink)
    for tag, data in (
        ("salt/job/1/new", {"jid": "1", "minions": minions}),
        ("salt/job/1/publish", {"jid": "1", "tgt": "*", "tgt_type": "glob"}),
    ):
        feed.hear(salt.utils.event.SaltEvent.pack(tag, data))
    assert sink.told == []


def test_wave_of_a_peer_charges_its_own_minions(sink):
    """
    Whatever its target is.
    """
    feed = salt.job_handler.feed.Feed({"cluster_id": "x"}, sink)
    wave = {"jid": "1", "fun": "f", "tgt": "web[1-2]", "tgt_type": "pcre"}
    for tag, data in (
        ("salt/job/1/new", {"jid": "1", "minions": ["web1", "web2", "web3"]}),
        ("salt/job/1/publish", {**wave, "minions": ["web1", "web2"]}),
    ):
        feed.hear(salt.utils.event.SaltEvent.pack(tag, data))
    assert sink.told == [("peer_published", "1", "f", ["web1", "web2"])]
