"""Minions that come, or are renamed: a name brings nobody what was not approved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.live.team.stage_walk import in_prod, packages, staged

if TYPE_CHECKING:
    from tests.live.package_states import States

pytestmark = [pytest.mark.live, pytest.mark.long]


def test_a_state_with_the_name_of_a_minion_writes_no_file_of_it(states: States) -> None:
    """Neither before the minion is there nor after it; and by itself, a state has what prod has."""
    states.do("create", name="late")
    staged(states)
    states.set("front", "foo", "installed", "=1.0")
    states.set("late", "evil", "latest")
    (states.root / "pki" / "minions" / "late").write_text("key of late")
    states.set("late", "evil", "removed")
    assert "packages-late.sls" not in states.files()
    alone = states.root / "susemanager" / "state-front.sls"
    assert "revision: front@" in alone.read_text()
    assert "foo" not in alone.read_text()
    in_prod(states)
    states.set("front", "evil", "latest")
    states.do("compile")
    assert "foo" in alone.read_text()
    assert "evil" not in alone.read_text()
    # the state is the minion's now, and has no file by itself
    assert not (states.root / "susemanager" / "state-late.sls").exists()


def test_a_promoted_state_is_adopted_by_no_minion(states: States) -> None:
    """It could be approved for anybody, and would be that of a minion that comes with its name."""
    staged(states)
    states.do("create", name="late")
    states.set("late", "evil", "latest")
    in_prod(states, "late")
    (states.root / "pki" / "minions" / "late").write_text("key of late")
    # which is said, as whoever brought a set to an empty master means its minions that come later
    assert "package_states.assign late minion late" in states.do("compile")["errors"]["late"]
    assert states.do("list")["late"]["own"] is False
    assert packages(states, "late") == {}
    number = states.do("assign", name="late", kind="minion", target="late", stage="prod")["request"]
    states.by("bob").do("approve", request=number)
    assert states.do("compile")["errors"] == {}
    assert packages(states, "late") == {"evil": "latest"}


def test_a_renamed_minion_stays_in_prod(states: States) -> None:
    """Whatever somebody assigned to its new id before, or saved as its own state."""
    staged(states)
    asked = states.do("assign", name="front", kind="minion", target="web1.example.com", stage="prod")
    states.by("bob").do("approve", request=asked["request"])
    states.set("front", "foo", "installed", "=1.0")
    in_prod(states)
    states.set("front", "foo", "installed", "=6.6")
    states.do("compile")
    keys = states.root / "pki" / "minions"
    (keys / "new").write_text("key of web1.example.com")
    states.do("assign", name="front", kind="minion", target="new", author="mallory")
    (keys / "web1.example.com").unlink()
    assert states.do("compile")["renamed"] == {"web1.example.com": "new"}
    assert packages(states, "new") == {"foo": "installed =1.0"}
    assert states.do("assignment_history", name="front")[-1]["stage"] == "prod"


def test_no_command_writes_the_file_of_a_minion_with_two_own_states(states: States) -> None:
    """Without stages neither, until somebody empties the old one."""
    states.do("create", name="front")
    states.do("assign", name="front", kind="organization", target="all")
    states.set("front", "foo", "latest")
    states.set("db", "own", "latest")
    states.do("compile")
    keys = states.root / "pki" / "minions"
    (keys / "new").write_text("key of db")
    states.set("new", "mine", "latest")
    (keys / "db").unlink()
    assert "a state of either name" in states.do("compile")["errors"]["new"]
    before = states.files()["packages-new.sls"]
    text = "package_states: 1\nstates:\n  front: {packages: {foo: removed}}\n"
    for function, arguments in (
        ("set", {"name": "front", "package": "bar", "wanted": "latest"}),
        ("apply", {"text": text}),
        ("stages", {"wanted": "dev,prod"}),
        ("compile", {"minion": "new"}),
    ):
        states.do(function, **arguments)
        assert states.files()["packages-new.sls"] == before, function
    assert "a state of either name" in str(states.do("verdicts", minion="new")["errors"])
    assert "a state of either name" in states.refused("restore", minion="new", generation=1)
    states.do("stages", wanted=[])
    states.do("rollback", name="db", revision=0)
    assert states.do("compile")["errors"] == {}
    assert packages(states, "new") == {"foo": "removed", "mine": "latest"}


def test_two_own_states_of_a_renamed_minion_are_an_error(states: States) -> None:
    """Nothing is moved and no file is written until somebody empties the old one."""
    staged(states)
    states.set("web1.example.com", "own", "latest")
    in_prod(states, "web1.example.com")
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
    (row,) = states.do("who", package="evil")["minions"]
    assert (row["minion"], row["wanted"], row["source"]) == ("new", "latest", "generation 1")
    assert "a state of either name" in row["held"]
