"""
Only the job cache of the master tells what minions have returned
"""

import contextlib
from types import SimpleNamespace

import pytest
import saltext.package_states.master.answers as answers
import saltext.package_states.master.returns as returns
import saltext.package_states.store.tables as store
from saltext.package_states.errors import PackageStateError

import salt.client


class Client:
    """
    A client of a master, with the job cache as a dictionary
    """

    def __init__(self, cache=None):
        self.opts = {"master_job_cache": "local_cache"}
        self.cache = cache or {}
        self.reads = 0
        self.returners = {"local_cache.get_jid": self.get_jid}
        self.published = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def get_jid(self, jid):
        assert jid == "7"
        self.reads += 1
        return self.cache

    def run_job(self, minions, function, arg, **options):
        assert options["listen"] is False
        self.published.append((minions, function, arg))
        return {"jid": "7", "minions": minions}


@pytest.fixture
def clock(monkeypatch):
    """
    Return a clock that goes on when somebody sleeps
    """
    clock = SimpleNamespace(now=100.0)

    def sleep(seconds):
        clock.now += seconds

    monkeypatch.setattr(
        returns, "time", SimpleNamespace(monotonic=lambda: clock.now, sleep=sleep)
    )
    return clock


def test_what_is_in_the_job_cache_is_yielded_once(clock):
    client = Client({"a": {"return": 1}, "other": {"return": 2}})
    found = returns.ask(client, ["b", "a"], "test.ping", ("x",), 60)
    assert next(found) == ("a", {"return": 1})
    client.cache["b"] = {"return": None, "retcode": 1}
    assert list(found) == [("b", {"return": None, "retcode": 1})]
    assert client.published == [(["a", "b"], "test.ping", ["x"])]


def test_who_is_waited_for_is_said_once_at_a_terminal(clock, monkeypatch):
    """
    Several jobs run at the same time, and within the master nobody is told
    """
    client, written = Client({"a": {"return": 1}}), []
    terminal = SimpleNamespace(isatty=lambda: True, write=written.append)
    monkeypatch.setattr(returns, "sys", SimpleNamespace(stderr=terminal))
    jobs = [
        returns.Job(client, [one], "test.ping", clock=lambda: clock.now)
        for one in "abc"
    ]
    assert list(returns.collect(jobs)) == [("a", {"return": 1})]
    assert written == ["Waiting for b, c\n"]
    assert clock.now < 161
    monkeypatch.setattr(returns, "NAMED", 1)
    assert not list(returns.ask(client, ["b", "c"], "test.ping"))
    assert written[1:] == ["Waiting for b and 1 more\n"]
    monkeypatch.setattr(returns.authors, "is_within", lambda: True)
    assert not list(returns.ask(client, ["b"], "test.ping"))
    terminal.isatty = lambda: False
    assert not list(returns.ask(client, ["b"], "test.ping"))
    assert len(written) == 2


def test_the_silent_end_at_the_timeout(clock):
    client = Client({"a": "x", "b": {"ret": 1}, "c": ["return"]})
    assert not list(returns.ask(client, ["a", "b", "c"], "test.ping", timeout=60))
    assert 160 <= clock.now < 160.5
    assert client.reads < 15


def test_who_answers_at_the_last_moment_has_answered(clock):
    client = Client()
    found = returns.ask(client, ["a"], "test.ping", timeout=60)
    get_jid = client.get_jid

    def late(jid):
        if clock.now >= 160:
            client.cache["a"] = {"return": 1}
        return get_jid(jid)

    client.returners["local_cache.get_jid"] = late
    assert list(found) == [("a", {"return": 1})]


def test_reading_takes_a_part_of_the_time():
    client, clock = Client(), SimpleNamespace(now=0)
    job = returns.Job(client, ["a"], "f.x", timeout=600, clock=lambda: clock.now)
    get_jid = client.get_jid

    def slow(jid):
        clock.now += 5
        return get_jid(jid)

    client.returners["local_cache.get_jid"] = slow
    while not job.is_over():
        clock.now = job.due
        assert job.look() == {}
    assert client.reads * 5 <= 600 / returns.PART + 10


def test_no_job_for_nobody(clock):
    client = Client()
    client.run_job = lambda *_, **__: {}
    assert not list(returns.ask(client, ["a"], "test.ping"))


@pytest.mark.parametrize("error", (KeyError("x\ny"), OSError("x"), ValueError("x")))
def test_a_cache_that_can_not_be_read(error):
    client = Client()

    def fail(_):
        raise error

    client.returners["local_cache.get_jid"] = fail
    with pytest.raises(PackageStateError, match="can't be read: .*; see the option"):
        returns.read(client, "7")
    client.opts["ext_job_cache"] = "nosuch"
    with pytest.raises(PackageStateError, match="The job cache nosuch can't be read"):
        returns.read(client, "7")


@pytest.mark.parametrize(
    "said", ("x\x1b[2J\n" + "y" * 10**6, {}, [[[]]], None, b"\xff")
)
def test_a_problem_is_one_short_line(said):
    text = returns.problem({"return": said})
    assert text.isprintable() and len(text) <= 200


@pytest.fixture
def asked(monkeypatch, clock):
    """
    Let :mod:`answers` ask a client
    """
    client = Client()
    monkeypatch.setattr(salt.client, "get_local_client", lambda mopts: client)
    monkeypatch.setattr(store, "reading", lambda _: contextlib.nullcontext())
    fleet = SimpleNamespace(minion=lambda name: name)
    monkeypatch.setattr(answers, "Fleet", lambda *_: fleet)
    return client


@pytest.mark.parametrize(
    "answer, told",
    (
        (None, "no answer, it is busy or down"),
        ({"return": "no such function", "retcode": 254}, "no such function"),
        ({"return": {"x": 1}, "retcode": 1}, "dict"),
        ({"ret": {}, "retcode": 0}, "no answer, it is busy or down"),
    ),
)
def test_what_is_no_answer(asked, answer, told):
    asked.cache = {"web": answer, "liar": {"return": {}, "retcode": 0}}
    with pytest.raises(PackageStateError, match=f"did not answer f.x: {told}; see"):
        answers.ask({}, "web", "f.x")


def test_answers_of_the_job_cache(asked):
    asked.cache = {"web": {"return": {"a": ["1"]}, "retcode": 0}, "db": {"return": "x"}}
    assert answers.ask({}, "web", "f.x") == {"a": ["1"]}
