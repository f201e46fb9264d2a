"""Pillars through PgBouncer in transaction mode, and from a server that takes a query and never answers."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import ExitStack, closing
from dataclasses import replace
from threading import Thread
from typing import TYPE_CHECKING

import psycopg2
import pytest

from harness.database import schema, sources
from harness.processes.deadline import Deadline, until
from harness.saltprocess.patched import options, patched
from tests.halts import halted
from tests.live.helpers.session_statements import SET_UP
from tests.live.pillar.test_leaks import LOADED, OTHER, PROBE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.database import Postgres

pytestmark = pytest.mark.live
POOLER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
IDS = sources.ids(1000)[:50]
SOURCE = schema.FORMS["improved"].options()
PROCESSES, ROUNDS = 4, 3
# each kind of state that a session may keep
STATES = {
    **{
        name: f"SET {name} = '{value}'"
        for name, value in {
            "work_mem": "4321kB",
            "DateStyle": "German",
            "TimeZone": "Asia/Tokyo",
            "IntervalStyle": "iso_8601",
            "bytea_output": "escape",
            "extra_float_digits": "-3",
            "search_path": "pg_catalog",
            "statement_timeout": "4321s",
            "lock_timeout": "4321s",
            "client_min_messages": "error",
            "standard_conforming_strings": "off",
            "client_encoding": "LATIN1",
            "default_transaction_isolation": "serializable",
            "default_transaction_read_only": "off",
            "session_replication_role": "replica",
            "row_security": "off",
            "enable_seqscan": "off",
            "xmloption": "document",
            "application_name": "another",
            "salt.minion": "web1",
        }.items()
    },
    "local custom setting": "SELECT set_config('salt.minion', 'web1', true)",
    "role": "SET ROLE plain",
    "session authorization": "SET SESSION AUTHORIZATION plain",
    "prepared statement": "PREPARE mine AS SELECT 1",
    "channel": "LISTEN mine",
    "advisory lock": "SELECT pg_advisory_lock(4321)",
    "lock of a transaction": "SELECT pg_advisory_xact_lock(4321)",
    "lock of a table": "LOCK TABLE written",
    "temporary table": "CREATE TEMPORARY TABLE mine (a INTEGER)",
    "temporary function": "CREATE FUNCTION pg_temp.mine() RETURNS INTEGER LANGUAGE sql AS 'SELECT 1'",
    "sequence": "SELECT nextval('numbers')",
    "library": "LOAD 'auto_explain'",
}
# what the text of a query does not tell: nothing but its name is left of the setting after a ROLLBACK
HIDDEN = """
CREATE OR REPLACE FUNCTION hidden() RETURNS VOID LANGUAGE plpgsql AS
$$ BEGIN PERFORM set_config('salt.minion', 'web1', true); END $$
"""
NAMES = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'from-salt'"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sources.Database]:
    """Yield a database with the pillars of fifty minions."""
    with sources.served(tmp_path_factory.mktemp("server")) as server:
        yield sources.filled(server, "pooled", "improved", IDS)


@pytest.fixture
def pooler(database: sources.Database, tmp_path: Path) -> Iterator[Postgres]:
    """Yield the database as PgBouncer offers it, with two connections to share."""
    if POOLER is None:
        pytest.skip("needs PgBouncer: `apt-get install pgbouncer`")
    server = database.server
    with closing(psycopg2.connect(server.dsn)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT rolpassword FROM pg_authid WHERE rolname = %s", [server.user])
        ((secret,),) = cursor.fetchall()
    port = server.port + 1
    place = (
        f"host={server.host} port={server.port} dbname={server.database} user={server.user} password={server.password}"
    )
    lines = {
        "listen_addr": "127.0.0.1",
        "listen_port": str(port),
        "unix_socket_dir": "",
        "auth_type": "scram-sha-256",
        "auth_file": str(tmp_path / "users"),
        "pool_mode": "transaction",
        "default_pool_size": "2",
        "logfile": str(tmp_path / "log"),
        "max_client_conn": "100",
    }
    text = f"[databases]\npooled = {place}\n[pgbouncer]\n" + "".join(f"{name} = {lines[name]}\n" for name in lines)
    (tmp_path / "users").write_text(f'"{server.user}" "{secret}"\n')
    (tmp_path / "ini").write_text(text)
    user = ["--user=nobody"] if os.geteuid() == 0 else []
    for path in (tmp_path, tmp_path / "users", tmp_path / "ini"):
        # they hold the password
        path.chmod(0o700 if path == tmp_path else 0o600)
        if user:
            shutil.chown(path, "nobody")
    for path in tmp_path.parents:
        if path.owner() == "root" and str(path).startswith("/tmp/"):  # noqa: S108 - where tests have their folders
            path.chmod(path.stat().st_mode | 0o011)
    process = subprocess.Popen([POOLER, "--quiet", *user, str(tmp_path / "ini")])
    try:
        pooled = replace(server, port=port)
        until(lambda: _answers(pooled, process), Deadline(30), lambda: "PgBouncer does not answer")
        yield pooled
    finally:
        process.terminate()
        process.wait(30)


def _answers(server: Postgres, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, "PgBouncer has ended"
    try:
        psycopg2.connect(server.dsn).close()
    except psycopg2.OperationalError:
        return False
    return True


def test_pillars_through_a_pooler(database: sources.Database, pooler: Postgres, tmp_path: Path) -> None:
    """Four processes share two connections: each pillar is its minion's own, and the application keeps its name."""
    setting = "SELECT jsonb_build_object('left', set_config('search_path', %s, false))"
    with patched(tmp_path / "direct") as salt:
        expected = salt.act("digests", options(database.server, SOURCE), IDS)
    found: list[object] = []
    with ExitStack() as stack:
        processes = [stack.enter_context(patched(tmp_path / str(number))) for number in range(PROCESSES)]

        def work(number: int) -> None:
            changes = options(pooler, SOURCE, application_name="from-salt")
            for _ in range(ROUNDS):
                # what one leaves must not reach those who have the same session next
                processes[number].act("compile", options(pooler, [{"postgres": [setting]}]), IDS[:3])
                found.append(processes[number].act("digests", changes, IDS))

        threads = [Thread(target=work, args=(number,)) for number in range(PROCESSES)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [expected] * PROCESSES * ROUNDS
        changes = options(pooler, SOURCE, application_name="from-salt")
        for _ in range(3):
            processes[0].act("digests", changes, IDS[:1])
            assert database.run(NAMES)[0][0] >= 1
        assert len(database.run("SELECT pid FROM pg_stat_activity WHERE datname = 'pooled'")) <= 3


@pytest.mark.parametrize("writes", ["refuse", "rollback"])
@pytest.mark.parametrize("way", ["direct", "pooled"])
def test_no_state_reaches_the_next_compile(
    database: sources.Database, request: pytest.FixtureRequest, tmp_path: Path, way: str, writes: str
) -> None:
    """A query, or a function that it calls, sets it; another minion's query sees what it sees in a fresh session."""
    pooler: Postgres = request.getfixturevalue("pooler")
    database.run("DROP TABLE IF EXISTS written; DROP SEQUENCE IF EXISTS numbers; DROP ROLE IF EXISTS plain")
    database.run(SET_UP.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION"))
    database.run(HIDDEN)
    queries = {name: f"SELECT doing($query${statement}$query$)" for name, statement in STATES.items()}
    queries["hidden setting"] = "SELECT jsonb_build_object('hidden', hidden()::text)"
    server = pooler if way == "pooled" else database.server
    last = "SELECT jsonb_build_object('last', lastval())"
    with patched(tmp_path / "salt") as salt:

        def compiled(*queries: str) -> dict[str, object]:
            (found,) = salt.act("compile", options(server, [{"postgres": list(queries)}], writes=writes), [OTHER])
            assert isinstance(found, dict)
            found.pop("pid", None)
            return found

        fresh = compiled(LOADED, PROBE)
        assert fresh["id"] == OTHER
        assert len(STATES) >= 30
        wrong: dict[str, object] = {}
        for name, query in queries.items():
            compiled(query)
            # as many as the pooler has connections
            for _ in range(2):
                found = compiled(LOADED, PROBE)
                if found != fresh:
                    wrong[name] = found
            if "_errors" not in compiled(last):
                wrong[name] = "lastval() is known"
        assert wrong == {}


def test_server_that_takes_a_query_and_never_answers(database: sources.Database, tmp_path: Path) -> None:
    """A process of the server that is stopped keeps no worker: neither keepalives nor its own limit would end it."""
    source = [{"postgres": ["SELECT jsonb_build_object('pid', pg_backend_pid())"]}]
    with patched(tmp_path) as salt:
        changes = options(database.server, source, statement_timeout=0.5)
        (pillar,) = salt.act("compile", changes, IDS[:1])
        with halted(pillar["pid"]):
            (stopped,) = salt.act("compile", changes, IDS[:1])
        assert "there is no connection to the database" in stopped["_errors"][0]
        (after,) = salt.act("compile", changes, IDS[:1])
        assert after["pid"] != pillar["pid"]


def test_pooler_before_a_server_that_never_answers(pooler: Postgres, tmp_path: Path) -> None:
    """It takes new connections all the same, and their first question waits as long as a query may."""
    source = [{"postgres": ["SELECT jsonb_build_object('pid', pg_backend_pid())"]}]
    changes = options(pooler, source, statement_timeout=0.5)
    with patched(tmp_path / "first") as first, patched(tmp_path / "second") as second:
        (pillar,) = first.act("compile", changes, IDS[:1])
        # the pooler gives the same one to whoever asks next
        with halted(pillar["pid"]):
            (stopped,) = second.act("compile", changes, IDS[:1])
    assert "there is no connection to the database" in stopped["_errors"][0]
