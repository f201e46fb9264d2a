"""Everything as one text: out of a master, and into one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.database import scratch
from tests.live.package_states import States
from tests.live.team.stage_walk import STAGES, in_prod, packages

if TYPE_CHECKING:
    from harness.database.postgres import Postgres
    from harness.saltprocess.patched import Salt

pytestmark = [pytest.mark.live, pytest.mark.long]

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
    assert packages(states, "web") == {"vim": "latest", "own": "kept =1", "foo": "installed >=1.10,<2.0"} | {
        "bar:i386": "removed"
    }
    for one in done["requests"]:
        states.by("bob").do("approve", request=one["request"])
    assert states.do("compile")["files"] == []
    assert packages(states, "web") == {"foo": "installed =1.0", "own": "kept =2"}
    assert packages(states, "db") == {"foo": "installed =1.10"}
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
    for line in bad[1:6]:
        assert states.refused("apply", text=f"{good}{line}\n").startswith("state z: "), line
    assert "no path" in states.refused("apply")
    assert "can't be read" in states.refused("apply", path="/nope")
    # what a file of the master holds is not shown
    secret = states.root / "secret"
    secret.write_text("root:$6$hash: [x\n")
    assert "hash" not in states.refused("apply", path=str(secret))
    states.do("apply", text=good)
    assert packages(states, "web") == {"foo": "latest"}


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
    assert packages(states, "db") == {}
    assert states.do("show", name="front")["packages"] == {"foo": "installed =1.0"}
    asked = states.do("assign", name="front", kind="group", target="b", stage="prod")["request"]
    for number in (found["requests"][0]["request"], asked):
        states.by("bob").do("approve", request=number)
    states.set("web", "own", "removed")
    in_prod(states, "web")
    assert set(packages(states, "web")) == {"foo", "own"}
    restored = states.do("restore", minion="web", generation=1)
    assert "package_states.promote web prod" in restored["next"]
    small = "package_states: 1\nstates: {}\n"
    asked = [one["request"] for one in states.do("apply", text=small, prune=True)["requests"]]
    for number in asked:
        states.by("bob").do("approve", request=number)
    assert packages(states, "web") == {}
    again = states.do("apply", text=small, prune=True)
    assert (again["states"], again["requests"]) == ({}, [])
