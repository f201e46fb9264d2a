from unittest.mock import patch  # pylint: disable=blacklisted-module

import pytest
import saltext.package_states.engines.pkgset as pkgset
import saltext.package_states.master.lists
from saltext.package_states.errors import InvalidInput, PackageStateError

import salt.utils.files
from salt.exceptions import SaltClientError


class Everybody:
    """
    The keys of all minions of which there is an event
    """

    def __iter__(self):
        return iter(("a", "b", "c", "x", *(f"m{one}" for one in range(10000))))


class Client:
    """
    A LocalClient that only writes down what it was asked
    """

    def __init__(self):
        self.opts = {"master_job_cache": "local_cache"}
        self.returners = {"local_cache.get_jid": self.get_jid}
        self.jobs = []
        self.cache = {}
        self.unknown = set()
        self.error = None
        self.keys = None
        self.reads = 0
        self.listed = 0

    def gather_minions(self, tgt, tgt_type):
        assert (tgt, tgt_type) == ("*", "glob")
        self.listed += 1
        return Everybody() if self.keys is None else list(self.keys)

    def get_jid(self, jid):
        self.reads += 1
        return self.cache.get(jid, {})

    def run_job(self, minions, fun, arg, tgt_type, listen, timeout):
        if self.error:
            raise self.error  # pylint: disable=raising-bad-type
        assert (tgt_type, listen) == ("list", False)
        self.jobs.append(list(minions))
        return {
            "jid": str(len(self.jobs)),
            "minions": [one for one in minions if one not in self.unknown],
        }


class Engine:
    """
    The engine's parts with a clock that stands still until it is set
    """

    def __init__(self, opts, **options):
        self.now = 1000.0
        self.client = Client()
        wanted = {"window": 5, "batch": 200, "timeout": 60, "retries": 3, "rest": 0}
        wanted.update(options)
        self.waiting = pkgset.Waiting(**wanted)
        self.refresher = pkgset.Refresher(
            opts, self.waiting, self.client, clock=lambda: self.now
        )

    def change(self, *minions):
        for minion in minions:
            self.refresher.event(f"salt/beacon/{minion}/pkgset/changed")
        self.refresher.sort_at = 0
        self.refresher.sort(self.now)

    def answer(self, minion, **data):
        data = {"return": {"foo": "1"}, "retcode": 0, **data}
        job = self.refresher.job
        self.client.cache.setdefault(job.jid, {})[minion] = data
        job.due = self.now
        self.refresher.answers()

    def wait(self, seconds):
        self.now += seconds
        self.refresher.sort_at = 0
        self.refresher.tick()
        return self.client.jobs


@pytest.fixture
def opts(master_opts, tmp_path):
    return {**master_opts, "cachedir": str(tmp_path), "pki_dir": str(tmp_path)}


@pytest.fixture
def engine(opts):
    return Engine(opts)


@pytest.fixture(autouse=True)
def stored():
    found = []

    def store(opts, minion, packages):
        found.append((minion, packages))

    with patch.object(saltext.package_states.master.lists, "store", store):
        yield found


def test_minions_of_a_window_are_one_job(engine, stored):
    for minion in ("a", "b", "a", "a"):
        engine.change(minion)
        engine.wait(1)
    assert engine.client.jobs == []
    assert engine.wait(2) == [["a", "b"]]
    engine.answer("b")
    engine.answer("a")
    assert stored == [("b", {"foo": "1"}), ("a", {"foo": "1"})]
    assert len(engine.wait(1000)) == 1


def test_ten_thousand_are_batches_one_after_the_other(engine, stored):
    minions = [f"m{number}" for number in range(10000)]
    engine.change(*minions)
    engine.wait(5)
    while engine.waiting.asked:
        jobs = len(engine.client.jobs)
        *most, last = engine.client.jobs[-1]
        for minion in most:
            engine.answer(minion)
        # nothing more as long as one is missing
        assert len(engine.wait(0)) == jobs
        engine.answer(last)
        # nor within the window
        assert len(engine.wait(4)) == jobs
        engine.wait(1)
    assert [len(job) for job in engine.client.jobs] == [200] * 50
    assert sorted(minion for minion, _ in stored) == sorted(minions)


def test_minion_that_changes_while_it_is_asked_is_asked_again(engine, stored):
    engine.change("a")
    engine.wait(5)
    engine.change("a")
    engine.answer("a")
    assert engine.wait(5) == [["a"], ["a"]]
    assert len(stored) == 1


def test_silent_minion_is_asked_again_and_given_up(engine, caplog):
    engine.change("a")
    engine.wait(5)
    asked = []
    while "salt-run pkgset.refresh a" not in caplog.text:
        before = len(engine.client.jobs)
        if len(engine.wait(10)) > before:
            asked.append(engine.now)
    assert engine.client.jobs == [["a"]] * 4
    waits = [later - earlier for earlier, later in zip(asked, asked[1:])]
    assert waits == sorted(waits)
    assert not engine.waiting.names()


def test_silent_minion_does_not_keep_others_waiting(engine, stored):
    engine.change("a")
    engine.change("b")
    engine.wait(5)
    engine.answer("b")
    engine.change("c")
    engine.wait(60)
    engine.wait(0)
    assert engine.client.jobs[-1] == ["c"]


@pytest.mark.parametrize(
    "data", [{"return": "no such function"}, {"return": None}, {"retcode": 1}]
)
def test_answer_of_no_use_is_not_stored(engine, stored, data):
    engine.change("a")
    engine.wait(5)
    engine.answer("a", **data)
    assert not stored
    engine.wait(60)
    engine.answer("a")
    assert stored == [("a", {"foo": "1"})]


def test_answers_that_nobody_asked_for_are_not_stored(engine, stored):
    engine.change("a")
    engine.wait(5)
    engine.answer("b")
    engine.client.cache["99"] = {"a": {"return": {"foo": "1"}}}
    engine.wait(1)
    assert not stored
    assert engine.waiting.asked == {"a"}


def test_an_event_is_no_answer(engine, stored):
    """
    A minion may fire that of another one, and knows the id of its own job
    """
    engine.change("a")
    engine.wait(5)
    engine.refresher.event(f"salt/job/{engine.refresher.job.jid}/ret/a")
    engine.wait(30)
    assert not stored and engine.waiting.asked == {"a"}


@pytest.mark.parametrize("data", (None, 7, "x", [], {}, {"ret": 1}))
def test_what_is_no_return_in_the_job_cache(engine, stored, data):
    engine.change("a")
    engine.wait(5)
    job = engine.refresher.job
    engine.client.cache[job.jid] = {"a": data}
    engine.wait(30)
    engine.client.cache[job.jid] = data
    engine.wait(29)
    assert not stored and engine.waiting.asked == {"a"}


def test_a_job_cache_that_can_not_be_read(engine, stored, caplog):
    engine.change("a")
    engine.wait(5)
    engine.client.returners.clear()
    engine.wait(1)
    assert (
        "The job cache local_cache can't be read: 'local_cache.get_jid'" in caplog.text
    )
    engine.client.returners["local_cache.get_jid"] = engine.client.get_jid
    engine.answer("a")
    assert stored == [("a", {"foo": "1"})]


def test_the_job_cache_is_not_read_all_the_time(engine):
    engine.change("a")
    engine.wait(5)
    for _ in range(118):
        engine.wait(0.5)
    assert engine.waiting.asked == {"a"}
    engine.wait(1)
    assert not engine.waiting.asked
    assert engine.client.reads <= 12


def test_a_minion_that_fires_in_the_name_of_all_others(opts):
    """
    There is one batch in each window, and each minion has its rest
    """
    engine = Engine(opts, batch=3, window=5, rest=60)
    engine.client.keys = [f"m{number}" for number in range(9)]
    asked = {name: [] for name in engine.client.keys}
    begun = []
    for _ in range(600):
        for name in engine.client.keys:
            engine.refresher.event(f"salt/beacon/{name}/pkgset/changed")
        jobs = len(engine.client.jobs)
        if len(engine.wait(0.5)) > jobs:
            begun.append(engine.now)
            for name in engine.client.jobs[-1]:
                asked[name].append(engine.now)
                engine.answer(name)
    assert all(len(times) >= 4 for times in asked.values())
    for times in asked.values():
        assert all(two - one >= 60 for one, two in zip(times, times[1:]))
    assert all(two - one >= 5 for one, two in zip(begun, begun[1:]))


def test_ids_of_no_minion_are_not_kept(engine):
    engine.client.keys = ["a"]
    for number in range(pkgset.returns.HINTS + 1000):
        engine.refresher.event(f"salt/beacon/forged{number}/pkgset/changed")
    engine.refresher.event(f"salt/beacon/{'x' * 10**6}/pkgset/changed")
    assert len(engine.refresher.hints) == pkgset.returns.HINTS
    engine.wait(0)
    assert not engine.refresher.hints and not engine.waiting.names()
    assert engine.client.listed == 1
    engine.change("a")
    assert engine.waiting.names() == ["a"]


class Bus:
    """
    A bus on which a minion has put something
    """

    def __init__(self, found):
        self.found = found

    def get_event(self, wait, full, auto_reconnect):
        assert full and auto_reconnect
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


HOSTILE = (
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"),
    ValueError("x"),
    None,
    {},
    {"tag": None, "data": {}},
    {"tag": b"\xff", "data": {}},
    {"tag": ["a"], "data": {}},
)


@pytest.mark.parametrize("found", HOSTILE, ids=range(len(HOSTILE)))
def test_what_is_no_event(found):
    assert pkgset.returns.event(Bus(found), 1) is None


@pytest.mark.parametrize("data", (None, [], "x", 1, [{"id": "a"}]))
def test_data_of_an_event_are_a_dictionary(data):
    assert pkgset.returns.event(Bus({"tag": "t", "data": data}), 1) == ("t", {})


@pytest.mark.parametrize("name", ["..", "a\0b", "", "\ud800", "a/b"])
def test_names_that_are_none(engine, name):
    engine.change(name)
    assert engine.wait(5) == []


def test_minion_without_a_key_is_not_asked_again(engine):
    engine.client.unknown = {"x"}
    engine.change("x")
    engine.change("a")
    engine.wait(5)
    assert engine.waiting.asked == {"a"}
    assert engine.waiting.names() == ["a"]


def test_master_that_can_not_publish(engine):
    engine.client.error = SaltClientError("busy")
    engine.change("a")
    assert engine.wait(5) == []
    engine.client.error = None
    assert engine.wait(60) == [["a"]]


@pytest.mark.parametrize(
    "error, again",
    [
        (InvalidInput("x"), 0),
        (PackageStateError("PostgreSQL says: it is shutting down"), 1),
        (OSError("x"), 1),
    ],
)
def test_store_that_fails(engine, error, again):
    """
    what the minion is at fault for won't be better, a database that is away will
    """
    engine.change("a")
    engine.wait(5)
    with patch.object(saltext.package_states.master.lists, "store", side_effect=error):
        engine.answer("a")
    assert len(engine.wait(60)) == 1 + again


def test_no_minion_is_forgotten_when_the_engine_ends(engine, opts):
    engine.change("a")
    engine.wait(5)
    engine.change("b")
    engine.wait(0)
    later = Engine(opts)
    later.refresher.load()
    assert later.wait(5) == [["a", "b"]]
    later.answer("a")
    later.answer("b")
    later.wait(0)
    last = Engine(opts)
    last.refresher.load()
    assert last.wait(5) == []


@pytest.mark.parametrize("text", ["", "{", "3", '{"a": 1}', "[1, null]"])
def test_list_of_waiting_minions_is_not_readable(engine, opts, text):
    engine.change("a")
    engine.wait(0)
    with salt.utils.files.fopen(engine.refresher.place, "w") as fh_:
        fh_.write(text)
    later = Engine(opts)
    later.refresher.load()
    later.change("b")
    assert later.wait(5)[0][-1] == "b"


@pytest.mark.parametrize("kind", ("changed", "own"))
def test_a_change_makes_the_status_pending(kind, monkeypatch, tmp_path):
    """
    Until the minion has sent its packages, whoever has changed them; and so it stays if it
    never does
    """
    marked = []
    monkeypatch.setattr(
        saltext.package_states.master.lists,
        "mark",
        lambda opts, minions, why: marked.append((sorted(minions), why)),
    )
    client = Client()
    client.keys = ["web"]
    waiting = pkgset.Waiting(5, 10, 60, 0)
    refresher = pkgset.Refresher({"cachedir": str(tmp_path)}, waiting, client)
    for name in ("web", "other"):
        refresher.event(f"salt/beacon/{name}/pkgset/{kind}")
    refresher.sort(100)
    assert marked == [(["web"], "its packages have changed since")]
    assert list(waiting.due) == ["web"]
    assert waiting.take(200) == ["web"]
    refresher.fail("web", "it has not answered")
    assert marked[-1] == (["web"], "it was asked in vain: it has not answered")
