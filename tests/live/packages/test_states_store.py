"""Package states in a real PostgreSQL: precedence, conflicts, history, two editors, files, hostile input."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg2
import pytest

from harness.database import sources
from harness.saltprocess.patched import Salt, patched
from tests.live.helpers.package_states import MINIONS, ORGANIZATIONS, States, uyuni

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.database import Postgres

pytestmark = [pytest.mark.live, pytest.mark.long]
# from low to high: how a state gets there, for the minion web
LEVELS = ("organization", "group", "grains", "minion", "own")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """Yield a server."""
    with sources.served(tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture(scope="module")
def salt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Salt]:
    """Yield the patched Salt, which has grains of the minions, and knows the package manager of web."""
    with patched(tmp_path_factory.mktemp("salt")) as found:
        for minion in MINIONS:
            found.act("grains", minion, {"role": "back"})
        found.act("grains", "web", {"role": "front", "os_family": "Debian", "osarch": "amd64"})
        yield found


@pytest.fixture(params=ORGANIZATIONS)
def states(server: Postgres, salt: Salt, tmp_path: Path, request: pytest.FixtureRequest) -> States:
    """Return an empty set of states, with minions from accepted keys, or from Uyuni's tables."""
    made = sources.make(server, f"states_{abs(hash(request.node.name))}")
    found = States(salt, made, tmp_path, request.param)
    if request.param == "database":
        uyuni(made)
    else:
        keys = tmp_path / "pki" / "minions"
        keys.mkdir(parents=True)
        for minion in MINIONS:
            (keys / minion).write_text("key")
    found.do("setup", uyuni=request.param == "database")
    assert found.do("setup")["applied"] == []
    return found


def _place(states: States, level: str, name: str, priority: int = 0) -> str:
    """Make a state that applies to the minion web on this level, and return its name."""
    name = "web" if level == "own" else name
    states.do("set", name=name)
    if level != "own":
        states.do("assign", name=name, kind=level, target=states.target(level), priority=priority)
    return name


def test_each_level_wins_over_the_lower_ones(states: States) -> None:
    """For all pairs of levels the higher one gives the verdict, and the lower one is named as overruled."""
    places = {level: _place(states, level, f"s-{level}") for level in LEVELS}
    pairs = list(combinations(LEVELS, 2))
    for number, (low, high) in enumerate(pairs):
        states.set(places[low], f"pkg{number}", "removed")
        states.set(places[high], f"pkg{number}", "latest")
    states.send("web", {})
    rows = {row["package"]: row for row in states.do("status", minion="web", table=False)["rows"]}
    assert len(rows) == len(pairs)
    for number, (low, high) in enumerate(pairs):
        row = rows[f"pkg{number}"]
        assert row["verdict"] == "latest"
        assert places[high] in row["source"]
        assert len(row["overruled"]) == 1
        assert places[low] in row["overruled"][0]


@pytest.mark.parametrize("level", LEVELS[:-1])
def test_a_conflict_of_equals_is_refused_at_saving(states: States, level: str) -> None:
    """Both sources are named, nothing is saved and no file changes; another priority settles it."""
    one, two = _place(states, level, "one-state"), _place(states, level, "two-state")
    states.set(one, "foo", "latest")
    before = states.files()
    error = states.refused("set", name=two, package="foo", wanted="removed")
    assert all(word in error for word in ("foo", "one-state", "two-state", "latest", "removed"))
    assert states.do("show", name=two)["revision"] == 0
    assert states.files() == before
    states.do("assign", name=two, kind=level, target=states.target(level), priority=1)
    states.set(two, "foo", "removed")
    # and taking the priority away again is the same conflict
    error = states.refused("assign", name=two, kind=level, target=states.target(level), priority=0)
    assert "one-state" in error


def test_a_conflict_is_found_in_a_group_without_minions(states: States) -> None:
    """States of one target conflict whoever its minions will be."""
    one, two = "one-state", "two-state"
    for name in (one, two):
        states.do("set", name=name)
        assert states.do("assign", name=name, kind="group", target="empty")["minions"] == []
    states.set(one, "foo", "latest")
    assert "one-state" in states.refused("set", name=two, package="foo", wanted="removed")


def test_history_only_grows(states: States) -> None:
    """The database refuses all but the next revision, also for its owner and with triggers off for replicas."""
    states.do("set", name="web")
    for version in ("1.0", "1.10", "2.0"):
        states.set("web", "foo", "installed", version)
    statements = (
        "UPDATE package_states.revision SET author = 'other'",
        "DELETE FROM package_states.revision",
        "TRUNCATE package_states.revision",
        "DELETE FROM package_states.state",
        "SET session_replication_role = replica; DELETE FROM package_states.revision",
        "INSERT INTO package_states.revision (state_id, number, contents, author, items) VALUES (1, 3, 3, 'x', '[]')",
        "INSERT INTO package_states.revision (state_id, number, contents, author, items) VALUES (1, 9, 9, 'x', '[]')",
    )
    for statement in statements:
        with pytest.raises(psycopg2.Error):
            states.database.run(statement)
    assert [entry["revision"] for entry in states.do("history", name="web")] == [1, 2, 3]


def test_diff_and_rollback(states: States) -> None:
    """Any two revisions can be compared; a rollback is a new one, whose files are the old ones byte for byte."""
    _place(states, "group", "front")
    files = [states.files()]
    states.set("front", "foo", "installed", ">=1.0")
    files.append(states.files())
    states.set("front", "bar", "removed")
    files.append(states.files())
    states.set("front", "foo", "latest")
    files.append(states.files())
    assert len({tuple(sorted(found.items())) for found in files}) == len(files)
    for old in range(4):
        for new in range(4):
            found = states.do("show", name="front", revision=new, against=old)["changes"]
            assert bool(found) == (old != new)
    assert states.do("show", name="front", revision=3, against=1)["changes"] == {
        "bar": {"old": None, "new": "removed"},
        "foo": {"old": "installed >=1.0", "new": "latest"},
    }
    for number in (1, 2, 3):
        assert states.do("restore", name="front", revision=number)["revision"] == 3 + number
        assert states.files() == files[number]
    saved = [entry for entry in states.do("history", name="front") if entry["change"] == "saved"]
    assert [entry["parent"] for entry in saved][3:] == [1, 2, 3]
    assert saved[2]["changes"] == {"foo": {"old": "installed >=1.0", "new": "latest"}}
    assert [entry["revision"] for entry in states.do("history", name="web") if "revision" in entry] == list(range(1, 7))
    assert states.do("restore", name="front", revision=0)["revision"] == 7
    assert states.do("show", name="front")["packages"] == {}
    # the same files for whoever compiles them anew
    before = states.files()
    assert states.do("refresh")["files"] == []
    assert states.files() == before


def test_two_editors(states: States) -> None:
    """The one who saw an old revision is told who saved which one; who saves without looking loses nothing."""
    states.do("set", name="front")
    states.do("set", name="front", package="foo", wanted="latest", author="ann", revision=0)
    error = states.refused("set", name="front", package="bar", wanted="latest", author="bob", revision=0)
    assert "ann" in error
    assert "revision 1" in error
    assert states.do("show", name="front")["packages"] == {"foo": "latest"}

    def save(number: int) -> None:
        with patched(states.root / f"salt{number}") as other:
            mine = States(other, states.database, states.root, states.registry)
            for package in range(5):
                mine.set("front", f"pkg{number}-{package}", "latest")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(save, range(2)))
    assert len(states.do("show", name="front")["packages"]) == 11
    assert [entry["revision"] for entry in states.do("history", name="front")] == list(range(1, 12))


def test_two_who_restore(states: States) -> None:
    """Whoever says what was seen undoes nothing of others; two at once are two revisions, and none is lost."""
    states.set("front", "foo", "latest")
    states.set("front", "bar", "latest")
    states.do("set", name="front", package="baz", wanted="latest", author="ann")
    error = states.refused("restore", name="front", revision=1, seen=2)
    assert all(word in error for word in ("ann", "at revision 3", "you saw 2", "give 3 in place of 2"))
    assert states.do("show", name="front")["revision"] == 3
    gone = {key: {"old": "latest", "new": None} for key in ("bar", "baz")}
    assert states.do("restore", name="front", revision=1, seen=3, dry_run=True)["changes"] == gone
    assert states.do("restore", name="front", revision=1, seen=3)["changes"] == gone

    def work(number: int) -> None:
        with patched(states.root / f"salt{number}") as other:
            mine = States(other, states.database, states.root, states.registry)
            for _ in range(5):
                if number:
                    mine.do("restore", name="front", revision=3)
                else:
                    mine.set("front", "more", "latest")
                    mine.do("unset", name="front", package="foo,more")
                    mine.set("front", "foo", "latest")

    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(work, number) for number in range(2)]
    errors = [str(future.exception()) for future in futures if future.exception()]
    # what the other one took out is an error, and no other entry goes with it
    assert all("has no entry" in error for error in errors)
    saved = states.do("history", name="front")
    assert [entry["revision"] for entry in saved] == list(range(1, len(saved) + 1))
    now: dict[str, str] = {}
    for entry in saved:
        for package, change in entry["changes"].items():
            assert now.pop(package, None) == change["old"]
            now |= {package: change["new"]} if change["new"] else {}
    assert states.do("show", name="front")["packages"] == now


def test_a_restore_assigns_all_that_the_deletion_took(states: States) -> None:
    """Assignments of each kind, with their priorities; what is gone meanwhile is named, and a conflict is one."""
    states.set("front", "foo", "latest")
    for level in LEVELS[:-1]:
        states.do("assign", name="front", kind=level, target=states.target(level), priority=3)
    states.do("assign", name="front", kind="minion", target="db")
    before = states.do("show", name="front")["assigned"]
    states.do("unset", name="front", delete=True)
    states.set("rival", "foo", "removed")
    states.do("assign", name="rival", kind="grains", target=states.target("grains"), priority=3)
    error = states.refused("restore", name="front", revision=1)
    assert all(word in error for word in ("foo", "front", "rival", "priority 3"))
    assert states.do("show", name="front")["assigned"] == []
    states.do("unset", name="rival", delete=True)
    if states.registry == "database":
        states.database.run("DELETE FROM suseMinionInfo WHERE minion_id = 'db'")
    else:
        (states.root / "pki" / "minions" / "db").unlink()
    back = states.by("ann").do("restore", name="front", revision=1, dry_run=True)
    assert sorted(f"{one} (priority 3)" for one in back["assigned"]) == sorted(set(before) - {"minion db (priority 0)"})
    assert back["gone"] == ["minion db"]
    assert states.by("ann").do("restore", name="front", revision=1)["gone"] == ["minion db"]
    shown = states.do("show", name="front")
    assert (sorted(shown["assigned"]), shown["author"]) == (sorted(set(before) - {"minion db (priority 0)"}), "ann")


def test_a_dry_run_says_on_how_many_minions_it_matters(states: States) -> None:
    """By what they sent last; who has what is wanted has nothing to change, and the silent are not known."""
    states.do("set", name="front", package="lib:i386", wanted="removed")
    states.do("assign", name="front", kind="group", target="b")
    states.do("assign", name="front", kind="minion", target="db")
    states.send("web", {"foo": {"versions": ["1.0"], "available": ["2.0"]}, "lib:i386": {"versions": ["1"]}})
    for version, what in (("=1.0", "its lock would be set"), ("=2.0", "installed =2.0; 1.0 is installed")):
        found = states.do("set", name="front", package="foo", wanted="installed", version=version, dry_run=True)
        assert found["counts"] == {"minions": 3, "to change": 1, "not known": 2}
        assert found["changing"] == {"web": {"foo": what}}
    found = states.do("set", name="front", package="foo", wanted="present", dry_run=True)
    assert found["counts"] == {"minions": 3, "to change": 0, "not known": 2}
    states.send("db", {"foo": {"versions": ["2.0"]}})
    found = states.do("set", name="front", package="foo", wanted="removed", version=">=2.0", dry_run=True)
    assert found["counts"] == {"minions": 3, "to change": 1, "not known": 1}
    assert found["changing"]["db"] == {"foo": "removed >=2.0; 2.0 is installed"}
    # any architecture is to go; what is wanted as before does not count
    found = states.do("set", name="front", package="lib", wanted="removed", dry_run=True)
    assert found["counts"] == {"minions": 3, "to change": 2, "not known": 1}
    assert found["changing"] == {"web": {"lib": "removed; 1 is installed"}, "db": {"lib": "its lock would be set"}}
    found = states.do("unset", name="front", package="lib:i386", dry_run=True)
    assert found["counts"] == {"minions": 3, "to change": 0, "not known": 1}
    assert "changing" not in states.set("front", "foo", "latest")


def test_import_export_and_upgrade(states: States) -> None:
    """What is installed becomes a consistent state; a file gives the same state; an upgrade keeps the policy."""
    versions = {"versions": ["1.0"], "available": ["1.0", "1.10", "2.0"], "candidate": "2.0", "orphan": False}
    states.send("web", {"foo": versions, "lone": {"versions": ["3:1"], "available": [], "orphan": True}})
    states.do("import", minion="web", packages="*")
    packages = {"foo": "installed =1.0", "lone": "kept =3:1"}
    assert states.do("show", name="web")["packages"] == packages
    assert states.do("status", minion="web", table=False)["consistent"] is True
    fleet = states.do("status", table=False)
    verdicts = {"consistent": 1, "drifting": 0, "pending": 0, "silent": 0, "never heard": 2}
    assert fleet["counts"] == {"minions": 3, **verdicts}
    rows = {row["minion"]: row for row in fleet["minions"]}
    assert (rows["web"]["verdict"], rows["web"]["managed"], rows["db"]["verdict"]) == ("consistent", 2, "never heard")
    path = str(states.root / "state.yaml")
    states.do("export", name="web", path=path)
    text = Path(path).read_text()
    states.do("load", text=text.replace("web:", "copy:"))
    assert states.do("show", name="copy")["packages"] == packages
    assert states.do("load", path=path)["states"] == {}

    states.set("web", "bar", "installed", "<2.0")
    states.set("web", "gone", "removed")
    states.send("web", {"foo": versions, "bar": versions, "gone": versions})
    states.do("set", name="web", package="*", wanted="upgrade")
    assert states.do("show", name="web")["packages"] == {
        "foo": "installed =2.0",
        "bar": "installed <2.0 (from 1.10 on)",
        "gone": "removed",
        "lone": "kept =3:1",
    }
    assert "takes no version" in states.refused("set", name="web", wanted="upgrade", package="foo", version="3.0")
    assert states.do("set", name="web", wanted="upgrade", package="foo")["changes"] == {}


def test_an_upgrade_goes_by_the_order_of_the_minions(states: States) -> None:
    """For rpm 1.0.1 is newer than 1.0^git1, which Debian's order has the other way round."""
    for minion in MINIONS:
        states.send(minion, {"foo": {"versions": [], "available": ["1.0.1", "1.0^git1"]}}, "zypper")
    states.set("web", "foo", "installed", "=1.0^git1")
    states.do("set", name="web", wanted="upgrade", package="foo")
    assert states.do("show", name="web")["packages"] == {"foo": "installed =1.0.1"}
    states.set("web", "foo", "installed", "=1.0.2")
    states.do("set", name="web", wanted="upgrade", package="foo")
    assert states.do("show", name="web")["packages"] == {"foo": "installed =1.0.2"}


def test_what_drifted_is_shown(states: States) -> None:
    """The table has package, version, condition, state, what is there, and where the verdict comes from."""
    _place(states, "group", "front")
    states.set("front", "foo", "installed", ">=2.0")
    states.set("front", "bar", "removed")
    states.set("front", "baz", "kept", "1.0")
    states.send("web", {"foo": {"versions": ["1.0"], "available": ["2.0"]}, "bar": {"versions": ["1"]}})
    table = states.do("status", minion="web")
    rows = [line.split("  ") for line in table.splitlines()]
    assert [[cell.strip() for cell in row if cell] for row in rows[1:4]] == [
        ["bar", "Absent", "1", "1 is installed", "group a: front"],
        ["baz", "1.0", "Equal", "Installed (kept)", "-", "it is not installed", "group a: front"],
        ["foo", "2.0", "More or equal", "Installed", "1.0", "1.0 is installed", "group a: front"],
    ]
    assert "\nweb is drifting: 3 of 3.\n" in table
    states.send("web", {"foo": {"versions": ["2.0"]}, "baz": {"versions": ["1.0"], "orphan": True}})
    assert "\nweb is consistent.\n" in states.do("status", minion="web")


def test_saving_compiles_what_depends_on_it(states: States) -> None:
    """Other files are not touched, and what one platform can't do refuses the save with the minion's name."""
    _place(states, "group", "front")
    _place(states, "own", "web")
    states.set("web", "foo", "latest")
    found = states.set("front", "bar", "latest")
    assert (found["minions"], found["files"], found["counts"]) == (["web"], ["front"], {"minions": 1, "files": 2})
    assert states.do("refresh")["files"] == []
    states.do("set", name="others")
    assert states.do("assign", name="others", kind="group", target="b")["minions"] == ["web", "web1.example.com"]
    states.send("web1.example.com", {}, "zypper")
    error = states.refused("set", name="others", package="foo", wanted="purged")
    assert "web1.example.com" in error
    assert "purge" in error
    assert states.do("show", name="others")["revision"] == 0


def test_hostile_input_reaches_no_table(states: States) -> None:
    """Whatever is refused leaves the tables alone, and what people may write freely is kept as it is."""
    states.do("set", name="front")
    bad = ("'; DROP TABLE package_states.state; --", "%s", "{{ 1 }}", "a\nb", "../x", "x\u0000", "$(id)")
    for text in bad:
        for arguments in (
            {"name": text, "package": "foo", "wanted": "latest"},
            {"name": "front", "package": text, "wanted": "latest"},
            {"name": "front", "package": "foo", "wanted": text},
            {"name": "front", "package": "foo", "wanted": "installed", "version": text},
            {"name": "front", "package": "foo", "wanted": "latest", "revision": text},
        ):
            assert "error" in states.answer("set", **arguments), arguments
        for function, arguments in (
            ("set", {"name": text}),
            ("show", {"name": text}),
            ("show", {"name": "front", "revision": text}),
            ("assign", {"name": "front", "kind": "group", "target": text}),
            ("assign", {"name": "front", "kind": text, "target": "a"}),
            ("status", {"minion": text}),
        ):
            assert "error" in states.answer(function, **arguments), arguments
    assert states.do("show") == {"front": {"own": False, "revision": 0, "packages": 0, "assigned": []}}
    free = "'; DROP TABLE x; -- {{ 1 }} %s \u00e9"
    states.do("set", name="front", package="foo", wanted="latest", comment=free, author=free)
    assert states.do("history", name="front")[0]["comment"] == free


def test_what_is_gone_can_be_unassigned(states: States) -> None:
    """A group that is there no more is shown as gone, applies to nobody, and can be taken away by its id."""
    _place(states, "group", "front")
    states.set("front", "foo", "latest")
    gone = "3"
    if states.registry == "database":
        states.database.run("DELETE FROM rhnServerGroup WHERE id = 3")
    else:
        gone = "old"
        states.database.run("UPDATE package_states.assignment SET target = 'old'")
    assert states.do("show", name="front")["assigned"] == [f"group {gone} (gone) (priority 0)"]
    states.send("web", {})
    assert states.do("status", minion="web", table=False)["rows"] == []
    # nobody knows who was in it, so files stay until somebody says so
    assert f"the group {gone} is gone" in states.do("refresh")["errors"]["web"]
    assert b"foo" in states.files()["packages-web.sls"]
    assert "is not assigned to group other" in states.refused("unassign", name="front", kind="group", target="other")
    assert states.do("unassign", name="front", kind="group", target=gone)["files"] == ["web"]
    assert states.do("show", name="front")["assigned"] == []
    assert b"foo" not in states.files()["packages-web.sls"]


def test_a_whole_set_goes_out_and_in(states: States) -> None:
    """Groups and organizations are there by name; the same text once more changes nothing."""
    for level in LEVELS:
        states.set(_place(states, level, f"s-{level}", 3 if level == "group" else 0), f"p-{level}", "latest")
    text = states.do("export")
    assert "- group: a\n      priority: 3\n" in text
    assert f"- organization: {ORGANIZATIONS[states.registry]}\n" in text
    before = states.files()
    found = states.do("load", text=text, prune=True)
    assert (found["states"], found["minions"], found["files"]) == ({}, [], [])
    assert states.files() == before
    found = states.do("load", text=text.replace("latest", "removed"))
    assert (set(found["states"]), "web" in found["minions"]) == ({"web", *(f"s-{one}" for one in LEVELS[:-1])}, True)
    assert states.do("refresh")["files"] == []
    gone = states.do("load", text="package_states: 1\nstates: {web: {packages: {}}}", prune=True)
    assert gone["states"]["s-group"]["unassigned"] == ["group a"]
    assert states.wanted("web") == {}
    assert "s-group" not in states.do("export")


def test_a_state_is_renamed_deleted_and_restored(states: States) -> None:
    """Its minions have the same entries under another name, then none; its history stays, and brings it back."""
    _place(states, "group", "front")
    states.set("front", "foo", "latest")
    assert states.do("set", name="front", rename="new")["minions"] == ["web"]
    assert (list(states.do("show")), states.wanted("web")["foo"]["source"]) == (["new"], "group a: new")
    assert not (states.root / "susemanager" / "state-front.sls").exists()
    assert "exists; take another name" in states.refused("set", name="new", rename="new")
    assert "name of a minion" in states.refused("set", name="new", rename="web")
    plan = states.do("unset", name="new", delete=True, dry_run=True)
    assert (plan["unassigned"], plan["minions"], list(states.do("show"))) == (["group a"], ["web"], ["new"])
    assert states.do("unset", name="new", delete=True)["files"] == ["new"]
    assert (states.do("show"), states.wanted("web")) == ({}, {})
    assert "no package state front; it is new now" in states.refused("restore", name="front", revision=1)
    back = states.do("restore", name="new", revision=1)
    assert (back["revision"], back["changes"]) == (3, {"foo": {"old": None, "new": "latest"}})
    assert (back["assigned"], states.wanted("web")["foo"]["source"]) == (["group a"], "group a: new")
    (renamed,) = (row for row in states.do("history", name="new") if row["change"] == "renamed")
    assert renamed["old"] == "front"
    assert states.do("restore", name="new", day="2999-01-01")["revision"] == 4
    assert "is no day" in states.refused("restore", name="new", day="20261124")
    # a state that was made later would be emptied without a word
    assert "had no revision by 2020-01-01" in states.refused("restore", name="new", day="2020-01-01")


def test_several_at_once(states: States) -> None:
    """Packages, states and targets, in one step each that happens or does not."""
    states.do("set", name="one", package="foo,bar", wanted="present")
    states.do("set", name="two", package=["baz"], wanted="latest")
    found = states.do("assign", name="one,two", kind="minion", target="web,db", priority=2)
    assert found["minions"] == ["db", "web"]
    assert states.do("show", name="two")["assigned"] == ["minion web (priority 2)", "minion db (priority 2)"]
    assert "no minion 'nobody'" in states.refused("assign", name="one", kind="minion", target="db,nobody", priority=7)
    assert states.do("show", name="one")["assigned"][1] == "minion db (priority 2)"
    states.do("unset", name="one", package="foo,bar")
    states.do("unassign", name="one,two", kind="minion", target="db")
    assert states.do("show", name="one")["assigned"] == ["minion web (priority 2)"]
    assert states.do("assign", name="one", kind="grain", target="role:a, b")["grains"] == "role:a, b"
