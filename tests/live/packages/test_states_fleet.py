"""Package states of a fleet: who it is, what changed for whom and by whom, and how it stands."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from harness.database import sources
from harness.saltprocess.patched import Salt, patched
from tests.live.helpers.package_states import States

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.database import Postgres

pytestmark = [pytest.mark.live, pytest.mark.long]
THERE = {"versions": ["1.0"], "available": ["1.0", "2.0"], "candidate": "2.0"}
MANY = 10_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """Yield a server."""
    with sources.served(tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture(scope="module")
def salt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Salt]:
    """Yield the patched Salt."""
    with patched(tmp_path_factory.mktemp("salt")) as found:
        found.act("grains", "web", {"os_family": "Debian", "osarch": "amd64"})
        yield found


@pytest.fixture
def states(server: Postgres, salt: Salt, tmp_path: Path, request: pytest.FixtureRequest) -> States:
    """Return an empty set of states, with one minion."""
    made = sources.make(server, f"fleet_{abs(hash(request.node.name))}")
    found = States(salt, made, tmp_path, "keys")
    _accept(found, "web", "key of web")
    found.do("setup")
    return found


def _accept(states: States, minion: str, key: str) -> None:
    keys = states.root / "pki" / "minions"
    keys.mkdir(parents=True, exist_ok=True)
    (keys / minion).write_text(key)


def _delete(states: States, minion: str) -> None:
    (states.root / "pki" / "minions" / minion).unlink()


def test_a_renamed_minion_keeps_what_is_its_own(states: States) -> None:
    """Its state, what is assigned to it and what it sent are under its new id; the old file is gone."""
    states.set("web", "foo", "latest")
    states.do("set", name="front")
    states.do("assign", name="front", kind="minion", target="web", priority=7)
    states.set("front", "bar", "latest")
    states.send("web", {"foo": THERE})
    states.do("refresh")
    _accept(states, "new", "key of web")
    _delete(states, "web")
    found = states.do("refresh")
    assert (found["renamed"], found["removed"], found["files"]) == ({"web": "new"}, ["web"], ["new"])
    assert states.do("show", name="new")["packages"] == {"foo": "latest"}
    assert states.do("show", name="front")["assigned"] == ["minion new (priority 7)"]
    assert set(states.wanted("new")) == {"foo", "bar"}
    assert states.do("status", minion="new", table=False)["managed"] == 2
    assert states.do("refresh")["files"] == []
    # another minion under the old id has nothing of it
    _accept(states, "web", "another key")
    assert states.do("refresh")["renamed"] == {}
    assert states.wanted("web") == {}


def test_a_copied_key_gives_nobody_anything(states: States) -> None:
    """Two minions with the key of one that is gone: nobody knows whose its state is."""
    states.set("web", "foo", "latest")
    states.do("refresh")
    for name in ("one", "two"):
        _accept(states, name, "key of web")
    _delete(states, "web")
    assert states.do("refresh")["renamed"] == {}
    assert states.do("show", name="web")["packages"] == {"foo": "latest"}


def test_a_state_made_before_its_minion_becomes_its_own(states: States) -> None:
    """One that is assigned to others stays theirs."""
    for name in ("soon", "front"):
        states.do("set", name=name)
    states.do("assign", name="front", kind="minion", target="web")
    states.set("soon", "foo", "latest")
    states.set("front", "bar", "latest")
    for name in ("soon", "front"):
        _accept(states, name, f"key of {name}")
    states.do("refresh")
    assert {name: one["own"] for name, one in states.do("show").items()} == {"soon": True, "front": False}
    assert set(states.wanted("soon")) == {"foo"}
    assert states.wanted("front") == {}


def test_who_has_and_wants_a_package(states: States) -> None:
    """Whoever has it and whoever should have it, with the state that says so; minions that are gone do not count."""
    for name in ("db", "app"):
        _accept(states, name, f"key of {name}")
    states.do("set", name="all")
    states.do("assign", name="all", kind="organization", target="all")
    states.set("all", "foo", "latest")
    states.set("all", "bar", "latest")
    states.set("web", "foo", "removed")
    for name, there in (("web", {"foo": THERE}), ("db", {"foo": THERE}), ("gone", {"foo": THERE})):
        states.send(name, there)
    found = states.do("where", package="foo")
    assert found["counts"] == {
        "minions": 3,
        "have it": 2,
        "lack it": 0,
        "not known": 1,
        "want it": 2,
        "want it gone": 1,
        "in conflict": 0,
        "halted": 0,
    }
    assert {row["minion"]: (row["installed"], row["wanted"], row["source"]) for row in found["minions"]} == {
        "app": ("", "latest", "organization all: all"),
        "db": ("1.0", "latest", "organization all: all"),
        "web": ("1.0", "removed", "own web"),
    }
    second = states.do("where", package="foo", page=2, size=2)
    assert ([row["minion"] for row in second["minions"]], second["pages"]) == (["web"], 2)
    # a minion's own architecture is not a part of the name there, and others are
    states.set("all", "own:amd64", "latest")
    states.set("all", "other:i386", "latest")
    wants = {key: states.do("where", package=key)["minions"] for key in ("own", "own:amd64", "other:i386", "other")}
    assert [row["minion"] for row in wants["own"]] == ["web"]
    assert [row["minion"] for row in wants["own:amd64"]] == ["app", "db", "web"]
    assert [row["minion"] for row in wants["other:i386"]] == ["app", "db", "web"]
    assert wants["other"] == []
    states.send("web", {"own": THERE, "other:i386": THERE})
    found = {key: states.do("where", package=key) for key in ("own", "own:amd64", "other:amd64", "other:i386")}
    have = {key: [row["minion"] for row in one["minions"] if row["installed"]] for key, one in found.items()}
    assert have == {"own": ["web"], "own:amd64": ["web"], "other:amd64": [], "other:i386": ["web"]}
    # what releases it wants nothing
    states.set("web", "bar", "unmanaged")
    counts = states.do("where", package="bar")["counts"]
    assert (counts["minions"], counts["have it"], counts["not known"], counts["want it"]) == (3, 0, 1, 2)
    assert states.do("where", package="nothing")["minions"] == []
    assert "no package name" in states.refused("where", package="{{ x }}")


def test_changes_have_an_author_and_a_reason(states: States) -> None:
    """Who is authenticated is written down, whoever is named; the history of assignments only grows."""
    states.do("set", name="front")
    states.do("set", name="front", package="foo", wanted="present", author="the boss", comment="why")
    (entry,) = states.do("history", name="front")
    assert entry["author"].endswith(" for the boss")
    user = entry["author"].removesuffix(" for the boss")
    assert user
    states.do("assign", name="front", kind="minion", target="web", priority=3, comment="tested")
    states.do("assign", name="front", kind="minion", target="web")
    states.do("unassign", name="front", kind="minion", target="web", comment="no more")
    rows = states.do("history", name="front")[1:]
    told = [(row["change"], row["priority"], row["comment"], row["author"]) for row in rows]
    # without a priority it stays as it was
    assert told == [
        ("assigned", 3, "tested", user),
        ("assigned", 3, "", user),
        ("unassigned", None, "no more", user),
    ]
    for statement in ("DELETE FROM", "TRUNCATE"):
        with pytest.raises(Exception, match="only grow"):
            states.database.run(f"{statement} package_states.assignment_change")


def test_words_of_others_and_what_is_refused(states: States) -> None:
    """`present` and `absent` are understood; what nothing can meet, or matches nothing, is refused at saving."""
    states.set("web", "foo", "present", ">=1.0")
    states.set("web", "bar", "absent")
    assert states.do("show", name="web")["packages"] == {"bar": "removed", "foo": "present >=1.0"}
    for bounds in (">=2.0,<1.0", ">1.0,<=1.0", "=1.0,=2.0", "=1.0,!=1.0", "<1,>2"):
        error = states.refused("set", name="web", package="foo", wanted="installed", version=bounds)
        assert "correct the condition" in error, bounds
    error = states.refused("set", name="web", package="foo", wanted="installed", version=1.22)
    assert "=1.10" in error
    error = states.refused("set", name="web", package="bash", wanted="removed", version="<1.0")
    assert "bash must not be removed" in error
    states.do("set", name="front")
    for match in ("G@os:Debian", "os:Debian and os:Suse", "not os:Debian", "os:Debian or (x:y)"):
        error = states.refused("assign", name="front", kind="grains", target=match)
        assert "nodegroup" in error, match
    states.do("assign", name="front", kind="grains", target="role:load and store balancer")


def test_a_conflict_that_a_join_brings_is_told(states: States) -> None:
    """The file has what can be decided and fails with the rest; saving what has nothing to do with it works."""
    for name, wanted in (("one", "latest"), ("two", "removed")):
        states.do("set", name=name)
        states.do("assign", name=name, kind="grains", target=f"role:{name}")
        states.set(name, "foo", wanted)
    states.set("one", "bar", "latest")
    states.salt.act("grains", "both", {"os_family": "Debian", "role": ["one", "two"]})
    _accept(states, "both", "key of both")
    found = states.do("refresh")
    assert "foo" in found["errors"]["both"]
    found = states.do("status", minion="both", table=False)
    assert (set(states.wanted("both")), set(found["errors"]), found["current"]) == ({"bar", "foo"}, {"foo"}, True)
    assert b"trouble" in states.files()["packages-both.sls"]
    states.set("one", "baz", "latest")
    assert "both" in states.refused("set", name="two", package="baz", wanted="removed")


def test_how_a_fleet_stands(states: States) -> None:
    """Counts first, then pages; by group, and by verdict; ten thousand minions are a moment."""
    for number in range(MANY):
        _accept(states, f"m{number}", str(number))
    states.set("web", "foo", "installed", "=1.0")
    states.send("web", {"foo": THERE})
    states.database.run(
        "INSERT INTO package_states.package_list SELECT 'm' || n, 'apt', 'x', %s::jsonb,"
        " now() - CASE WHEN n < 1000 THEN interval '30 days' ELSE interval '0' END"
        " FROM generate_series(0, 7999) AS n",
        json.dumps({f"package-{number}": THERE for number in range(50)}),
    )
    states.database.run(
        "INSERT INTO package_states.minion_status SELECT 'm' || n, 50, n %% 2, '' FROM generate_series(0, 6999) AS n",
        [],
    )
    begin = time.monotonic()
    found = states.do("status", table=False, size=MANY)
    took, size = time.monotonic() - begin, len(json.dumps(found))
    print(json.dumps({"minions": MANY, "seconds": round(took, 2), "MB": round(size / 1e6, 2)}))
    # some of those that nobody has compared were, at once
    assert found["counts"] == {
        "minions": MANY + 1,
        "consistent": 3000 + 1 + 199,
        "drifting": 3000,
        "pending": 801,
        "silent": 1000,
        "never heard": 2000,
    }
    few = states.do("status", table=False, only="drifting", page=30, size=100)
    assert (few["pages"], len(few["minions"])) == (30, 100)
    assert states.do("status", table=False, group="a")["counts"]["minions"] == 1
    assert "web" in states.do("status", group="a")
    assert "no group" in states.refused("status", group="nobody")
    assert "use one of" in states.refused("status", only="good")
    assert "whole number" in states.refused("status", page=0)
    # what is wanted changes: it is compared again
    states.set("web", "foo", "latest")
    (row,) = states.do("status", table=False, group="a")["minions"]
    assert row["verdict"] == "drifting"
