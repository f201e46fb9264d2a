import pytest
import saltext.package_states.model.item as items
from saltext.package_states.model.decision import Facts, decide

AVAILABLE = ("1.0", "1.2", "1.10", "2.0")


@pytest.mark.parametrize(
    "wanted,version,installed,expected",
    [
        ("installed", None, (), ("install", "2.0")),
        ("installed", None, ("1.0",), ("nothing", "1.0")),
        ("installed", "1.2", ("1.10",), ("install", "1.2")),
        ("installed", ">=1.0,<2.0", (), ("install", "1.10")),
        ("installed", ">=1.0,<2.0", ("2.0",), ("install", "1.10")),
        ("installed", "!=2.0", (), ("install", "1.10")),
        ("installed", "1.*", ("1.0",), ("nothing", "1.0")),
        ("installed", ">2.0", ("1.0",), ("impossible", "")),
        ("latest", None, ("1.0",), ("install", "2.0")),
        ("latest", None, ("2.0",), ("nothing", "2.0")),
        ("latest", None, ("3.0",), ("nothing", "3.0")),
        ("removed", None, ("1.0",), ("remove", "1.0")),
        ("removed", None, (), ("nothing", "")),
        ("removed", "<2.0", ("1.0",), ("remove", "1.0")),
        ("removed", "<2.0", ("2.0",), ("nothing", "2.0")),
        ("kept", None, ("1.0",), ("nothing", "1.0")),
        ("kept", None, (), ("impossible", "")),
        ("kept", "1.0", ("2.0",), ("install", "1.0")),
        ("kept", "0.1", ("2.0",), ("impossible", "")),
        ("unmanaged", None, ("2.0",), ("nothing", "2.0")),
    ],
)
def test_decisions(wanted, version, installed, expected):
    facts = Facts("apt", installed, AVAILABLE, "2.0")
    assert decide(items.make("foo", wanted, version), facts)[:2] == expected


def test_the_floor_counts():
    item = items.make("foo", "installed", "<2.0", "1.10")
    assert decide(item, Facts("apt", ("1.2",), AVAILABLE, "2.0"))[:2] == (
        "install",
        "1.10",
    )


def test_an_epoch_is_not_left_out():
    facts = Facts("apt", ("1:0.5",), ("0.5", "1:0.5"), "1:0.5")
    assert decide(items.make("foo", "installed", "0.5"), facts)[:2] == (
        "install",
        "0.5",
    )


def test_an_orphan_is_the_latest_of_its_kind():
    assert (
        decide(items.make("foo", "latest"), Facts("apt", ("1",), (), ""))[0]
        == "nothing"
    )


def test_purged_and_configuration():
    facts = Facts("apt", (), (), "", configured=True)
    assert decide(items.make("foo", "purged"), facts)[0] == "remove"
    assert decide(items.make("foo", "removed"), facts)[0] == "nothing"


def test_a_missing_package_is_named():
    decision = decide(items.make("foo", "latest"), Facts("apt"))
    assert decision.action == "impossible"
    assert "foo" in decision.reason
