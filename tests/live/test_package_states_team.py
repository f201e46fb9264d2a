"""A team's package states: stages, approval by another person, generations of a minion; nothing goes round them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg2
import pytest

from harness.database import scratch
from harness.saltprocess.patched import Salt, patched
from tests.live.test_package_states_store import NODEGROUPS, States

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.database.postgres import Postgres

pytestmark = [pytest.mark.live, pytest.mark.long]
STAGES = ["dev", "test", "prod"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """Yield a server."""
    with scratch.served(tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture(scope="module")
def salt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Salt]:
    """Yield the patched Salt."""
    with patched(tmp_path_factory.mktemp("salt")) as found:
        for minion in ("web", "web1.example.com", "db"):
            found.act("grains", minion, {"os_family": "Debian", "osarch": "amd64", "role": "front"})
        yield found


@pytest.fixture
def states(server: Postgres, salt: Salt, tmp_path: Path, request: pytest.FixtureRequest) -> States:
    """Return an empty set of states with three minions: web is in the groups a and b, web1.example.com in b."""
    made = scratch.make(server, f"team_{abs(hash(request.node.name))}")
    found = States(salt, made, tmp_path, "keys", "ann")
    keys = tmp_path / "pki" / "minions"
    keys.mkdir(parents=True)
    for minion in ("web", "web1.example.com", "db"):
        (keys / minion).write_text(f"key of {minion}")
    found.do("setup")
    return found


def _packages(states: States, minion: str) -> dict[str, str]:
    """Return what is wanted of a minion, after a check that its file says so."""
    found = states.do("verdicts", minion=minion)
    assert found["current"] is True
    return {key: row["wanted"] for key, row in found["packages"].items()}


def _staged(states: States) -> None:
    """Have stages; the state front follows dev for the minion db, and prod for the group b."""
    assert states.do("stages", wanted="dev,test,prod") == STAGES
    states.do("create", name="front")
    states.do("assign", name="front", kind="minion", target="db")
    asked = states.do("assign", name="front", kind="group", target="b", stage="prod", comment="the real ones")
    states.by("bob").do("approve", request=asked["request"])


def test_without_stages_everything_is_as_before(states: States) -> None:
    """No field, no file and no command is different, and what needs stages says that there are none."""
    states.do("create", name="front")
    found = states.do("assign", name="front", kind="group", target="b")
    assert set(found) == {"state", "group", "minions", "files"}
    assert set(states.set("front", "foo", "latest")) == {"state", "revision", "changes", "minions", "files"}
    assert "stages" not in states.do("show", name="front")
    assert "stage" not in states.do("verdicts", minion="web")
    assert states.do("stages") == []
    for function, more in (("promote", {}), ("rollback", {"revision": 1}), ("show", {})):
        assert "this site has none" in states.refused(function, name="front", stage="prod", **more)
    assert "this site has none" in states.refused("assign", name="front", kind="group", target="b", stage="prod")


def test_a_revision_goes_from_stage_to_stage(states: States) -> None:
    """The first has the newest, the last what another person approved; a rollback gives the old files back."""
    _staged(states)
    states.set("front", "foo", "installed", "=1.0")
    assert _packages(states, "db") == {"foo": "installed =1.0"}
    assert _packages(states, "web") == {}
    assert [states.do("verdicts", minion=one)["stage"] for one in ("db", "web")] == ["dev", "prod"]
    assert "not there in test" in states.refused("promote", name="front", stage="prod").replace(
        "There is no front in test", "not there in test"
    )
    assert states.do("promote", name="front", stage="test")["minions"] == []
    asked = states.do("promote", name="front", stage="prod", comment="tested")
    assert (asked["waits for"], asked["minions"]) == ("approval", [])
    # asked twice is one request
    assert states.do("promote", name="front", stage="prod")["request"] == asked["request"]
    assert _packages(states, "web") == {}
    (waiting,) = states.do("requests")
    assert waiting["asks"] == "promote front revision 1 to prod"
    assert waiting["changes"] == {"foo": {"old": None, "new": "installed =1.0"}}
    assert "another person" in states.refused("approve", request=asked["request"])
    plan = states.by("bob").do("approve", request=asked["request"], dry_run=True)
    assert plan["minions"] == ["web", "web1.example.com"]
    assert _packages(states, "web") == {}
    done = states.by("bob").do("approve", request=asked["request"], comment="looks good")
    assert done["files"] == ["front", "web", "web1.example.com"]
    assert _packages(states, "web") == {"foo": "installed =1.0"}
    old = states.files()

    states.set("front", "foo", "latest")
    assert _packages(states, "web") == {"foo": "installed =1.0"}
    states.do("promote", name="front", stage="test")
    number = states.do("promote", name="front", stage="prod")["request"]
    states.by("bob").do("approve", request=number)
    assert _packages(states, "web") == {"foo": "latest"}
    assert states.do("show", name="front")["stages"] == {"dev": 2, "test": 2, "prod": 2}

    back = states.do("rollback", name="front", revision=1, stage="prod")
    assert back["minions"] == ["web", "web1.example.com"]
    new = states.files()
    for minion in ("web", "web1.example.com"):
        assert new[f"packages-{minion}.sls"] == old[f"packages-{minion}.sls"]
    assert states.do("show", name="front", stage="prod")["packages"] == {"foo": "installed =1.0"}
    assert states.do("list")["front"]["stages"] == {"dev": 2, "test": 2, "prod": 1}
    told = states.do("promotion_history", name="front")
    assert [(row["stage"], row["revision"]) for row in told["promotions"]] == [
        ("test", 1),
        ("prod", 1),
        ("test", 2),
        ("prod", 2),
        ("prod", 1),
    ]
    assert [row["decision"] for row in told["requests"]] == ["approved"] * 3
    assert told["requests"][1]["reason"] == "looks good"
    before = states.files()
    assert states.do("compile")["files"] == []
    assert states.files() == before


@pytest.mark.parametrize("caller", ["root", "sudo_ann", "ANN", "ann for bob", "UNKNOWN", "Reactor", "carol"])
def test_who_may_not_approve(states: States, caller: str) -> None:
    """Neither who asked, under whatever name, nor an author of what is new, nor nobody; another person may."""
    _staged(states)
    author = {"root": "root", "carol": "carol"}.get(caller, "ann")
    states.by(author).do("set", name="front", package="foo", wanted="latest", author="bob")
    states.by("ann").do("set", name="front", package="bar", wanted="latest")
    states.do("promote", name="front", stage="test")
    number = states.do("promote", name="front", stage="prod")["request"]
    error = states.by(caller).refused("approve", request=number)
    assert "erson" in error
    assert _packages(states, "web") == {}
    states.by("dora").do("approve", request=number)
    assert set(_packages(states, "web")) == {"foo", "bar"}


def test_what_nobody_saved_can_not_be_approved(states: States) -> None:
    """A revision of an orchestration or a reactor has no author, so there is no other person."""
    _staged(states)
    states.by("UNKNOWN").do("set", name="front", package="foo", wanted="latest")
    states.do("promote", name="front", stage="test")
    number = states.do("promote", name="front", stage="prod")["request"]
    assert "authors of what is new" in states.by("bob").refused("approve", request=number)
    # somebody takes it as theirs
    states.do("rollback", name="front", revision=0)
    states.do("rollback", name="front", revision=1)


def _calls(states: States, text: str) -> dict[str, dict[str, Any]]:
    """Return the calls by which somebody may try to get a revision into prod."""
    front = {"name": "front"}
    return {
        "set": {**front, "package": "evil", "wanted": "latest", "author": "bob"},
        "set_many": {**front, "packages": [{"package": "evil", "wanted": "latest"}], "author": "bob"},
        "import_file": {**front, "path": str(states.root / "evil.json")},
        "import_installed": {"minion": "web", "name": "front"},
        "rollback": {**front, "revision": 2, "stage": "prod"},
        "rollback ": {**front, "revision": 2},
        "promote": {**front, "stage": "test", "revision": 2, "author": "bob"},
        "promote ": {**front, "stage": "prod", "revision": 2, "author": "bob"},
        "assign": {**front, "kind": "group", "target": "b", "stage": "dev"},
        "assign ": {**front, "kind": "group", "target": "b", "stage": None},
        "assign  ": {**front, "kind": "minion", "target": "web", "stage": "prod"},
        "assign   ": {**front, "kind": "minion", "target": "web", "priority": 99},
        "assign    ": {**front, "kind": "grains", "target": "role:front", "stage": "prod"},
        "assign     ": {"name": "evil", "kind": "group", "target": "b", "stage": "test", "priority": 5},
        "unassign": {**front, "kind": "group", "target": "b"},
        "stages": {"wanted": []},
        "stages ": {"wanted": "dev,test"},
        "stages  ": {"wanted": "dev,prod,test"},
        "stages   ": {"wanted": "prod,dev"},
        "approve": {"request": 1},
        "approve ": {"request": 2},
        "set ": {"name": "web", "package": "evil", "wanted": "latest"},
        "upgrade": {**front, "package": "evil", "version": "2.0"},
        "restore": {"minion": "web", "generation": 1},
        "restore ": {"minion": "db", "generation": 1},
        "apply": {"text": text},
        "compile": {},
    }


@pytest.mark.parametrize("caller", ["ann", "bob", "root", "UNKNOWN"])
def test_no_call_of_one_person_brings_a_revision_to_prod(states: States, caller: str) -> None:
    """Whatever one person calls, in any order, twice: what prod has stays as another person approved it."""
    _staged(states)
    one = states.by(caller)
    states.do("set", name="front", package="foo", wanted="latest")
    states.do("promote", name="front", stage="test")
    states.by("bob").do("approve", request=states.do("promote", name="front", stage="prod")["request"])
    states.do("create", name="evil")
    one.set("evil", "evil", "latest")
    one.do("set", name="front", package="evil", wanted="installed", version="=1.0")
    (states.root / "evil.json").write_text(
        '{"format": "salt package state 1", "packages": [{"package": "evil", "wanted": "latest"}]}'
    )
    states.send("web", {"evil": {"versions": ["1"], "available": ["1"]}})
    calls = _calls(states, states.do("export").replace("foo", "evil"))
    before = {name: states.files()[f"packages-{name}.sls"] for name in ("web", "web1.example.com")}
    for function, arguments in [*calls.items(), *calls.items()]:
        found = one.answer(function.strip(), **arguments)
        now = {name: states.files()[f"packages-{name}.sls"] for name in before}
        assert now == before, (function, arguments, found)
    assert states.do("compile")["files"] == []
    # there was something to approve, if anybody asked for it
    assert (len(states.do("requests")) >= 3) is (caller != "UNKNOWN")


def test_no_statement_brings_a_revision_to_prod(states: States) -> None:
    """The tables refuse it as well, whoever writes to them."""
    _staged(states)
    asked = states.do("assign", name="front", kind="minion", target="web", stage="prod")
    states.by("bob").do("approve", request=asked["request"])
    states.do("set", name="front", package="foo", wanted="latest")
    states.do("promote", name="front", stage="test")
    states.by("bob").do("approve", request=states.do("promote", name="front", stage="prod")["request"])
    states.do("set", name="front", package="evil", wanted="latest")
    promote = "INSERT INTO package_states.promotion (state_id, stage, revision, author) VALUES (1, '{}', 2, 'x')"
    approve = (
        "INSERT INTO package_states.request (state_id, action, stage, revision, author)"
        " VALUES (1, 'promote', 'prod', 2, '{}');"
        "INSERT INTO package_states.decision (request_id, approved, author)"
        " SELECT max(id), TRUE, 'ann' FROM package_states.request"
    )
    prod = promote.format("prod")
    statements = (
        prod,
        promote.format("dev"),
        "UPDATE package_states.promotion SET revision = 2",
        "DELETE FROM package_states.promotion",
        "TRUNCATE package_states.promotion, package_states.decision, package_states.request",
        approve.format("ann"),
        approve.format("bob"),
        "UPDATE package_states.assignment SET stage = NULL WHERE stage = 'prod'",
        "UPDATE package_states.assignment SET state_id = 2 WHERE stage = 'prod'",
        "DELETE FROM package_states.assignment WHERE stage = 'prod'",
        "TRUNCATE package_states.assignment",
        "DELETE FROM package_states.stage",
        "DELETE FROM package_states.stage WHERE name = 'prod'",
        "UPDATE package_states.stage SET name = 'other' WHERE name = 'prod'",
        "TRUNCATE package_states.stage",
        "DELETE FROM package_states.final_minion",
        "UPDATE package_states.final_minion SET minion_id = 'x' WHERE minion_id = 'web'",
        "TRUNCATE package_states.final_minion",
        "UPDATE package_states.state SET name = 'web'",
        "UPDATE package_states.state SET name = 'web', own = TRUE",
        "UPDATE package_states.state SET own = TRUE",
        "UPDATE package_states.assignment SET target = 'db' WHERE kind = 'minion' AND stage = 'prod'",
        f"SET session_replication_role = replica; {prod}",
    )
    for statement in statements:
        with pytest.raises(psycopg2.Error):
            states.database.run(statement)
    states.do("compile")
    assert _packages(states, "web") == {"foo": "latest"}


def test_leaving_prod_needs_another_person_too(states: States) -> None:
    """Whoever unassigns or changes what follows the last stage asks for it; an approval counts once."""
    _staged(states)
    states.do("set", name="front", package="foo", wanted="latest")
    number = states.do("unassign", name="front", kind="group", target="b", comment="no more")["request"]
    assert "no such" in states.refused("reject", request="x").replace("No request", "no such")
    assert states.by("bob").do("reject", request=number, comment="why?")["rejected"]
    assert "No request" in states.by("bob").refused("approve", request=number)
    number = states.do("unassign", name="front", kind="group", target="b")["request"]
    states.by("bob").do("approve", request=number)
    assert states.do("show", name="front")["assigned"] == ["minion db (priority 0, stage dev)"]
    # what was approved once brings nothing back
    with pytest.raises(psycopg2.Error):
        states.database.run(
            "INSERT INTO package_states.assignment (state_id, kind, target, author, stage)"
            " VALUES (1, 'group', 'b', 'x', 'prod')"
        )
    assert states.do("stages", wanted=[]) == []


def _in_prod(states: States, name: str = "front") -> None:
    """Let the newest revision of a state come into prod."""
    states.do("promote", name=name, stage="test")
    states.by("bob").do("approve", request=states.do("promote", name=name, stage="prod")["request"])


@pytest.mark.parametrize("lost", ["gone", "empty"])
def test_a_minion_stays_in_prod_until_its_leaving_is_approved(
    states: States, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """Its group is removed or matches nothing: the file stays, and each look says so, until somebody releases it."""
    _staged(states)
    states.set("front", "foo", "installed", "=1.0")
    _in_prod(states)
    states.do("assign", name="front", kind="organization", target="all")
    assert "is not held" in states.refused("release", minion="web")
    before = states.files()["packages-web.sls"]
    if lost == "gone":
        monkeypatch.delitem(NODEGROUPS, "b")
    else:
        monkeypatch.setitem(NODEGROUPS, "b", "G@role:nothing")
    saved = states.set("front", "foo", "installed", "=6.6")
    assert (saved["minions"], saved["held"]) == (["db"], ["web", "web1.example.com"])
    for arguments in ({}, {"minion": "web"}):
        found = states.do("compile", **arguments)
        assert "package_states.release web" in found["errors"]["web"]
        assert states.files()["packages-web.sls"] == before
    shown = states.do("verdicts", minion="web")
    assert (shown["stage"], shown["packages"], len(shown["errors"])) == ("prod", {}, 1)
    states.send("web", {})
    assert "belonged to the stage prod" in states.refused("status", minion="web")
    (row,) = (row for row in states.do("status", table=False)["minions"] if row["minion"] == "web")
    assert (row["verdict"], "belonged to the stage prod" in row["error"]) == ("drifting", True)
    # the group is back, and all is as it was
    with monkeypatch.context() as back:
        back.setitem(NODEGROUPS, "b", "L@web,web1.example.com")
        assert states.do("compile")["errors"] == {}
        assert _packages(states, "web") == {"foo": "installed =1.0"}
    assert "whom Salt has authenticated" in states.by("UNKNOWN").refused("release", minion="web")
    number = states.do("release", minion="web", comment="a test machine now")["request"]
    assert [one["asks"] for one in states.do("requests")] == ["release web from prod"]
    assert "another person" in states.refused("approve", request=number)
    assert states.files()["packages-web.sls"] == before
    states.by("bob").do("approve", request=number)
    assert _packages(states, "web") == {"foo": "installed =6.6"}
    assert set(states.do("compile")["errors"]) == {"web1.example.com"}


def test_an_approved_unassign_lets_minions_leave_prod(states: States) -> None:
    """Nothing holds them then."""
    _staged(states)
    states.set("front", "foo", "installed", "=1.0")
    _in_prod(states)
    number = states.do("unassign", name="front", kind="group", target="b")["request"]
    states.by("bob").do("approve", request=number)
    assert states.do("compile")["errors"] == {}
    assert _packages(states, "web") == {}
    assert states.do("verdicts", minion="web")["stage"] == "dev"


def test_a_state_with_the_name_of_a_minion_writes_no_file_of_it(states: States) -> None:
    """Neither before the minion is there nor after it; and by itself, a state has what prod has."""
    states.do("create", name="late")
    _staged(states)
    states.set("front", "foo", "installed", "=1.0")
    states.set("late", "evil", "latest")
    (states.root / "pki" / "minions" / "late").write_text("key of late")
    states.set("late", "evil", "removed")
    assert "packages-late.sls" not in states.files()
    alone = states.root / "susemanager" / "state-front.sls"
    assert "revision: front@" in alone.read_text()
    assert "foo" not in alone.read_text()
    _in_prod(states)
    states.set("front", "evil", "latest")
    states.do("compile")
    assert "foo" in alone.read_text()
    assert "evil" not in alone.read_text()
    # the state is the minion's now, and has no file by itself
    assert not (states.root / "susemanager" / "state-late.sls").exists()


def test_a_promoted_state_is_adopted_by_no_minion(states: States) -> None:
    """It could be approved for anybody, and would be that of a minion that comes with its name."""
    _staged(states)
    states.do("create", name="late")
    states.set("late", "evil", "latest")
    _in_prod(states, "late")
    (states.root / "pki" / "minions" / "late").write_text("key of late")
    # which is said, as whoever brought a set to an empty master means its minions that come later
    assert "package_states.assign late minion late" in states.do("compile")["errors"]["late"]
    assert states.do("list")["late"]["own"] is False
    assert _packages(states, "late") == {}
    number = states.do("assign", name="late", kind="minion", target="late", stage="prod")["request"]
    states.by("bob").do("approve", request=number)
    assert states.do("compile")["errors"] == {}
    assert _packages(states, "late") == {"evil": "latest"}


def test_a_renamed_minion_stays_in_prod(states: States) -> None:
    """Whatever somebody assigned to its new id before, or saved as its own state."""
    _staged(states)
    asked = states.do("assign", name="front", kind="minion", target="web1.example.com", stage="prod")
    states.by("bob").do("approve", request=asked["request"])
    states.set("front", "foo", "installed", "=1.0")
    _in_prod(states)
    states.set("front", "foo", "installed", "=6.6")
    states.do("compile")
    keys = states.root / "pki" / "minions"
    (keys / "new").write_text("key of web1.example.com")
    states.do("assign", name="front", kind="minion", target="new", author="mallory")
    (keys / "web1.example.com").unlink()
    assert states.do("compile")["renamed"] == {"web1.example.com": "new"}
    assert _packages(states, "new") == {"foo": "installed =1.0"}
    assert states.do("assignment_history", name="front")[-1]["stage"] == "prod"


def test_two_own_states_of_a_renamed_minion_are_an_error(states: States) -> None:
    """Nothing is moved and no file is written until somebody empties the old one."""
    _staged(states)
    states.set("web1.example.com", "own", "latest")
    _in_prod(states, "web1.example.com")
    states.do("compile")
    keys = states.root / "pki" / "minions"
    (keys / "new").write_text("key of web1.example.com")
    states.set("new", "evil", "latest")
    before = states.files().get("packages-new.sls")
    (keys / "web1.example.com").unlink()
    for _ in range(2):
        found = states.do("compile")
        assert "a state of either name" in found["errors"]["new"]
        assert found["renamed"] == {}
        assert states.files().get("packages-new.sls") == before
    states.do("rollback", name="web1.example.com", revision=0)
    states.do("set", name="new", package="evil", wanted="removed")
    assert states.files().get("packages-new.sls") == before


def test_a_promotion_into_new_trouble_is_refused(states: States) -> None:
    """Whether by an approval or by a set; a minion was in none before."""
    _staged(states)
    states.send("web", {}, "dnf")
    states.do("set", name="front", package="foo", wanted="latest")
    _in_prod(states)
    states.set("front", "foo", "purged")
    states.do("promote", name="front", stage="test")
    number = states.do("promote", name="front", stage="prod")["request"]
    assert "minion web: foo: dnf can't purge" in states.by("bob").refused("approve", request=number)
    assert _packages(states, "web") == {"foo": "latest"}
    text = "package_states: 1\nstates:\n  base: {packages: {bar: purged}, assigned: [{minion: db}]}\n"
    states.send("db", {}, "dnf")
    assert "dnf can't purge" in states.refused("apply", text=text)


ALIASES = ("ANN", "ann@example.com", "EX\\ann", "\uff41nn", " sudo_ann", "sudo_EX\\Ann", "ann.", "\u0430nn", "@x")


@pytest.mark.parametrize("alias", ALIASES)
def test_a_person_under_another_name_is_the_same(states: States, alias: str) -> None:
    """And a name that is not plain decides nothing."""
    _staged(states)
    states.set("front", "foo", "latest")
    states.do("promote", name="front", stage="test")
    number = states.do("promote", name="front", stage="prod")["request"]
    assert "erson" in states.by(alias).refused("approve", request=number)
    assert _packages(states, "web") == {}


def test_nobody_blocks_no_state(states: States) -> None:
    """Who is not authenticated asks for nothing and rejects nothing; whoever asks has a request of their own."""
    _staged(states)
    states.by("UNKNOWN").do("set", name="front", package="foo", wanted="latest")
    states.by("ann").do("set", name="front", package="bar", wanted="latest")
    states.do("promote", name="front", stage="test")
    assert "whom Salt has authenticated" in states.by("UNKNOWN").refused("promote", name="front", stage="prod")
    number = states.do("promote", name="front", stage="prod")["request"]
    assert "authors of what is new" in states.by("bob").refused("approve", request=number)
    for nobody in ("UNKNOWN", "Reactor"):
        assert "erson" in states.by(nobody).refused("reject", request=number)
    # somebody takes it as theirs, from nothing on
    states.do("rollback", name="front", revision=0)
    states.do("rollback", name="front", revision=2)
    states.do("promote", name="front", stage="test")
    # another one asks first, and the author too
    first = states.by("bob").do("promote", name="front", stage="prod")["request"]
    mine = states.do("promote", name="front", stage="prod")["request"]
    assert mine not in {number, first}
    states.by("bob").do("approve", request=mine)
    assert set(_packages(states, "web")) == {"foo", "bar"}


def test_a_set_says_what_it_did(states: States) -> None:
    """What only comes through a stage stays in none, what is not in the text goes out of prod too."""
    assert states.do("stages", wanted="dev,test,prod") == STAGES
    states.do("apply", text="package_states: 1\nstates:\n  new: {packages: {}, stages: {test: {}}}\n")
    states.do("create", name="front")
    states.set("front", "foo", "installed", "=1.0")
    states.do("assign", name="front", kind="minion", target="db", stage="test")
    text = "package_states: 1\nstates:\n  front: {stages: {prod: {foo: installed =1.0}}}\n"
    found = states.do("apply", text=text)
    assert (set(found["states"]["front"]["stages"]), len(found["requests"])) == ({"prod"}, 1)
    assert _packages(states, "db") == {}
    assert states.do("show", name="front")["packages"] == {"foo": "installed =1.0"}
    asked = states.do("assign", name="front", kind="group", target="b", stage="prod")["request"]
    for number in (found["requests"][0]["request"], asked):
        states.by("bob").do("approve", request=number)
    states.set("web", "own", "removed")
    _in_prod(states, "web")
    assert set(_packages(states, "web")) == {"foo", "own"}
    restored = states.do("restore", minion="web", generation=1)
    assert "package_states.promote web prod" in restored["next"]
    small = "package_states: 1\nstates: {}\n"
    asked = [one["request"] for one in states.do("apply", text=small, prune=True)["requests"]]
    for number in asked:
        states.by("bob").do("approve", request=number)
    assert _packages(states, "web") == {}
    again = states.do("apply", text=small, prune=True)
    assert (again["states"], again["requests"]) == ({}, [])


def test_stages_of_a_site(states: States) -> None:
    """Another order, more and fewer of them, as long as nobody follows one; hostile names are refused."""
    assert states.do("stages", wanted=["one", "two"]) == ["one", "two"]
    assert states.do("stages", wanted=["zero", "one", "half", "two"]) == ["zero", "one", "half", "two"]
    assert states.do("stages") == ["zero", "one", "half", "two"]
    states.by("bob").do("stages", wanted="zero,one,half,two", comment="as it is")
    assert [(row["stages"], row["author"]) for row in states.do("stage_history")] == [
        (["one", "two"], "ann"),
        (["zero", "one", "half", "two"], "ann"),
    ]
    assert states.do("stages", wanted=["half", "zero", "two"]) == ["half", "zero", "two"]
    for wrong in ("prod", ["a", "a"], ["a", "{{ x }}"], 5, {"a": 1}, ["a", None], ["x" * 65, "b"], ["a"] * 30):
        assert "error" in states.answer("stages", wanted=wrong), wrong
    states.do("create", name="front")
    states.do("assign", name="front", kind="minion", target="db", stage="zero")
    assert "follows stays" in states.refused("stages", wanted=["half", "two"])
    assert states.do("stages", wanted=["more", "half", "zero", "two"])[0] == "more"
    states.do("assign", name="front", kind="minion", target="db", stage=None)
    assert states.do("stages", wanted=[]) == []
    assert states.do("stages") == []


def test_generations_of_a_minion(states: States) -> None:
    """What was wanted of it from when on, by whom and why; it can have it back, of a number or of a day."""
    states.do("create", name="front")
    states.do("assign", name="front", kind="group", target="b", comment="as always")
    states.do("set", name="front", package="foo", wanted="installed", version="=1.0", comment="tested")
    states.by("bob").do("set", name="web", package="bar", wanted="removed")
    states.do("set", name="front", package="foo", wanted="latest")
    states.do("set", name="front", package="baz", wanted="latest")
    rows = states.do("generations", minion="web")
    assert [(row["generation"], row["author"], row["comment"]) for row in rows] == [
        (1, "ann", "front revision 1: tested"),
        (2, "bob", "web revision 1"),
        (3, "ann", "front revision 2"),
        (4, "ann", "front revision 3"),
    ]
    assert rows[1]["changes"] == {"bar": {"old": None, "new": "removed"}}
    assert len(states.do("generations", minion="web1.example.com")) == 3
    assert states.do("generations", minion="db") == []
    wanted = {"foo": "installed =1.0", "bar": "removed"}
    assert states.do("restore", minion="web", generation=2, dry_run=True)["changes"]
    states.do("restore", minion="web", generation=2)
    found = {key: value for key, value in _packages(states, "web").items() if value != "unmanaged"}
    assert found == wanted
    assert states.do("generations", minion="web")[-1]["packages"] == 2
    states.database.run("UPDATE package_states.generation SET created = now() - interval '3 days' WHERE id < 4")
    day = states.database.run("SELECT (now() - interval '3 days')::date::text")[0][0]
    states.do("rollback", name="web", revision=1)
    states.do("restore", minion="web", day=day)
    assert {key: value for key, value in _packages(states, "web").items() if value != "unmanaged"} == wanted
    for wrong in ({}, {"generation": 1, "day": day}, {"generation": 99}, {"generation": "x"}, {"day": "then"}):
        assert "error" in states.answer("restore", minion="web", **wrong), wrong
    assert "error" in states.answer("restore", minion="web", day="2001-01-01")
    # the next look changes nothing
    before = states.do("generations", minion="web")
    states.do("compile")
    assert states.do("generations", minion="web") == before


SET = """\
package_states: 1
stages: [dev, test, prod]
states:
  base:
    packages: {vim: latest}
    assigned:
      - {organization: all}
  front:
    packages:
      foo: installed >=1.10,<2.0
      bar:i386: removed
    stages:
      test: {foo: installed =1.10}
      prod: {foo: installed =1.0}
    assigned:
      - {group: b, priority: 10, stage: prod}
      - {minion: db, stage: test}
      - {grains: "os_family:Debian"}
  web:
    packages: {own: kept =1}
    stages:
      prod: {own: kept =2}
"""


def test_a_set_goes_out_and_into_an_empty_master(
    states: States, server: Postgres, salt: Salt, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The same text and the same files; before another person approves it, prod has nothing."""
    plan = states.do("apply", text=SET, test=True)
    assert plan["states"]["front"]["new"] is True
    assert plan["stages"] == {"old": [], "new": STAGES}
    assert len(plan["requests"]) == 3
    assert (states.do("list"), states.do("requests"), states.do("stages")) == ({}, [], [])
    done = states.do("apply", text=SET, comment="as of 4f0c2a1")
    assert (plan["states"], plan["minions"]) == (done["states"], done["minions"])
    assert plan["requests"] == [{"asks": one["asks"]} for one in done["requests"]]
    assert _packages(states, "web") == {"vim": "latest", "own": "kept =1", "foo": "installed >=1.10,<2.0"} | {
        "bar:i386": "removed"
    }
    for one in done["requests"]:
        states.by("bob").do("approve", request=one["request"])
    assert states.do("compile")["files"] == []
    assert _packages(states, "web") == {"foo": "installed =1.0", "own": "kept =2"}
    assert _packages(states, "db") == {"foo": "installed =1.10"}
    # the same text once more changes nothing
    again = states.do("apply", text=SET)
    assert (again["states"], again["requests"], again["minions"]) == ({}, [], [])
    text = states.do("export")
    again = states.do("apply", text=text, prune=True)
    assert (again["states"], again["requests"], again["minions"]) == ({}, [], [])

    # some history, so that numbers of revisions differ
    states.do("set", name="front", package="more", wanted="latest")
    states.do("unset", name="front", package="more")
    assert states.do("export") == text

    made = scratch.make(server, "team_other")
    root = tmp_path_factory.mktemp("other")
    other = States(salt, made, root, "keys", "carol")
    (root / "pki").symlink_to(states.root / "pki")
    other.do("setup")
    for one in other.do("apply", text=text)["requests"]:
        other.by("dora").do("approve", request=one["request"])
    assert other.do("export") == text
    states.do("compile")
    assert other.files() == states.files()
    path = str(root / "set.yaml")
    assert other.do("export", path=path)["states"] == 3
    assert other.do("apply", path=path)["states"] == {}

    # what is not in the text is emptied on demand only
    small = "package_states: 1\nstates: {}\n"
    assert other.do("apply", text=small)["states"] == {}
    assert set(other.do("apply", text=small, prune=True, test=True)["states"]) == {"base", "front", "web"}


def test_a_set_is_saved_whole_or_not_at_all(states: States) -> None:
    """A conflict, a protected package or an unknown group at its end, and nothing of the set is there."""
    good = "package_states: 1\nstates:\n  a: {packages: {foo: latest}, assigned: [{group: b}]}\n"
    bad = (
        "  z: {packages: {foo: removed}, assigned: [{group: b}]}",
        "  z: {packages: {bash: removed}}",
        "  z: {packages: {foo: latest}, assigned: [{group: nobody}]}",
        "  z: {assigned: [{minion: nobody}]}",
        "  z: {assigned: [{group: b, stage: prod}]}",
        "  z: {stages: {prod: {foo: latest}}}",
        "  web: {assigned: [{group: b}]}",
        "  z: {packages: {foo: latest, foo: removed}}",
    )
    for line in bad:
        assert "\n" not in states.refused("apply", text=f"{good}{line}\n"), line
        assert states.do("list") == {}, line
    assert "no path" in states.refused("apply")
    assert "can't be read" in states.refused("apply", path="/nope")
    # what a file of the master holds is not shown
    secret = states.root / "secret"
    secret.write_text("root:$6$hash: [x\n")
    assert "hash" not in states.refused("apply", path=str(secret))
    states.do("apply", text=good)
    assert _packages(states, "web") == {"foo": "latest"}


HOSTILE = (
    "'; DROP TABLE package_states.stage; --",
    "%s",
    "%(x)s",
    "{{ 1 }}",
    "{% raw %}",
    "$(id)",
    "`id`",
    "a\nb",
    "../x",
    "/etc/passwd\0",
    "x\0",
    "\u202e",
    "\ud800",
    "x" * 70000,
    "-1",
    "1e3",
    "9" * 40,
    "--help",
    "*",
    "&a",
    "!!python/object:x",
    "",
)


def test_hostile_arguments_reach_no_table(states: States) -> None:
    """Each argument of each function is refused with one sentence, or does nothing; what is free text stays text."""
    _staged(states)
    states.do("set", name="front", package="foo", wanted="latest")
    tables = "SELECT (SELECT count(*) FROM package_states.{}) || ''"
    names = ("stage", "promotion", "request", "decision", "assignment", "revision", "state", "generation")
    front: dict[str, object] = {"name": "front"}

    def counts() -> list[object]:
        return [states.database.run(tables.format(name)) for name in names]

    before, files = counts(), states.files()
    for text in (*HOSTILE, None, 1.5, True, ["x"], {"x": "y"}):
        calls: tuple[tuple[str, dict[str, object]], ...] = (
            ("stages", {"wanted": [text, "prod"]}),
            ("promote", {**front, "stage": text}),
            ("promote", {**front, "stage": "test", "revision": text if text is not None else "x"}),
            ("promote", {"name": text, "stage": "test"}),
            ("approve", {"request": text}),
            ("reject", {"request": text}),
            ("rollback", {**front, "revision": text, "stage": "test"}),
            ("restore", {"minion": "web", "generation": text}),
            ("restore", {"minion": "web", "day": text}),
            ("restore", {"minion": text, "generation": 1}),
            ("generations", {"minion": text}),
            ("promotion_history", {"name": text}),
            ("show", {**front, "stage": text if text is not None else "x"}),
            ("assign", {**front, "kind": "group", "target": "a", "stage": text if text is not None else "x"}),
            ("apply", {"text": text if text is not None else 5}),
            ("apply", {"path": text}),
        )
        for function, arguments in calls:
            # these are names of stages, or say that a stage stays as it is
            if function == "stages" and str(text) in {"1e3", "9" * 40}:
                continue
            if (function, arguments.get("stage")) == ("assign", ""):
                continue
            error = states.refused(function, **arguments)
            assert "\n" not in error, (function, arguments)
            assert len(error) < 1000, (function, arguments)
    assert (counts(), states.files()) == (before, files)
    free = "'; DROP TABLE x; -- {{ 1 }} %s \u00e9"
    states.do("promote", name="front", stage="test", comment=free, author=free)
    found = states.do("promotion_history", name="front")["promotions"][-1]
    assert (found["comment"], found["author"]) == (free, f"ann for {free}")
