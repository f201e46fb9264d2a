from unittest.mock import patch  # pylint: disable=blacklisted-module

import pytest
import saltext.package_states.engines.pkgset as pkgset
import saltext.package_states.pkgset
from saltext.package_states.errors import InvalidInput, PackageStateError

import salt.utils.files
from salt.exceptions import SaltClientError


class Client:
    """
    A LocalClient that only writes down what it was asked
    """

    def __init__(self):
        self.jobs = []
        self.unknown = set()
        self.error = None

    def run_job(self, minions, fun, tgt_type, listen, timeout):
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
        wanted = {"window": 5, "batch": 200, "timeout": 60, "retries": 3, **options}
        self.waiting = pkgset.Waiting(**wanted)
        self.refresher = pkgset.Refresher(
            opts, self.waiting, self.client, clock=lambda: self.now
        )

    def change(self, minion):
        self.refresher.event(f"salt/beacon/{minion}/pkgset/changed", {"id": "liar"})

    def answer(self, minion, **data):
        data = {"id": minion, "return": {"foo": "1"}, "retcode": 0, **data}
        self.refresher.event(f"salt/job/{self.refresher.jid}/ret/{minion}", data)

    def wait(self, seconds):
        self.now += seconds
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

    with patch.object(saltext.package_states.pkgset, "store", store):
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
    for minion in minions:
        engine.change(minion)
    engine.wait(5)
    while engine.waiting.asked:
        jobs = len(engine.client.jobs)
        *most, last = engine.client.jobs[-1]
        for minion in most:
            engine.answer(minion)
        # nothing more as long as one is missing
        assert len(engine.wait(0)) == jobs
        engine.answer(last)
        engine.wait(0.001)
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
    engine.refresher.event("salt/job/99/ret/a", {"id": "a", "return": {}})
    assert not stored
    assert engine.waiting.asked == {"a"}


@pytest.mark.parametrize("name", ["..", "a\0b", ""])
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
    with patch.object(saltext.package_states.pkgset, "store", side_effect=error):
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
