"""Stages of a site, and revisions that go from one to the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.live.team.stage_walk import in_prod, packages, staged

if TYPE_CHECKING:
    from tests.live.package_states import States

pytestmark = [pytest.mark.live, pytest.mark.long]


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
    staged(states)
    states.set("front", "foo", "installed", "=1.0")
    assert packages(states, "db") == {"foo": "installed =1.0"}
    assert packages(states, "web") == {}
    assert [states.do("verdicts", minion=one)["stage"] for one in ("db", "web")] == ["dev", "prod"]
    assert "not there in test" in states.refused("promote", name="front", stage="prod").replace(
        "There is no front in test", "not there in test"
    )
    assert states.do("promote", name="front", stage="test")["minions"] == []
    asked = states.do("promote", name="front", stage="prod", comment="tested")
    assert (asked["waits for"], asked["minions"]) == ("approval", [])
    # asked twice is one request
    assert states.do("promote", name="front", stage="prod")["request"] == asked["request"]
    assert packages(states, "web") == {}
    (waiting,) = states.do("requests")
    assert waiting["asks"] == "promote front revision 1 to prod"
    assert waiting["changes"] == {"foo": {"old": None, "new": "installed =1.0"}}
    assert "another person" in states.refused("approve", request=asked["request"])
    plan = states.by("bob").do("approve", request=asked["request"], dry_run=True)
    assert plan["minions"] == ["web", "web1.example.com"]
    assert packages(states, "web") == {}
    done = states.by("bob").do("approve", request=asked["request"], comment="looks good")
    assert done["files"] == ["front", "web", "web1.example.com"]
    assert packages(states, "web") == {"foo": "installed =1.0"}
    old = states.files()

    states.set("front", "foo", "latest")
    assert packages(states, "web") == {"foo": "installed =1.0"}
    states.do("promote", name="front", stage="test")
    number = states.do("promote", name="front", stage="prod")["request"]
    states.by("bob").do("approve", request=number)
    assert packages(states, "web") == {"foo": "latest"}
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


def test_a_promotion_into_new_trouble_is_refused(states: States) -> None:
    """Whether by an approval or by a set; a minion was in none before."""
    staged(states)
    states.send("web", {}, "dnf")
    states.do("set", name="front", package="foo", wanted="latest")
    in_prod(states)
    states.set("front", "foo", "purged")
    states.do("promote", name="front", stage="test")
    number = states.do("promote", name="front", stage="prod")["request"]
    assert "minion web: foo: dnf can't purge" in states.by("bob").refused("approve", request=number)
    assert packages(states, "web") == {"foo": "latest"}
    text = "package_states: 1\nstates:\n  base: {packages: {bar: purged}, assigned: [{minion: db}]}\n"
    states.send("db", {}, "dnf")
    assert "dnf can't purge" in states.refused("apply", text=text)
