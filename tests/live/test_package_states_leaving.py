"""A minion that leaves the last stage: its file is what is wanted of it from then on, whatever that is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.database import scratch
from harness.saltprocess.patched import Salt, patched
from tests.live.test_package_states_store import NODEGROUPS, States

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.database.postgres import Postgres

pytestmark = [pytest.mark.live, pytest.mark.long]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """Yield a server."""
    with scratch.served(tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture(scope="module")
def salt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Salt]:
    """Yield the patched Salt."""
    with patched(tmp_path_factory.mktemp("salt")) as found:
        yield found


@pytest.fixture
def states(server: Postgres, salt: Salt, tmp_path: Path, request: pytest.FixtureRequest) -> States:
    """Return a state whose revision 1 is in the last stage, which the minions web and web1.example.com follow."""
    made = scratch.make(server, f"leaving_{abs(hash(request.node.name))}")
    found = States(salt, made, tmp_path, "keys", "ann")
    keys = tmp_path / "pki" / "minions"
    keys.mkdir(parents=True)
    for minion in ("web", "web1.example.com", "db"):
        (keys / minion).write_text(f"key of {minion}")
    found.do("setup")
    found.do("stages", wanted="dev,test,prod")
    found.do("create", name="front")
    asked = [found.do("assign", name="front", kind="group", target="b", stage="prod")]
    found.set("front", "foo", "installed", "=1.0")
    found.do("promote", name="front", stage="test")
    asked.append(found.do("promote", name="front", stage="prod"))
    for one in asked:
        found.by("bob").do("approve", request=one["request"])
    return found


def _packages(states: States, minion: str) -> dict[str, str]:
    """Return what is wanted of a minion, after a check that its file says so."""
    found = states.do("verdicts", minion=minion)
    assert found["current"] is True
    return {key: row["wanted"] for key, row in found["packages"].items()}


def test_a_released_minion_of_which_nothing_is_wanted(states: States, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file is empty at once, so that the next run releases its locks, and its old status is forgotten."""
    assert _packages(states, "web") == {"foo": "installed =1.0"}
    states.send("web", {"foo": {"versions": ["1.0"], "available": ["1.0"]}})
    assert states.do("status", table=False, only="consistent")["counts"]["consistent"] == 1
    monkeypatch.delitem(NODEGROUPS, "b")
    number = states.do("release", minion="web")["request"]
    done = states.by("bob").do("approve", request=number)
    assert (done["minions"], done["files"]) == (["web"], ["web"])
    assert _packages(states, "web") == {}
    assert b"foo" not in states.files()["packages-web.sls"]
    assert b"foo" in states.files()["packages-web1.example.com.sls"]
    (row,) = (row for row in states.do("status", table=False)["minions"] if row["minion"] == "web")
    assert (row["verdict"], row["managed"]) == ("consistent", 0)


def test_a_minion_that_came_back_is_free_without_stages(states: States) -> None:
    """It was away while its assignment ended; with the stages its hold ends, and its file is written."""
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
    assert _packages(states, "web") == {"own": "latest"}
    alone = states.root / "susemanager" / "state-front.sls"
    assert "foo" in alone.read_text()
    assert states.do("compile")["files"] == []


def test_a_held_minion_is_not_restored(states: States, monkeypatch: pytest.MonkeyPatch) -> None:
    """What others say of it is not known, so nobody knows what its own state would have to release."""
    monkeypatch.delitem(NODEGROUPS, "b")
    assert "package_states.release web" in states.refused("restore", minion="web", generation=1)
    assert "web" not in states.do("list")
