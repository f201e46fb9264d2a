"""A minion that leaves the last stage: as another person approves, and with the file that it has to have then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg2
import pytest

from tests.live.package_states import NODEGROUPS
from tests.live.team.stage_walk import in_prod, packages, staged

if TYPE_CHECKING:
    from tests.live.package_states import States

pytestmark = [pytest.mark.live, pytest.mark.long]


def test_leaving_prod_needs_another_person_too(states: States) -> None:
    """Whoever unassigns or changes what follows the last stage asks for it; an approval counts once."""
    staged(states)
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


@pytest.mark.parametrize("lost", ["gone", "empty"])
def test_a_minion_stays_in_prod_until_its_leaving_is_approved(
    states: States, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """Its group is removed or matches nothing: the file stays, and each look says so, until somebody releases it."""
    staged(states)
    states.set("front", "foo", "installed", "=1.0")
    in_prod(states)
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
    # what its file says is wanted, and nothing of what applies to others meanwhile
    found = states.do("who", package="foo")
    assert found["counts"] == {"minions": 3, "have it": 0, "want it": 3, "want it gone": 0, "in conflict": 0, "held": 2}
    wants = {row["minion"]: (row["wanted"], row["source"], "held" in row) for row in found["minions"]}
    kept = ("installed =1.0", "generation 1", True)
    assert wants == {
        "db": ("installed =6.6", "minion db: front", False),
        "web": kept,
        "web1.example.com": kept,
    }
    assert "package_states.release web" in found["minions"][1]["held"]
    assert states.do("who", package="bar")["minions"] == []
    (row,) = (row for row in states.do("status", table=False)["minions"] if row["minion"] == "web")
    assert (row["verdict"], "belonged to the stage prod" in row["error"]) == ("drifting", True)
    # the group is back, and all is as it was
    with monkeypatch.context() as back:
        back.setitem(NODEGROUPS, "b", "L@web,web1.example.com")
        assert states.do("compile")["errors"] == {}
        assert packages(states, "web") == {"foo": "installed =1.0"}
    assert "whom Salt has authenticated" in states.by("UNKNOWN").refused("release", minion="web")
    number = states.do("release", minion="web", comment="a test machine now")["request"]
    assert [one["asks"] for one in states.do("requests")] == ["release web from prod"]
    assert "another person" in states.refused("approve", request=number)
    assert states.files()["packages-web.sls"] == before
    states.by("bob").do("approve", request=number)
    assert packages(states, "web") == {"foo": "installed =6.6"}
    assert set(states.do("compile")["errors"]) == {"web1.example.com"}


def test_an_approved_unassign_lets_minions_leave_prod(states: States) -> None:
    """Nothing holds them then."""
    staged(states)
    states.set("front", "foo", "installed", "=1.0")
    in_prod(states)
    number = states.do("unassign", name="front", kind="group", target="b")["request"]
    states.by("bob").do("approve", request=number)
    assert states.do("compile")["errors"] == {}
    assert packages(states, "web") == {}
    assert states.do("verdicts", minion="web")["stage"] == "dev"


def test_a_released_minion_of_which_nothing_is_wanted(states: States, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file is empty at once, so that the next run releases its locks, and its old status is forgotten."""
    staged(states)
    states.set("front", "foo", "installed", "=1.0")
    in_prod(states)
    assert packages(states, "web") == {"foo": "installed =1.0"}
    states.send("web", {"foo": {"versions": ["1.0"], "available": ["1.0"]}})
    assert states.do("status", table=False, only="consistent")["counts"]["consistent"] == 1
    monkeypatch.delitem(NODEGROUPS, "b")
    number = states.do("release", minion="web")["request"]
    done = states.by("bob").do("approve", request=number)
    assert (done["minions"], done["files"]) == (["web"], ["web"])
    assert packages(states, "web") == {}
    assert b"foo" not in states.files()["packages-web.sls"]
    assert b"foo" in states.files()["packages-web1.example.com.sls"]
    (row,) = (row for row in states.do("status", table=False)["minions"] if row["minion"] == "web")
    assert (row["verdict"], row["managed"]) == ("consistent", 0)


def test_a_minion_that_came_back_is_free_without_stages(states: States) -> None:
    """It was away while its assignment ended; with the stages its hold ends, and its file is written."""
    staged(states)
    states.set("front", "foo", "installed", "=1.0")
    in_prod(states)
    key = states.root / "pki" / "minions" / "web"
    text = key.read_text()
    key.unlink()
    states.do("compile")
    number = states.do("unassign", name="front", kind="group", target="b")["request"]
    states.by("bob").do("approve", request=number)
    key.write_text(text)
    states.set("web", "own", "latest")
    assert "web" in states.do("compile")["errors"]
    assert "packages-web.sls" not in states.files()
    assert states.do("stages", wanted=[]) == []
    assert packages(states, "web") == {"own": "latest"}
    alone = states.root / "susemanager" / "state-front.sls"
    assert "foo" in alone.read_text()
    assert states.do("compile")["files"] == []


def test_a_held_minion_is_not_restored(states: States, monkeypatch: pytest.MonkeyPatch) -> None:
    """What others say of it is not known, so nobody knows what its own state would have to release."""
    staged(states)
    states.set("front", "foo", "installed", "=1.0")
    in_prod(states)
    monkeypatch.delitem(NODEGROUPS, "b")
    assert "package_states.release web" in states.refused("restore", minion="web", generation=1)
    assert "web" not in states.do("list")
