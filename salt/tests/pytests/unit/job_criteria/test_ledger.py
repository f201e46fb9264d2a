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


def test_nothing_is_kept_of_what_is_not_charged(ledger):
    """
    A job that is left out by all of its minions, once a second for a day, must not make
    each later decision dearer.
    """
    for second in range(100):
        ledger.charge("z", [], 1, second)
        ledger.charge("x", ["a"], 2, second)
    assert len(ledger._held) == 2  # pylint: disable=protected-access


def test_minion_that_is_named_twice_is_charged_once(ledger):
    """
    As by ``salt -L c,c``: what is charged twice comes back once, so that nothing reaches
    this minion any more after some of them.
    """
    assert ledger.charge("z", ["c", "c"], 1, 10) == 1
    assert (ledger.used, ledger.of_minion("c")) == (6, 1)
    ledger.release("z", "c")
    assert (ledger.used, ledger.of_minion("c")) == (5, 0)


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
    assert ledger.held(5) == 0
    assert ledger.held(30) == ledger.used


def test_what_takes_long_goes_on_being_held(ledger):
    """
    A minion that says that it still runs a job of minutes won't return it soon.
    """
    ledger.renew("x", "a", 30)
    ledger.renew("x", "a", 90)
    # it has had this one for a moment only
    ledger.renew("y", "b", 22)
    assert ledger.long == 2
    assert ledger.is_long("x", "a") and not ledger.is_long("y", "b")
    assert (ledger.held(5), ledger.held(15), ledger.held(30)) == (2, 4, 5)
    ledger.renew("x", "a", 95, begins=True)
    assert (ledger.long, ledger.held(94), ledger.held(95)) == (0, 3, 5)
    ledger.renew("x", "a", 101)
    ledger.release("x", "a")
    assert (ledger.long, ledger.held(101)) == (0, 3)


def test_fractions_leave_nothing(ledger):
    for number in range(10):
        ledger.charge(f"f{number}", ["c"], 0.1, 10)
    for number in range(10):
        ledger.release(f"f{number}", "c")
    assert "c" not in ledger.minions()
    ledger.release_minion("a")
    ledger.release_minion("b")
    assert ledger.used == 0
