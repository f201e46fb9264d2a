"""Package states whose files or database are out of order: what can be written is, and the rest is made up for."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg2
import pytest

from harness.processes.deadline import Deadline, until
from tests.live.package_states import LOCK, WAITS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.live.package_states import States

pytestmark = [pytest.mark.live, pytest.mark.long]
TEXT = "package_states: 1\nstates:\n  front: {packages: {foo: latest}, assigned: [{group: b}]}\n"


@pytest.fixture(autouse=True)
def front(states: States) -> None:
    """Have a state that applies to the minions web and web1.example.com."""
    states.do("create", name="front")
    states.do("assign", name="front", kind="group", target="b")


def _file(states: States, minion: str) -> Path:
    """Return the file of a minion."""
    return states.root / "susemanager" / f"packages-{minion}.sls"


def test_one_file_that_can_not_be_written_stops_no_other(states: States) -> None:
    """All others are written, those of who is gone are removed, and the error names the first and how many."""
    states.set("db", "own", "latest")
    for minion in ("web", "web1.example.com"):
        _file(states, minion).unlink(missing_ok=True)
    _file(states, "web").mkdir()
    error = states.refused("set", name="front", package="foo", wanted="latest")
    assert "packages-web.sls can't be written: Is a directory" in error
    assert "package_states.compile" in error
    assert "foo" in _file(states, "web1.example.com").read_text()
    (states.root / "pki" / "minions" / "db").unlink()
    _file(states, "web1.example.com").write_text("# package states\n")
    assert "Is a directory" in states.refused("compile")
    assert not _file(states, "db").exists()
    assert "foo" in _file(states, "web1.example.com").read_text()
    _file(states, "web").rmdir()
    assert states.do("compile")["files"] == ["web"]


@pytest.mark.parametrize("command", ["set", "promote", "apply"])
def test_a_repeated_command_makes_up_for_a_file(states: States, command: str) -> None:
    """Whatever happened to the file between, the same command again leaves it right, and says that it did."""
    if command == "promote":
        states.do("stages", wanted="dev,test,prod")
        states.do("assign", name="front", kind="group", target="b", stage="test")
        states.set("front", "foo", "latest")
    arguments: dict[str, dict[str, object]] = {
        "set": {"name": "front", "package": "foo", "wanted": "latest"},
        "promote": {"name": "front", "stage": "test"},
        "apply": {"text": TEXT},
    }
    states.do(command, **arguments[command])
    good = states.files()
    for text in (b"", b"\xff\xfe no text"):
        _file(states, "web").write_bytes(text)
        assert states.do("verdicts", minion="web")["current"] is False
        assert states.do(command, **arguments[command])["files"] == ["web"]
        assert states.files() == good
    _file(states, "web").write_bytes(b"\xff")
    assert states.do("compile")["files"] == ["web"]
    assert states.files() == good


def test_a_fleet_that_vanishes_keeps_its_files(states: States) -> None:
    """Their keys are not mounted, say: no file goes, and that is said; with one minion there, who is gone is gone."""
    states.set("front", "foo", "latest")
    keys = states.root / "pki" / "minions"
    keys.rename(states.root / "away")
    keys.mkdir()
    before = states.files()
    assert len(before) == 2
    for _ in range(2):
        found = states.do("compile")
        assert "no minion at all" in found["errors"]["*"]
        assert (found["removed"], states.files()) == ([], before)
    (keys / "web").write_text("key of web")
    found = states.do("compile")
    assert (found["removed"], found["errors"]) == (["web1.example.com"], {})
    # the last one may go
    (keys / "web").unlink()
    assert states.do("compile")["removed"] == ["web"]


def test_a_connection_that_breaks_in_the_commit(states: States) -> None:
    """Nobody knows whether that is saved, and the error says what to do."""
    states.database.run(
        "CREATE FUNCTION cut() RETURNS TRIGGER LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;"
        "CREATE CONSTRAINT TRIGGER cut AFTER INSERT ON package_states.revision DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION cut()"
    )
    error = states.refused("set", name="front", package="foo", wanted="latest")
    assert "may be saved or not" in error
    assert "package_states.compile" in error
    assert "foo" not in str(states.files())
    states.database.run("DROP TRIGGER cut ON package_states.revision")
    states.set("front", "foo", "latest")
    assert "foo" in _file(states, "web").read_text()


def test_a_server_that_only_reads(states: States) -> None:
    """A standby, after a failover: the error names the option."""
    name = states.database.server.database
    states.database.alone(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    assert "name one that writes" in states.refused("set", name="front", package="foo", wanted="latest")
    assert states.do("list")["front"]["revision"] == 0


def test_a_list_that_comes_while_the_old_one_is_compared(states: States) -> None:
    """What was found of the old one is not kept: the minion is pending, and drifts at the next look."""
    states.set("front", "foo", "installed", "=1.0")
    states.send("web", {"foo": {"versions": ["1.0"], "available": ["1.0"]}})
    with ThreadPoolExecutor() as pool, closing(psycopg2.connect(states.database.server.dsn)) as connection:
        cursor = connection.cursor()
        # reads go on, and what is written waits
        cursor.execute("LOCK TABLE package_states.minion_status IN SHARE MODE")
        looked = pool.submit(states.do, "status", table=False)
        until(lambda: states.database.run(WAITS)[0][0] > 0, Deadline(30), lambda: "nobody compares")
        cursor.execute(
            "UPDATE package_states.package_list SET refreshed = clock_timestamp(), packages = %s"
            " WHERE minion_id = 'web'",
            [json.dumps({"foo": {"versions": ["2.0"], "available": ["2.0"]}})],
        )
        connection.commit()
        assert looked.result()["counts"]["pending"] == 1
    assert states.do("status", table=False)["counts"]["drifting"] == 1


def test_nothing_is_compared_with_what_somebody_is_changing(states: States) -> None:
    """While somebody saves, minions are pending, and nobody waits; what was compared stays."""
    states.set("front", "foo", "installed", "=1.0")
    states.send("web", {"foo": {"versions": ["1.0"], "available": ["1.0"]}})
    with closing(psycopg2.connect(states.database.server.dsn)) as connection:
        connection.cursor().execute("SELECT pg_advisory_lock(%s)", [LOCK])
        assert states.do("status", table=False)["counts"]["pending"] == 1
    assert states.do("status", table=False)["counts"]["consistent"] == 1
    with closing(psycopg2.connect(states.database.server.dsn)) as connection:
        connection.cursor().execute("SELECT pg_advisory_lock(%s)", [LOCK])
        assert states.do("status", table=False)["counts"]["consistent"] == 1
    # and a look leaves no lock behind
    states.set("front", "foo", "latest")


def test_somebody_else_saves_for_long(states: States) -> None:
    """Whoever waited for as long as a statement may take is told what for."""
    name = states.database.server.database
    states.database.alone(f"ALTER DATABASE {name} SET lock_timeout = '100ms'")
    with closing(psycopg2.connect(states.database.server.dsn)) as connection:
        connection.cursor().execute("SELECT pg_advisory_lock(%s)", [LOCK])
        assert "somebody else has been saving" in states.refused("set", name="front", package="foo", wanted="latest")
    states.set("front", "foo", "latest")
