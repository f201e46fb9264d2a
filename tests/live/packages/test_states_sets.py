"""Everything as one text: out of a master, and into one; and what cannot be written is made up for."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg2
import pytest

from harness.database import sources
from harness.processes.deadline import Deadline, until
from harness.saltprocess.patched import Salt, patched
from tests.live.helpers.package_states import LOCK, MINIONS, WAITS, States

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.database import Postgres

pytestmark = [pytest.mark.live, pytest.mark.long]
SET = """\
package_states: 1
states:
  base:
    packages: {vim: latest}
    assigned:
      - {organization: all}
  front:
    packages:
      foo: installed >=1.10,<2.0
      bar:i386: removed
    assigned:
      - {group: b, priority: 10}
      - {grains: "os_family:Debian"}
  web:
    packages: {own: kept =1}
"""
TEXT = "package_states: 1\nstates:\n  front: {packages: {foo: latest}, assigned: [{group: b}]}\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """Yield a server."""
    with sources.served(tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture(scope="module")
def salt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Salt]:
    """Yield the patched Salt."""
    with patched(tmp_path_factory.mktemp("salt")) as found:
        for minion in MINIONS:
            found.act("grains", minion, {"os_family": "Debian", "osarch": "amd64", "role": "front"})
        yield found


@pytest.fixture
def states(server: Postgres, salt: Salt, tmp_path: Path, request: pytest.FixtureRequest) -> States:
    """Return an empty set of states with three minions: web is in the groups a and b, web1.example.com in b."""
    made = sources.make(server, f"sets_{abs(hash(request.node.nodeid))}")
    found = States(salt, made, tmp_path, "keys", "ann")
    keys = tmp_path / "pki" / "minions"
    keys.mkdir(parents=True)
    for minion in MINIONS:
        (keys / minion).write_text(f"key of {minion}")
    found.do("setup")
    return found


def _packages(states: States, minion: str) -> dict[str, str]:
    return {name: row["verdict"] for name, row in states.wanted(minion).items()}


def test_a_set_goes_out_and_into_an_empty_master(
    states: States, server: Postgres, salt: Salt, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The same text and the same files; a dry run says what comes of it."""
    plan = states.do("load", text=SET, dry_run=True)
    assert plan["states"]["front"]["new"] is True
    assert states.do("show") == {}
    done = states.do("load", text=SET, comment="as of 4f0c2a1")
    assert (plan["states"], plan["minions"]) == (done["states"], done["minions"])
    assert _packages(states, "web") == {"vim": "latest", "own": "kept =1", "foo": "installed >=1.10,<2.0"} | {
        "bar:i386": "removed"
    }
    assert states.do("refresh")["files"] == []
    again = states.do("load", text=SET)
    assert (again["states"], again["minions"]) == ({}, [])
    text = states.do("export")
    again = states.do("load", text=text, prune=True)
    assert (again["states"], again["minions"]) == ({}, [])

    # some history, so that numbers of revisions differ
    states.do("set", name="front", package="more", wanted="latest")
    states.do("unset", name="front", package="more")
    assert states.do("export") == text

    made = sources.make(server, "sets_other")
    root = tmp_path_factory.mktemp("other")
    other = States(salt, made, root, "keys", "carol")
    (root / "pki").symlink_to(states.root / "pki")
    other.do("setup")
    other.do("load", text=text)
    assert other.do("export") == text
    states.do("refresh")
    assert other.files() == states.files()
    path = str(root / "set.yaml")
    assert other.do("export", path=path)["states"] == 3
    assert other.do("load", path=path)["states"] == {}

    # what is not in the text is emptied on demand only
    small = "package_states: 1\nstates: {}\n"
    assert other.do("load", text=small)["states"] == {}
    assert set(other.do("load", text=small, prune=True, dry_run=True)["states"]) == {"base", "front", "web"}


def test_a_set_is_saved_whole_or_not_at_all(states: States) -> None:
    """A conflict, a protected package or an unknown group at its end, and nothing of the set is there."""
    good = "package_states: 1\nstates:\n  a: {packages: {foo: latest}, assigned: [{group: b}]}\n"
    bad = (
        "  z: {packages: {foo: removed}, assigned: [{group: b}]}",
        "  z: {packages: {bash: removed}}",
        "  z: {packages: {foo: latest}, assigned: [{group: nobody}]}",
        "  z: {assigned: [{minion: nobody}]}",
        "  web: {assigned: [{group: b}]}",
        "  z: {packages: {foo: latest, foo: removed}}",
    )
    for line in bad:
        assert "\n" not in states.refused("load", text=f"{good}{line}\n"), line
        assert states.do("show") == {}, line
    for line in bad[1:4]:
        assert states.refused("load", text=f"{good}{line}\n").startswith("state z: "), line
    assert "no path" in states.refused("load")
    assert "can't be read" in states.refused("load", path="/nope")
    # what a file of the master holds is not shown
    secret = states.root / "secret"
    secret.write_text("root:$6$hash: [x\n")
    assert "hash" not in states.refused("load", path=str(secret))
    states.do("load", text=good)
    assert _packages(states, "web") == {"foo": "latest"}


def test_a_set_does_not_undo_what_somebody_else_did(states: States) -> None:
    """With what was exported before the change; what others did elsewhere, or alike, is no matter."""
    for name in ("one", "two"):
        states.set(name, "foo", "latest")
    seen = str(states.root / "seen.yaml")
    states.do("export", path=seen)
    text = states.do("export").replace("latest", "removed", 1)
    states.by("bob").do("assign", name="one", kind="group", target="b")
    states.by("bob").set("two", "bar", "latest")
    assert states.refused("load", text=text, seen=seen).startswith("Somebody changed one, two since; ")
    assert states.do("show", name="one")["packages"] == {"foo": "latest"}
    alone = "package_states: 1\nstates:\n  three: {packages: {foo: latest}}\n"
    assert "Somebody changed one, two since" in states.refused("load", text=alone, seen=seen, prune=True)
    states.do("load", text=alone, seen=seen)
    states.do("load", text=alone, seen=seen)
    states.do("unassign", name="one", kind="group", target="b")
    states.by("bob").do("unset", name="two", package="bar")
    states.do("load", text=text, seen=seen)
    assert states.do("show", name="one")["packages"] == {"foo": "removed"}
    assert "is no YAML" in states.refused("load", text=text, seen=str(states.root / "susemanager" / "packages.sls"))
    assert "can't be read" in states.refused("load", text=text, seen="/nope")


@pytest.fixture
def front(states: States) -> None:
    """Have a state that applies to the minions web and web1.example.com."""
    states.do("set", name="front")
    states.do("assign", name="front", kind="group", target="b")


def _file(states: States, minion: str) -> Path:
    """Return the file of a minion."""
    return states.root / "susemanager" / f"packages-{minion}.sls"


@pytest.mark.usefixtures("front")
def test_one_file_that_can_not_be_written_stops_no_other(states: States) -> None:
    """All others are written, those of who is gone are removed, and the error names the first and how many."""
    states.set("db", "own", "latest")
    for minion in ("web", "web1.example.com"):
        _file(states, minion).unlink(missing_ok=True)
    _file(states, "web").mkdir()
    error = states.refused("set", name="front", package="foo", wanted="latest")
    assert "packages-web.sls can't be written: Is a directory" in error
    assert "package_states.refresh" in error
    assert "foo" in _file(states, "web1.example.com").read_text()
    (states.root / "pki" / "minions" / "db").unlink()
    _file(states, "web1.example.com").write_text("# package states\n")
    assert "Is a directory" in states.refused("refresh")
    assert not _file(states, "db").exists()
    assert "foo" in _file(states, "web1.example.com").read_text()
    _file(states, "web").rmdir()
    assert states.do("refresh")["files"] == ["web"]


@pytest.mark.usefixtures("front")
@pytest.mark.parametrize("command", ["set", "load"])
def test_a_repeated_command_makes_up_for_a_file(states: States, command: str) -> None:
    """Whatever happened to the file between, the same command again leaves it right, and says that it did."""
    arguments: dict[str, dict[str, object]] = {
        "set": {"name": "front", "package": "foo", "wanted": "latest"},
        "load": {"text": TEXT},
    }
    states.do(command, **arguments[command])
    good = states.files()
    for text in (b"", b"\xff\xfe no text"):
        _file(states, "web").write_bytes(text)
        assert states.do("status", minion="web", table=False)["current"] is False
        assert states.do(command, **arguments[command])["files"] == ["web"]
        assert states.files() == good
    _file(states, "web").write_bytes(b"\xff")
    assert states.do("refresh")["files"] == ["web"]
    assert states.files() == good


@pytest.mark.usefixtures("front")
def test_a_fleet_that_vanishes_keeps_its_files(states: States) -> None:
    """Their keys are not mounted, say: no file goes, and that is said; with one minion there, who is gone is gone."""
    states.set("front", "foo", "latest")
    keys = states.root / "pki" / "minions"
    keys.rename(states.root / "away")
    keys.mkdir()
    before = states.files()
    assert len(before) == 2
    for _ in range(2):
        found = states.do("refresh")
        assert "no minion at all" in found["errors"]["*"]
        assert (found["removed"], states.files()) == ([], before)
    (keys / "web").write_text("key of web")
    found = states.do("refresh")
    assert (found["removed"], found["errors"]) == (["web1.example.com"], {})
    # the last one may go
    (keys / "web").unlink()
    assert states.do("refresh")["removed"] == ["web"]


@pytest.mark.usefixtures("front")
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
    assert "package_states.refresh" in error
    assert "foo" not in str(states.files())
    states.database.run("DROP TRIGGER cut ON package_states.revision")
    states.set("front", "foo", "latest")
    assert "foo" in _file(states, "web").read_text()


@pytest.mark.usefixtures("front")
def test_a_server_that_only_reads(states: States) -> None:
    """A standby, after a failover: the error names the option."""
    name = states.database.server.database
    states.database.alone(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    assert "name one that writes" in states.refused("set", name="front", package="foo", wanted="latest")
    assert states.do("show")["front"]["revision"] == 0


@pytest.mark.usefixtures("front")
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


@pytest.mark.usefixtures("front")
def test_nothing_is_compared_with_what_somebody_is_changing(states: States) -> None:
    """While somebody saves, minions are pending, and nobody waits; what was compared stays."""
    states.set("front", "foo", "installed", "=1.0")
    states.send("web", {"foo": {"versions": ["1.0"], "available": ["1.0"]}})
    for verdict in ("pending", "consistent"):
        with closing(psycopg2.connect(states.database.server.dsn)) as connection:
            connection.cursor().execute(LOCK)
            assert states.do("status", table=False)["counts"][verdict] == 1
        assert states.do("status", table=False)["counts"]["consistent"] == 1
    # and a look leaves no lock behind
    states.set("front", "foo", "latest")


@pytest.mark.usefixtures("front")
def test_somebody_else_saves_for_long(states: States) -> None:
    """Whoever waited for as long as a statement may take is told what for."""
    name = states.database.server.database
    states.database.alone(f"ALTER DATABASE {name} SET lock_timeout = '100ms'")
    with closing(psycopg2.connect(states.database.server.dsn)) as connection:
        connection.cursor().execute(LOCK)
        assert "somebody else has been saving" in states.refused("set", name="front", package="foo", wanted="latest")
    states.set("front", "foo", "latest")


def test_two_own_states_of_a_renamed_minion_are_an_error(states: States) -> None:
    """Nothing is moved and no file is written until somebody empties the old one."""
    keys = states.root / "pki" / "minions"
    states.set("web", "foo", "latest")
    states.do("refresh")
    (keys / "new").write_text("key of web")
    states.set("new", "bar", "latest")
    (keys / "web").unlink()
    for _ in range(2):
        assert "new was web, and there is a state of either name" in states.do("refresh")["errors"]["new"]
    assert "packages-new.sls" not in states.files() or b"foo" not in states.files()["packages-new.sls"]
    found = states.do("where", package="bar")
    assert (found["counts"]["halted"], found["minions"]) == (0, [])
    states.do("restore", name="web", revision=0)
    assert states.do("refresh")["errors"] == {}
    assert set(states.wanted("new")) == {"bar"}
