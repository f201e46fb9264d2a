"""What one compile leaves on the kept connection is not there for the next one, and its queries see each other's."""

from __future__ import annotations

from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any

import psycopg2
import pytest

from harness.database import sources
from harness.processes.deadline import Deadline, until
from harness.saltprocess.patched import Salt, options, patched

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.database import Postgres

pytestmark = pytest.mark.live
ROWS = """
CREATE TABLE pillars (minion_id VARCHAR, pillar JSONB);
INSERT INTO pillars VALUES ('web1', '{"v": 1}'), ('web2', '{"v": 2}');
CREATE TABLE asked (minion_id VARCHAR);
"""
POLICY = """
ALTER TABLE pillars ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON pillars USING (minion_id = current_setting('salt.minion', true));
CREATE ROLE reader; GRANT SELECT ON pillars TO reader; GRANT INSERT ON asked TO reader;
"""
STATE = """
SELECT jsonb_build_object(
    'setting', current_setting('salt.minion', true), 'role', current_user = session_user,
    'path', current_setting('search_path'), 'zone', current_setting('TimeZone') <> 'Asia/Tokyo',
    'table', to_regclass('pg_temp.left_over') IS NULL, 'limit', current_setting('statement_timeout'),
    'locks', (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'))
"""
LEFT = {
    "a setting": "SELECT set_config('salt.minion', %s, false)",
    "another setting": "SELECT set_config('TimeZone', 'Asia/Tokyo', %s = '')",
    "a role": "SELECT set_config('role', 'pg_monitor', %s = '')",
    "a lock": "SELECT pg_advisory_lock(length(%s))",
    "a limit": "SELECT set_config('statement_timeout', '7s', %s = '')",
    "a table": "SELECT make_table(%s)",
}
TEMPORARY = """
CREATE FUNCTION make_table(mid VARCHAR) RETURNS VARCHAR LANGUAGE plpgsql AS $$
BEGIN CREATE TEMPORARY TABLE left_over (a INTEGER); RETURN mid; END $$;
"""


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sources.Database]:
    """Yield a database with two pillars, a function that makes a temporary table, and a role that sees its own rows."""
    with sources.served(tmp_path_factory.mktemp("server")) as server:
        made = sources.make(server, "sessions")
        made.run(ROWS + POLICY + TEMPORARY)
        yield made


@pytest.fixture(scope="module")
def salt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Salt]:
    """Yield the patched Salt."""
    with patched(tmp_path_factory.mktemp("salt")) as found:
        yield found


def compiled(salt: Salt, server: Postgres, *queries: str, minion: str = "web1", **more: object) -> dict[str, Any]:
    """Return the pillar of a minion."""
    (pillar,) = salt.act("compile", options(server, [{"postgres": list(queries)}], **more), [minion])
    found: dict[str, Any] = pillar
    return found


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("query", LEFT.values(), ids=LEFT)
def test_next_compile_begins_anew(salt: Salt, database: sources.Database, query: str, count: int) -> None:
    """Neither a query alone nor one in a transaction leaves a trace for the next minion on the same connection."""
    expected = compiled(salt, database.server, STATE)
    assert expected["limit"] == "1min"
    is_table = query == LEFT["a table"]
    # a second table of the same name is an error
    queries = [query] * (1 if is_table else count)
    for _ in range(2):
        pillar = compiled(salt, database.server, *queries, writes="rollback" if is_table else "refuse")
        assert "_errors" not in pillar
        assert compiled(salt, database.server, STATE) == expected


def test_queries_of_a_compile_share_a_transaction(salt: Salt, database: sources.Database) -> None:
    """What a query sets for its transaction is there for the next one: row security that builds on it works."""
    who = "SELECT set_config('salt.minion', %s, true) AS a, set_config('role', 'reader', true) AS b"
    for minion, value in (("web1", 1), ("web2", 2)):
        pillar = compiled(salt, database.server, who, "SELECT pillar FROM pillars", minion=minion)
        assert pillar == {minion: "reader", "v": value}
    # and not for the next compile
    assert compiled(salt, database.server, STATE)["setting"] is None


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("writes", ["refuse", "rollback"])
def test_what_a_query_writes_is_not_kept(salt: Salt, database: sources.Database, writes: str, count: int) -> None:
    """Whether there is one query or more: refused, or rolled back as on stock; nothing holds a lock."""
    database.run("TRUNCATE asked")
    write = "INSERT INTO asked VALUES (%s) RETURNING minion_id, 1"
    read = "SELECT pillar FROM pillars WHERE minion_id = %s"
    pillar = compiled(salt, database.server, *[write, read][:count], writes=writes)
    if writes == "refuse":
        (error,) = pillar["_errors"]
        assert "ReadOnlySqlTransaction (25006)" in error
    else:
        assert pillar == {"web1": 1, **({"v": 1} if count > 1 else {})}
    assert database.run("SELECT count(*) FROM asked") == [(0,)]
    database.run("SET lock_timeout = '1s'; LOCK TABLE asked IN ACCESS EXCLUSIVE MODE")
    states = database.run("SELECT DISTINCT state FROM pg_stat_activity WHERE application_name = 'salt'")
    assert states == [("idle",)]


def test_broken_query_leaves_no_transaction(salt: Salt, database: sources.Database) -> None:
    """After an error in the second query the connection is as good as new."""
    assert "_errors" in compiled(salt, database.server, "SELECT pillar FROM pillars", "SELECT 1/0")
    states = database.run("SELECT DISTINCT state FROM pg_stat_activity WHERE application_name = 'salt'")
    assert states == [("idle",)]
    assert compiled(salt, database.server, "SELECT pillar FROM pillars WHERE minion_id = %s") == {"v": 1}


def test_options_of_the_administrator_stay(
    salt: Salt, database: sources.Database, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """PGOPTIONS and a lower limit of the user are kept, a limit of the configuration is an upper bound."""
    monkeypatch.setenv("PGOPTIONS", "-c search_path=elsewhere")
    with patched(tmp_path_factory.mktemp("other")) as other:
        assert compiled(other, database.server, STATE)["path"] == "elsewhere"
    assert compiled(salt, database.server, STATE, statement_timeout=5)["limit"] == "5s"
    with limited(database, "2s"):
        assert compiled(salt, database.server, STATE, statement_timeout=4)["limit"] == "2s"
        assert compiled(salt, database.server, STATE, statement_timeout=1)["limit"] == "1s"
        assert compiled(salt, database.server, STATE, statement_timeout=0)["limit"] == "2s"


@contextmanager
def limited(database: sources.Database, limit: str) -> Iterator[None]:
    """Have the database limit the statements of new connections."""
    with closing(psycopg2.connect(database.server.dsn)) as connection, closing(connection.cursor()) as cursor:
        connection.autocommit = True
        cursor.execute("ALTER DATABASE sessions SET statement_timeout = %s", [limit])
        try:
            yield
        finally:
            cursor.execute("ALTER DATABASE sessions RESET statement_timeout")


# how each kind makes a custom setting known to the session, with a name of its own
SETTINGS = {
    "a function": ("SELECT tenant_a(%s)", "PERFORM set_config('app.a', mid, true)"),
    "its statement": ("SELECT tenant_b(%s)", "EXECUTE 'SET LOCAL app.b = ' || quote_literal(mid)"),
    "a name that it computes": ("SELECT tenant_c(%s)", "PERFORM set_config('app.' || 'c', mid, true)"),
    "the query": ("SELECT set_config('app.d', %s, true)", ""),
    "the whole session": ("SELECT tenant_e(%s)", "PERFORM set_config('app.e', mid, false)"),
}


@pytest.mark.parametrize("kind", SETTINGS)
def test_custom_setting_is_gone(salt: Salt, database: sources.Database, kind: str) -> None:
    """A setting of one minion is not even an empty text for the next one: what it does without is its default."""
    query, body = SETTINGS[kind]
    name = f"app.{'abcde'[list(SETTINGS).index(kind)]}"
    read = f"SELECT jsonb_build_object('tenant', COALESCE(current_setting('{name}', true), 'default'))"
    # the connection is there before the function is
    assert compiled(salt, database.server, read, minion="web2") == {"tenant": "default"}
    if body:
        database.run(
            f"CREATE OR REPLACE FUNCTION tenant_{name[-1]}(mid VARCHAR) RETURNS VARCHAR LANGUAGE plpgsql"
            f" AS $$ BEGIN {body}; RETURN mid; END $$"
        )
    for _ in range(2):
        pillar = compiled(salt, database.server, query, read)
        assert pillar["tenant"] == "web1"
        assert compiled(salt, database.server, read, minion="web2") == {"tenant": "default"}
    database.run(f"DROP FUNCTION IF EXISTS tenant_{name[-1]}")


def test_setting_of_the_role_stays(salt: Salt, database: sources.Database) -> None:
    """What a role has by default is no reason to end its sessions, and comes back after a change."""
    read = "SELECT jsonb_build_object('tenant', current_setting('app.kept', true), 'pid', pg_backend_pid())"
    database.run(
        "CREATE FUNCTION tenant_kept(mid VARCHAR) RETURNS VARCHAR LANGUAGE plpgsql"
        " AS $$ BEGIN PERFORM set_config('app.kept', mid, false); RETURN mid; END $$"
    )
    database.alone("ALTER DATABASE sessions SET app.kept = 'role'")
    try:
        found = []
        for _ in range(2):
            found.append(compiled(salt, database.server, read, "SELECT tenant_kept(%s)", application_name="kept"))
            found.append(compiled(salt, database.server, read, application_name="kept"))
        assert {pillar["tenant"] for pillar in found} == {"role"}
        assert len({pillar["pid"] for pillar in found}) == 1
    finally:
        database.alone("ALTER DATABASE sessions RESET app.kept")
        database.run("DROP FUNCTION tenant_kept")


def test_idle_processes_leave_connections_to_others(
    database: sources.Database, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Five processes compile one after the other where a role may have two connections: none of them fails."""
    database.run("CREATE ROLE two LOGIN PASSWORD 'two' CONNECTION LIMIT 2")
    query = "SELECT jsonb_build_object('a', 1)"
    with ExitStack() as stack:
        made = [stack.enter_context(patched(tmp_path_factory.mktemp("worker"))) for _ in range(5)]
        for lifetime in (600, 0):
            account: dict[str, Any] = {"user": "two", "pass": "two", "lifetime": lifetime}
            for _ in range(3):
                found = [compiled(one, database.server, query, **account) for one in made]
                assert found == [{"a": 1}] * 5
        held = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'two'"
        until(lambda: database.run(held) == [(0,)], Deadline(30), lambda: "a connection is kept")
