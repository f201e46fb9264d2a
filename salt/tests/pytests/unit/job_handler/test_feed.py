import pytest

import salt.job_handler.feed
import salt.utils.event


class Sink:
    """
    Writes down what it is told.
    """

    def __init__(self):
        self.told = []
        self.questions = set()
        self.rounds = self

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


def test_return(sink):
    """
    The tag says it all: what a minion returns may be large, and is not unpacked.
    """
    feed = salt.job_handler.feed.Feed({}, sink)
    feed.hear(b"salt/job/20260101/ret/web1\n\nnot even msgpack")
    assert sink.told == [("returned", "20260101", "web1")]


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
