"""Changes of pillars in PostgreSQL: who is touched, what was lost and found, and how to go back."""

from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg2
import pytest
from saltext.uyuni_pillar import connection

from harness.bed import Bed, BedSettings
from harness.database import sources
from harness.processes.deadline import Deadline, until
from tests.halts import halted
from tests.live.helpers import real_minion
from tests.live.helpers.changed_pillars import EVERYBODY, KINDS, copied, model, since
from tests.live.helpers.changed_pillars import ROWS as OWN
from tests.live.helpers.cut_network import cut_network
from tests.live.helpers.pillar_files import OWNERS, install, psql
from tests.live.helpers.pillar_servers import missing, servers

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("psql") is None, reason="needs psql: `apt-get install postgresql-client`"),
]
ROWS = """
INSERT INTO suseSaltPillars (category, pillar) VALUES ('all', '{"all": 1}');
INSERT INTO suseSaltPillars (org_id, category, pillar) VALUES (1, 'org', '{"org": 1}');
"""
TOUCHED = {
    "UPDATE suseSaltPillars SET pillar = '{\"own\": 2}' WHERE server_id = 1": ["web1"],
    "INSERT INTO suseSaltPillars (server_id, category, pillar) VALUES (2, 'own', '{}')": ["web2"],
    "DELETE FROM suseSaltPillars WHERE server_id = 3": ["other"],
    "UPDATE suseSaltPillars SET pillar = '{\"group\": 2}' WHERE group_id = 1": ["web1", "web2"],
    "INSERT INTO suseSaltPillars (group_id, category, pillar) VALUES (2, 'db', '{}')": ["web1"],
    "UPDATE suseSaltPillars SET pillar = '{\"org\": 2}' WHERE org_id = 1": ["web1", "web2"],
    "UPDATE suseSaltPillars SET pillar = '{\"all\": 2}' WHERE category = 'all'": EVERYBODY,
    "UPDATE suseSaltPillars SET server_id = 2 WHERE server_id = 3": ["other", "web2"],
    "UPDATE suseSaltPillars SET pillar = '{\"own\": 1.0}' WHERE server_id = 1": ["web1"],
    "UPDATE suseSaltPillars SET id = DEFAULT, pillar = '{}' WHERE server_id = 1": ["web1"],
    # nothing changes
    "UPDATE suseSaltPillars SET pillar = pillar": [],
    "DELETE FROM suseSaltPillars WHERE server_id = 99": [],
    # its pillars go with it, and nobody is left to be refreshed
    "DELETE FROM rhnServer WHERE id = 3": [],
    # no row of a pillar changes, and pillars do
    "INSERT INTO rhnServerGroupMembers (server_id, server_group_id) VALUES (3, 1)": ["other"],
    "DELETE FROM rhnServerGroupMembers WHERE server_id = 2 AND server_group_id = 1": ["web2"],
    "UPDATE rhnServerGroupMembers SET server_id = 3 WHERE server_id = 2 AND server_group_id = 1": ["other", "web2"],
    "DELETE FROM rhnServerGroup WHERE id = 1": ["web1", "web2"],
    # its pillar goes first
    "DELETE FROM suseSaltPillars WHERE group_id = 1; DELETE FROM rhnServerGroupMembers WHERE server_id = 2": [
        "web1",
        "web2",
    ],
    "UPDATE rhnServer SET org_id = 2 WHERE id = 1": ["web1"],
    "UPDATE suseMinionInfo SET minion_id = 'renamed' WHERE server_id = 1": ["renamed"],
    "TRUNCATE rhnServerGroupMembers": EVERYBODY,
    # and neither do these: the group 2 has no pillar
    "DELETE FROM rhnServerGroupMembers WHERE server_group_id = 2": [],
    "UPDATE rhnServer SET name = 'x', org_id = org_id": [],
    "UPDATE suseMinionInfo SET minion_id = minion_id, server_id = server_id": [],
}


@pytest.fixture(scope="module", params=KINDS)
def template(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[sources.Database]:
    """Yield a database with pillars, over our table and over Uyuni's."""
    with model(request.param, tmp_path_factory.mktemp("server"), ROWS) as made:
        yield made


@pytest.fixture
def database(template: sources.Database, request: pytest.FixtureRequest) -> Iterator[sources.Database]:
    """Yield a copy of the database."""
    with copied(template, request.node.name) as made:
        yield made


@pytest.mark.parametrize(("statement", "minions"), TOUCHED.items())
def test_change_touches_minions(database: sources.Database, statement: str, minions: list[str]) -> None:
    """Those whose pillar it is in, once; the bell rings if there are any."""
    snapshot, found = since(database)
    assert found == []
    with closing(psycopg2.connect(database.server.dsn)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute("LISTEN suse_salt_pillar")
        database.run(statement)
        cursor.execute("SELECT 1")
        is_noted = bool(minions) or "rhnServer WHERE" in statement or "rhnServerGroupMembers" in statement
        assert [one.channel for one in connection.notifies] == ["suse_salt_pillar"] * is_noted
    snapshot, found = since(database, snapshot)
    assert found == minions
    assert since(database, snapshot)[1] == []


def test_transaction_that_ends_late_is_not_missed(database: sources.Database) -> None:
    """One that began before others, and is committed after somebody asked, is in the next answer, and in no other."""
    snapshot, _ = since(database)
    with closing(psycopg2.connect(database.server.dsn)) as late, late.cursor() as cursor:
        cursor.execute("UPDATE suseSaltPillars SET pillar = '{\"own\": 2}' WHERE server_id = 1")
        database.run("UPDATE suseSaltPillars SET pillar = '{\"own\": 4}' WHERE server_id = 3")
        snapshot, minions = since(database, snapshot)
        assert minions == ["other"]
        late.commit()
    snapshot, minions = since(database, snapshot)
    assert minions == ["web1"]
    assert since(database, snapshot)[1] == []


def test_snapshot_of_another_server_is_everything(database: sources.Database) -> None:
    """After a restore nothing is known of what was heard of."""
    assert since(database, "999999999:999999999:")[1] == EVERYBODY


def test_history_tells_and_goes_back(database: sources.Database) -> None:
    """Who, when, from, to; each change can be undone, whatever it was."""
    database.run("UPDATE suseSaltPillars SET pillar = '{\"own\": 2}' WHERE server_id = 1")
    database.run("DELETE FROM suseSaltPillars WHERE server_id = 1")
    history = "SELECT id, changed_by, before, after FROM suseSaltPillarHistory WHERE server_id = 1 ORDER BY id"
    added, changed, deleted = database.run(history)
    assert [row[1:] for row in (added, changed, deleted)] == [
        ("saltbed", None, {"own": 1}),
        ("saltbed", {"own": 1}, {"own": 2}),
        ("saltbed", {"own": 2}, None),
    ]
    now = "SELECT pillar FROM suseSaltPillars WHERE server_id = 1"
    for change, expected in ((deleted, [({"own": 2},)]), (changed, [({"own": 1},)]), (added, [])):
        database.run("SELECT suse_salt_pillar_restore(%s)", change[0])
        assert database.run(now) == expected
    # going back is a change as well
    assert len(database.run(history)) == 6
    with pytest.raises(psycopg2.errors.RaiseException, match="has no change 999"):
        database.run("SELECT suse_salt_pillar_restore(999)")


def test_history_may_keep_no_values(database: sources.Database) -> None:
    """Then minions are refreshed all the same, nothing can be restored, and no row is taken for a new one."""
    database.run("CREATE OR REPLACE FUNCTION suse_salt_pillar_history() RETURNS BOOLEAN LANGUAGE sql AS 'SELECT false'")
    snapshot, _ = since(database)
    database.run("UPDATE suseSaltPillars SET pillar = '{\"secret\": 2}' WHERE server_id = 1")
    assert since(database, snapshot)[1] == ["web1"]
    ((change, before, after),) = database.run(
        "SELECT id, before, after FROM suseSaltPillarHistory WHERE server_id = 1 ORDER BY id DESC LIMIT 1"
    )
    assert (before, after) == (None, None)
    with pytest.raises(psycopg2.errors.RaiseException, match="none with its values"):
        database.run("SELECT suse_salt_pillar_restore(%s)", change)
    assert database.run("SELECT pillar FROM suseSaltPillars WHERE server_id = 1") == [({"secret": 2},)]


def test_server_that_never_answers_is_given_up(database: sources.Database) -> None:
    """A process of the server that is stopped takes a query, and neither answers nor goes: one would wait for ever."""
    params = connection.get_params({"postgres": database.server.salt_options()})
    with closing(connection.Connection(0.5, **params)) as found:
        found.execute("SELECT pg_backend_pid()")
        ((pid,),) = found.fetchall()
        with (
            halted(pid),
            pytest.raises(psycopg2.OperationalError, match=r"no answer from the server in 0\.5 seconds"),
        ):
            found.execute("SELECT 1")


def test_ten_thousand_rows_are_one_bell(database: sources.Database) -> None:
    """A statement that changes many rows notes them in one go."""
    database.run("INSERT INTO rhnServer SELECT n, 2, 's' || n FROM generate_series(10, 10009) n")
    database.run("INSERT INTO suseMinionInfo SELECT n, 's' || n FROM generate_series(10, 10009) n")
    rows = (
        "INSERT INTO suseSaltPillars (server_id, category, pillar) SELECT id, 'x', '{}' FROM rhnServer WHERE id >= 10"
    )
    snapshot, _ = since(database)
    with closing(psycopg2.connect(database.server.dsn)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute("LISTEN suse_salt_pillar")
        database.run(rows)
        cursor.execute("SELECT 1")
        assert len(connection.notifies) == 1
    assert len(since(database, snapshot)[1]) == 10_000


def test_triggers_are_gone_with_their_functions(database: sources.Database) -> None:
    """What the page says to turn them off leaves none, and changes of tables work on."""
    names = ("changed", "moved")
    database.run(f"DROP FUNCTION {', '.join(f'suse_salt_pillar_{name}' for name in names)} CASCADE")
    assert database.run("SELECT tgname FROM pg_trigger WHERE tgname LIKE 'suse_salt_pillar%'") == []
    database.run("DELETE FROM suseSaltPillars; DELETE FROM rhnServerGroup; DELETE FROM rhnServer")


def test_file_needs_the_table(template: sources.Database) -> None:
    """Without pillars the file ends with its first statement."""
    empty = sources.make(template.server, f"empty_{template.server.port}")
    done = psql(empty, "pillar_changes.sql")
    assert done.returncode == 3
    assert "suse_salt_pillar_trusted() does not exist" in done.stderr


@pytest.mark.needs_root
@pytest.mark.skipif(bool(missing()), reason=missing())
@pytest.mark.parametrize("kill", [False, True])
def test_server_that_restarts_loses_no_change(kill: bool) -> None:  # noqa: FBT001 - of parametrize
    """What changed before it went and after it came back is in the next answer, though nobody heard of it."""
    with (
        tempfile.TemporaryDirectory(dir="/tmp", prefix="changes-") as name,
        cut_network() as network,
        servers(network, Path(name)) as found,
    ):
        made = sources.make(found.postgres(database="postgres"), "changes")
        install(made, "uyuni.sql", "pillar.sql", "pillar_changes.sql")
        made.run(OWNERS + OWN)
        snapshot, _ = since(made)
        listening = connection.Connection(**connection.get_params({"postgres": made.server.salt_options()}))
        with closing(listening):
            listening.execute("LISTEN suse_salt_pillar")
            made.run("UPDATE suseSaltPillars SET pillar = '{\"own\": 2}' WHERE server_id = 1")
            found.stop(found.primary, kill=kill)
            found.start(found.primary)
            made.run("UPDATE suseSaltPillars SET pillar = '{\"own\": 4}' WHERE server_id = 3")
            # the end comes after what was on its way
            with pytest.raises(psycopg2.OperationalError):
                any(listening.notified(1) > 1 for _ in range(30))
        snapshot, minions = since(made, snapshot)
        assert minions == ["other", "web1"]
        assert since(made, snapshot)[1] == []


def test_connection_of_the_engine(database: sources.Database) -> None:
    """It receives notifications while it waits and while it asks, and has the SQLSTATE of an error."""
    server = database.server
    with closing(connection.Connection(**connection.get_params({"postgres": server.salt_options()}))) as found:
        found.execute("SELECT 1; LISTEN suse_salt_pillar")
        assert not found.notified(0)
        for number in range(3):
            database.run("UPDATE suseSaltPillars SET pillar = %s WHERE server_id = 1", json.dumps({"own": number}))
            if number:
                found.execute("SELECT %s::text, 1", ["a"])
                assert found.fetchall() == [("a", 1)]
            assert found.notified(30)
            assert not found.notified(0)
        with pytest.raises(psycopg2.Error) as caught:
            found.execute("SELECT * FROM nosuch")
        assert caught.value.pgcode == "42P01"
        database.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%nosuch'")
        with pytest.raises(psycopg2.Error):
            until(lambda: found.notified(1), Deadline(30), lambda: "nobody noticed")


def test_minion_has_its_new_pillar_by_itself(root: Path, tmp_path: Path) -> None:
    """A row changes, and the minion knows, also when nobody listened for a while.

    Minions of another master, which this one does not know, are listed first and left out.
    """
    engine = {"pillar_changes": {"debounce": 0.2, "batch": 2, "check": 300}}
    settings = BedSettings(
        tree=root / "salt", folder=tmp_path / "bed", minions=0, api=None, master_options={"engines": [engine]}
    )
    with Bed(settings) as bed:
        database = sources.Database(bed.postgres)
        install(database, "pillar_changes.sql")
        real_minion.start(bed, "real")
        database.run(OTHERS)
        change = "UPDATE suseSaltPillars SET pillar = pillar || %s WHERE server_id > 0 AND category = 'custom-info'"

        def known() -> Any:
            done = bed.salt(["real", "pillar.get", "news", "unmask=True", "--out=json", "--static"], timeout=60)
            return json.loads(done.stdout).get("real")

        def arrived(number: int) -> bool:
            return bool(known() == number)

        # the engine may not listen yet
        until(lambda: _sessions(database) > 0, Deadline(60), lambda: "the engine does not listen")
        for number in (1, 2):
            database.run(change, json.dumps({"news": number}))
            until(partial(arrived, number), Deadline(60), lambda: f"no news, {known()}")
            # the next one is rung for while nobody listens: it is caught up after the restart
            database.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {LISTENING}")  # noqa: S608 - own text


def test_minion_gets_a_change_after_a_restart_or_an_outage(root: Path, tmp_path: Path) -> None:
    """What changed while the master was down arrives, and a refresh that failed in an outage is repeated."""
    engine = {"pillar_changes": {"debounce": 0.2, "check": 300}}
    settings = BedSettings(
        tree=root / "salt", folder=tmp_path / "bed", minions=0, api=None, master_options={"engines": [engine]}
    )
    with Bed(settings) as bed:
        database = sources.Database(bed.postgres)
        install(database, "pillar_changes.sql")
        real_minion.start(bed, "real")
        change = "UPDATE suseSaltPillars SET pillar = pillar || %s WHERE server_id > 0 AND category = 'custom-info'"

        def local(*arguments: str) -> Any:
            done = bed.salt(["real", *arguments, "--out=json", "--static"], timeout=60)
            return json.loads(done.stdout).get("real") if done.stdout.strip() else None

        def arrived(number: int) -> bool:
            return bool(local("pillar.get", "news", "unmask=True") == number)

        until(lambda: _sessions(database) > 0, Deadline(60), lambda: "the engine does not listen")
        for number in range(1, 4):
            # nobody listens when it changes
            database.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {LISTENING}")  # noqa: S608 - own text
            database.run(change, json.dumps({"news": number}))
            bed.restart_master()
            until(partial(arrived, number), Deadline(60), lambda: "the change is lost")
        # an outage: the connections end, and no new ones are let in
        role = bed.postgres.database
        admin = replace(bed.postgres, database="template1")
        sources.Database(admin).alone(f'ALTER DATABASE "{role}" ALLOW_CONNECTIONS false')
        sources.Database(admin).run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", role)
        assert local("saltutil.refresh_pillar", "wait=True") is True
        assert local("pillar.get", "news", "unmask=True") == ""
        sources.Database(admin).alone(f'ALTER DATABASE "{role}" ALLOW_CONNECTIONS true')
        until(partial(arrived, 3), Deadline(120), lambda: "the pillar stays empty")


OTHERS = """
INSERT INTO rhnServer (id, org_id, name)
    SELECT 900000 + n, max(org_id), 'a' || n FROM rhnServer, generate_series(1, 5) AS n GROUP BY n;
INSERT INTO suseMinionInfo (server_id, minion_id) SELECT id, name FROM rhnServer WHERE id > 900000;
INSERT INTO suseSaltPillars (server_id, category, pillar)
    SELECT id, 'custom-info', '{}' FROM rhnServer WHERE id > 900000;
"""
LISTENING = "query LIKE '%suse_salt_pillar%' AND pid <> pg_backend_pid() AND backend_type = 'client backend'"


def _sessions(database: sources.Database) -> int:
    """Return how many sessions have asked for changes last."""
    return int(database.run(f"SELECT count(*) FROM pg_stat_activity WHERE {LISTENING}")[0][0])  # noqa: S608 - own text
