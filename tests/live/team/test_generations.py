"""What was wanted of a minion from when on, and back to it."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg2
import pytest

from harness.processes.deadline import Deadline, until
from tests.live.package_states import LOCK, WAITS
from tests.live.team.stage_walk import packages

if TYPE_CHECKING:
    from tests.live.package_states import States

pytestmark = [pytest.mark.live, pytest.mark.long]


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
    found = {key: value for key, value in packages(states, "web").items() if value != "unmanaged"}
    assert found == wanted
    assert states.do("generations", minion="web")[-1]["packages"] == 2
    states.database.run("UPDATE package_states.generation SET created = now() - interval '3 days' WHERE id < 4")
    day = states.database.run("SELECT (now() - interval '3 days')::date::text")[0][0]
    states.do("rollback", name="web", revision=1)
    states.do("restore", minion="web", day=day)
    assert {key: value for key, value in packages(states, "web").items() if value != "unmanaged"} == wanted
    for wrong in ({}, {"generation": 1, "day": day}, {"generation": 99}, {"generation": "x"}, {"day": "then"}):
        assert "error" in states.answer("restore", minion="web", **wrong), wrong
    assert "error" in states.answer("restore", minion="web", day="2001-01-01")
    # the next look changes nothing
    before = states.do("generations", minion="web")
    states.do("compile")
    assert states.do("generations", minion="web") == before


def test_a_restore_counts_with_what_is_saved_meanwhile(states: States) -> None:
    """What another state says since is released as well."""
    states.do("create", name="front")
    states.do("assign", name="front", kind="group", target="b")
    states.set("front", "foo", "latest")
    with ThreadPoolExecutor() as pool, closing(psycopg2.connect(states.database.server.dsn)) as connection:
        connection.autocommit = True
        cursor = connection.cursor()
        cursor.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        restored = pool.submit(states.do, "restore", minion="web", generation=1)
        until(lambda: states.database.run(WAITS)[0][0] > 0, Deadline(30), lambda: "nobody restores")
        items = [{"package": one, "wanted": "latest"} for one in ("bar", "foo")]
        cursor.execute(
            "INSERT INTO package_states.revision (state_id, number, parent, contents, author, items)"
            " SELECT id, 2, 1, 2, 'bob', %s FROM package_states.state WHERE name = 'front'",
            [json.dumps(items)],
        )
        cursor.execute("SELECT pg_advisory_unlock(%s)", [LOCK])
        restored.result()
    assert states.do("show", name="web")["packages"] == {"foo": "latest", "bar": "unmanaged"}


def test_a_restore_knows_the_architecture_of_the_minion(states: States) -> None:
    """What a state calls by the name with its own architecture is the same package."""
    states.do("create", name="front")
    states.do("assign", name="front", kind="group", target="b")
    states.set("front", "foo:amd64", "latest")
    states.set("front", "bar:amd64", "latest")
    states.do("restore", minion="web", generation=1)
    assert states.do("show", name="web")["packages"] == {"foo": "latest", "bar": "unmanaged"}
    found = states.do("verdicts", minion="web")
    assert (found["current"], found["errors"]) == (True, {})
    assert found["packages"]["foo"]["source"] == "own web"
