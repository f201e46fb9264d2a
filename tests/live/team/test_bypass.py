"""Nothing goes round an approval: no call of one person, and no statement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg2
import pytest

from tests.live.team.stage_walk import packages, staged

if TYPE_CHECKING:
    from tests.live.package_states import States

pytestmark = [pytest.mark.live, pytest.mark.long]


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
    staged(states)
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
    staged(states)
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
    assert packages(states, "web") == {"foo": "latest"}
