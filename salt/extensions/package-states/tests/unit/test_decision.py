import pytest
import saltext.package_states.model.item as items
import saltext.package_states.model.resolver as resolver
import saltext.package_states.status.rows as status_rows
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


def test_what_is_not_locked_and_what_is_half_installed(source):
    """
    What a lock that is wanted does not keep yet is named, and so is a lock that nothing wants
    """
    rows = (
        *(
            ("aa", "installed"),
            ("bb", "removed"),
            ("cc", "removed", "<2"),
            ("dd", "present"),
        ),
        *(
            ("ee", "kept"),
            ("ff", "installed", "=2"),
            ("gg", "latest"),
            ("hh", "installed"),
        ),
    )
    verdicts = resolver.resolve([source("s", resolver.GROUP, *rows)])
    there = {"versions": ["1"], "available": ["1", "2"], "candidate": ""}
    packages = {key: dict(there) for key in ("aa", "dd", "ee", "ff", "gg", "hh", "ii")}
    packages["hh"]["broken"] = True
    for key in ("ee", "ii"):
        packages[key]["held"] = True
    found = status_rows.rows(verdicts, "apt", packages)
    wrong = {row.package: row.reason for row in found if not row.consistent}
    # a candidate that is pinned away is none
    assert wrong == {"ff": "1 is installed", "hh": "1 is only half installed"}
    assert status_rows.holds(verdicts, packages, found) == (["ii"], ["aa", "bb"])
