"""The role of a master may fetch pillars and nothing else, and its password comes from where libpq looks for it."""

from __future__ import annotations

import shutil
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import psycopg2
import pytest

from harness.database import sources
from harness.processes.deadline import Deadline, until
from harness.saltprocess.patched import Salt, options, patched
from tests.live.helpers.pillar_files import OWNERS, UYUNI, as_role, install, psql

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.database import Postgres

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("psql") is None, reason="needs psql: `apt-get install postgresql-client`"),
]
SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'reader'"
PASSWORD = "first"
ROWS = """
INSERT INTO suseSaltPillars (category, pillar) VALUES ('all', '{"all": 1}');
INSERT INTO suseSaltPillars (server_id, category, pillar) VALUES (1, 'own', '{"own": 1}'), (3, 'own', '{"own": 3}');
"""
# each of them was tried with success as a superuser first, see the test
ATTEMPTS = {
    "read the pillars": "SELECT * FROM suseSaltPillars",
    "read the minions": "SELECT * FROM suseMinionInfo",
    "read the servers": "SELECT * FROM rhnServer",
    "read the groups": "SELECT * FROM rhnServerGroupMembers",
    "read the organisations": "SELECT * FROM web_customer",
    "read the history": "SELECT * FROM suseSaltPillarHistory",
    "pretend an answer": "INSERT INTO suseSaltPillarAsked DEFAULT VALUES",
    "copy the pillars": "COPY suseSaltPillars TO STDOUT",
    "write a pillar": "INSERT INTO suseSaltPillars (category, pillar) VALUES ('x', '{}')",
    "change a pillar": "UPDATE suseSaltPillars SET pillar = '{}'",
    "delete a pillar": "DELETE FROM suseSaltPillars",
    "empty the table": "TRUNCATE rhnServer",
    "lock the table": "BEGIN; LOCK TABLE suseSaltPillars IN ACCESS SHARE MODE",
    "go back": "SELECT suse_salt_pillar_restore(1)",
    "make a table": "CREATE TABLE mine (a INTEGER)",
    "make a temporary table": "CREATE TEMPORARY TABLE mine (a INTEGER)",
    "make a schema": "CREATE SCHEMA mine",
    "make a function": "CREATE FUNCTION public.mine() RETURNS INTEGER LANGUAGE sql AS 'SELECT 1'",
    "replace the function": """CREATE OR REPLACE FUNCTION suse_minion_pillars(mid VARCHAR) RETURNS TABLE (pillar JSONB)
        LANGUAGE sql AS 'SELECT pillar FROM suseSaltPillars'""",
    "take the function": "ALTER FUNCTION suse_minion_pillars(VARCHAR) SECURITY INVOKER",
    "drop the function": "DROP FUNCTION suse_minion_pillars(VARCHAR)",
    "add a trigger": """CREATE TRIGGER mine BEFORE INSERT ON suseSaltPillars EXECUTE FUNCTION
        suppress_redundant_updates_trigger()""",
    "be the owner": "SET ROLE salt_pillar_owner",
    "be a superuser": "SET SESSION AUTHORIZATION saltbed",
    "make a role": "CREATE ROLE mine",
    "raise itself": "ALTER ROLE reader SUPERUSER",
    "read a file": "SELECT pg_read_file('/etc/hostname')",
    "run a program": "COPY (SELECT 1) TO PROGRAM 'true'",
    "keep a large object": "SELECT lo_create(0)",
    "end a session": "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'saltbed'",
    "grant rights": "GRANT SELECT ON suseSaltPillars TO PUBLIC",
}


@pytest.fixture(scope="module", params=["ours", "uyuni"])
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[sources.Database]:
    """Yield a database with pillars and the role `reader`, over our table and over Uyuni's."""
    with sources.served(tmp_path_factory.mktemp("server")) as server:
        made = sources.make(server, "role")
        install(made, "uyuni.sql")
        made.run(UYUNI if request.param == "uyuni" else "SELECT 1")
        install(made, "pillar.sql", "pillar_changes.sql")
        made.run(OWNERS + ROWS)
        for _ in range(2):
            install(made, "pillar_role.sql", role="reader")
        made.run(f"ALTER ROLE reader PASSWORD '{PASSWORD}'")
        yield made


@pytest.fixture(scope="module")
def salt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Salt]:
    """Yield the patched Salt."""
    with patched(tmp_path_factory.mktemp("salt")) as found:
        yield found


def fetched(salt: Salt, server: Postgres, *minions: str, **more: object) -> list[object]:
    """Return pillars as the role fetches them."""
    source = [{"postgres": ["SELECT suse_minion_pillars(%s)"]}]
    found: list[object] = salt.act("compile", options(server, source, **more), list(minions))
    return found


def test_role_fetches_pillars(salt: Salt, database: sources.Database) -> None:
    """Those of each minion, and none for one that nobody knows."""
    reader = as_role(database, "reader", PASSWORD)
    expected = [{"all": 1, "own": 1}, {"all": 1}, {}]
    assert fetched(salt, reader, "web1", "web2", "nobody") == expected


def test_role_hears_of_changes(database: sources.Database) -> None:
    """The engine's question is the other one that the role may ask."""
    reader = sources.Database(as_role(database, "reader", PASSWORD))
    ((snapshot, minions),) = reader.run("SELECT * FROM suse_salt_pillar_changes(NULL)")
    assert minions == []
    database.run('UPDATE suseSaltPillars SET pillar = \'{"own": 3, "new": 1}\' WHERE server_id = 3')
    assert reader.run("SELECT minions FROM suse_salt_pillar_changes(%s)", snapshot) == [(["other"],)]
    reader.run("LISTEN suse_salt_pillar")


@pytest.mark.parametrize("attempt", ATTEMPTS.values(), ids=ATTEMPTS)
def test_role_can_do_nothing_else(database: sources.Database, attempt: str) -> None:
    """Each attempt is refused for want of a right."""
    reader = as_role(database, "reader", PASSWORD)
    with closing(psycopg2.connect(reader.dsn)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        with pytest.raises(psycopg2.Error) as caught:
            cursor.execute(attempt)
    assert caught.value.pgcode == "42501", caught.value


def test_function_is_not_led_astray(database: sources.Database) -> None:
    """The search path of the caller is not that of the function, and its owner is nobody who can log in."""
    reader = sources.Database(as_role(database, "reader", PASSWORD))
    database.run("CREATE SCHEMA IF NOT EXISTS evil; GRANT ALL ON SCHEMA evil TO reader")
    reader.run("CREATE TABLE IF NOT EXISTS evil.suseMinionInfo AS SELECT 3 AS server_id, 'web1' AS minion_id")
    found = reader.run("SET search_path = evil, public; SELECT suse_minion_pillars('web1')")
    assert found == [({"all": 1},), ({"own": 1},)]
    owner = "SELECT rolcanlogin, rolsuper FROM pg_roles WHERE rolname = 'salt_pillar_owner'"
    assert database.run(owner) == [(False, False)]


def test_role_is_refused_without_the_function(tmp_path: Path) -> None:
    """The file says what to run first, and changes nothing."""
    with sources.served(tmp_path) as server:
        made = sources.make(server, "empty")
        done = psql(made, "pillar_role.sql")
        assert done.returncode == 3
        assert "Run sql/pillar.sql first" in done.stderr
        assert made.run("SELECT count(*) FROM pg_roles WHERE rolname IN ('salt', 'salt_pillar_owner')") == [(0,)]


@pytest.mark.parametrize("way", ["passfile", "PGPASSFILE", "PGSERVICE"])
def test_password_is_rotated_without_a_restart(
    database: sources.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """A file with the password is read for each new connection; kept ones go on."""
    server = database.server
    passwords, services = tmp_path / "pgpass", tmp_path / "services"
    more: dict[str, object] = {"host": server.host, "port": server.port, "db": server.database, "user": "reader"}

    def write(password: str) -> None:
        passwords.write_text(f"{server.host}:{server.port}:*:reader:{password}\n")
        passwords.chmod(0o600)
        place = f"host={server.host}\nport={server.port}\ndbname={server.database}\nuser=reader\n"
        services.write_text(f"[salt]\n{place}password={password}\n")

    source = [{"postgres": ["SELECT suse_minion_pillars(%s)"]}]
    database.run(f"ALTER ROLE reader PASSWORD '{PASSWORD}'")
    write(PASSWORD)
    expected = [{"all": 1, "own": 1}]
    with ExitStack() as stack:
        # the server's own user must not be asked for by the same file
        with monkeypatch.context() as environment:
            if way == "passfile":
                more["passfile"] = str(passwords)
            elif way == "PGPASSFILE":
                environment.setenv("PGPASSFILE", str(passwords))
            else:
                environment.setenv("PGSERVICEFILE", str(services))
                environment.setenv("PGSERVICE", "salt")
                more = {}
            salt = stack.enter_context(patched(tmp_path / "salt"))
        changes = {"postgres": more, "ext_pillar": source}
        assert salt.act("compile", changes, ["web1"]) == expected
        database.run("ALTER ROLE reader PASSWORD 'second'")
        assert salt.act("compile", changes, ["web1"]) == expected
        database.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'reader'")
        until(lambda: database.run(SESSIONS) == [(0,)], Deadline(30), lambda: "the session does not end")
        (pillar,) = salt.act("compile", changes, ["web1"])
        assert list(pillar) == ["_errors"]
        write("second")
        until(lambda: salt.act("compile", changes, ["web1"]) == expected, Deadline(30), lambda: "the file is not read")
