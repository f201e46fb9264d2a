# pylint: disable=protected-access
import pytest
import saltext.package_states.status.available as available

SETS = [frozenset("a"), frozenset("ab")]


@pytest.mark.parametrize(
    "manager, ordered",
    (
        # with Debian a circumflex is newer than a dot, with rpm it is older
        ("apt", ["1.0^git-1", "1.0.1-1"]),
        ("dnf", ["1.0.1-1", "1.0^git-1"]),
        ("zypper", ["1.0.1-1", "1.0^git-1"]),
    ),
)
def test_a_row_is_of_one_package_manager_and_in_its_order(manager, ordered):
    there = [["1.0^git-1", "1.0.1-1"], ["1.0.1-1", "3-1", "1.0^git-1"]]
    row = available._row("foo", manager, ["a", "b"], ["main", "new"], there, SETS)
    assert row == {
        "package": "foo",
        "manager": manager,
        "versions": ordered,
        "some": ["3-1"],
        "channels": ["main", "new"],
    }


def test_managers_are_asked_for_apart(monkeypatch):
    """
    What minions with apt have says nothing of what all of those with dnf can get
    """
    rows = [("apt", ["a b", "a"], 3), ("dnf", ["c"], 1)]
    monkeypatch.setattr(available.store, "ask", lambda *_: rows)
    assert available._sets(None, ["web"], None) == (
        {"apt": [frozenset("ab"), frozenset("a")], "dnf": [frozenset("c")]},
        4,
    )
