import pytest

from salt.job_criteria import Ledger


@pytest.fixture
def ledger():
    ret = Ledger()
    ret.charge("x", ["a", "b"], 2, 10)
    ret.charge("y", ["b"], 1, 20)
    return ret


def test_sums(ledger):
    assert (ledger.used, len(ledger)) == (5, 3)
    assert ledger.minions() == {"a": 2, "b": 3}
    assert ledger.jobs() == {"x": 2, "y": 1}
    assert ledger.of_job("x") == {"a", "b"}
    assert (ledger.of_minion("b"), ledger.of_minion("c")) == (3, 0)
    assert ("y", "b") in ledger and ("y", "a") not in ledger


def test_no_charge_counts_twice(ledger):
    assert ledger.charge("x", ["b", "c"], 2, 30) == 1
    assert ledger.used == 7


def test_nobody_charged_leaves_nothing(ledger):
    assert ledger.charge("z", [], 1, 10) == 0
    assert "z" not in ledger.jobs()


def test_released_once(ledger):
    assert ledger.release("x", "b")
    assert not ledger.release("x", "b")
    assert not ledger.release("nobody knows", "b")
    assert not ledger.release("x", "nobody knows")
    assert ledger.used == 3


def test_empty_after_all(ledger):
    ledger.release("x", "a")
    assert sorted(ledger.release_minion("b")) == ["x", "y"]
    assert ledger.release_minion("b") == []
    assert (ledger.used, len(ledger), ledger.minions(), ledger.jobs()) == (0, 0, {}, {})


def test_stale_and_renewed(ledger):
    assert ledger.stale(15) == {"a": ["x"], "b": ["x"]}
    ledger.renew("x", "a", 30)
    ledger.renew("x", "nobody", 30)
    # those of the same wave have not been renewed with it
    assert ledger.stale(15) == {"b": ["x"]}


def test_held(ledger):
    assert ledger.held(15) == ledger.used - 1
    ledger.renew("x", "a", 30)
    assert ledger.held(15) == 2
    assert ledger.held(5) == 0
    assert ledger.held(30) == ledger.used


def test_fractions_leave_nothing(ledger):
    for number in range(10):
        ledger.charge(f"f{number}", ["c"], 0.1, 10)
    for number in range(10):
        ledger.release(f"f{number}", "c")
    assert "c" not in ledger.minions()
    ledger.release_minion("a")
    ledger.release_minion("b")
    assert ledger.used == 0
