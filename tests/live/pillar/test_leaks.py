"""What a query does to its session is not there for the next minion on the same connection, whatever it does."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import psycopg2
import pytest

from harness.database import sources
from harness.processes.deadline import Deadline, until
from harness.saltprocess.patched import Salt, options, patched
from harness.saltprocess.process import SaltProcess
from tests.live.helpers.session_statements import SET_UP, Statements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.database import Postgres

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]
SEED, STATEMENTS = 20, 1000
# of a result of 50 MB; one whose connection is kept leaves 64 MB at least
TASK = "harness.saltprocess.pillar"
LEFT_KB = 20_000
# an id that is another text under other settings, and the end of one under bad ones
OTHER = "wéb\\' || current_user || E'2"
# the library of the language is loaded first, as a function of an earlier compile may have loaded it
LOADED = "SELECT jsonb_build_object('loaded', doing('SELECT 1')::text)"
# what a session has, as another minion's query sees it
PROBE = """
SELECT jsonb_build_object(
    'settings', (SELECT jsonb_object_agg(name, setting) FROM pg_settings WHERE name NOT LIKE 'transaction%%'),
    'isolation', current_setting('transaction_isolation'), 'read only', current_setting('transaction_read_only'),
    'custom', current_setting('salt.minion', true), 'random', random() < 1,
    'prepared', (SELECT jsonb_agg(name) FROM pg_prepared_statements),
    'cursors', (SELECT jsonb_agg(name) FROM pg_cursors WHERE name <> ''),
    'listening', (SELECT jsonb_agg(name) FROM pg_listening_channels() AS name),
    'temporary', (SELECT jsonb_agg(relname) FROM pg_class WHERE relnamespace = pg_my_temp_schema()),
    'functions', (SELECT jsonb_agg(proname) FROM pg_proc WHERE pronamespace = pg_my_temp_schema()),
    'locks', (SELECT jsonb_agg(locktype) FROM pg_locks WHERE pid = pg_backend_pid() AND
        (locktype = 'advisory' OR relation = 'written'::regclass)),
    'role', current_user, 'login', session_user, 'path', current_schemas(true),
    'date', '2026-02-03'::date, 'interval', '1 day 2 hours'::interval, 'bytes', '\\x01'::bytea, 'half', 0.1::float4,
    'pid', pg_backend_pid(), 'text', E'\\u00e9\\\\', 'id', %s::text)
"""
LAST = "SELECT jsonb_build_object('last', lastval())"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sources.Database]:
    """Yield a database with what the statements need."""
    with sources.served(tmp_path_factory.mktemp("server")) as server:
        made = sources.make(server, "leaks")
        made.run(SET_UP)
        yield made


@pytest.fixture(scope="module")
def salt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Salt]:
    """Yield the patched Salt."""
    with patched(tmp_path_factory.mktemp("salt")) as found:
        yield found


def compiled(salt: Salt, server: Postgres, *queries: object, minion: str = "web1", **more: object) -> dict[str, Any]:
    """Return the pillar of a minion."""
    (pillar,) = salt.act("compile", options(server, [{"postgres": list(queries)}], **more), [minion])
    found: dict[str, Any] = pillar
    return found


def probed(salt: Salt, server: Postgres, **more: object) -> tuple[dict[str, Any], object]:
    """Return what another minion's query sees, and whose session that is."""
    found = compiled(salt, server, LOADED, PROBE, minion=OTHER, **more)
    found |= found.pop("settings", {})
    return found, found.pop("pid", None)


def test_a_thousand_statements_leave_nothing(salt: Salt, database: sources.Database) -> None:
    """Each is followed by another minion's compile, which sees what it sees on a fresh connection."""
    random = Random(SEED)  # noqa: S311 - nothing secret
    statements = Statements(random, database)
    modes = ("refuse", "rollback")
    fresh = {mode: probed(salt, database.server, writes=mode, lifetime=0)[0] for mode in modes}
    assert {found["id"] for found in fresh.values()} == {OTHER}
    sessions: dict[str, object] = {}
    wrong: dict[str, Any] = {}
    kept = 0
    for _ in range(STATEMENTS):
        mode, statement = random.choice(modes), statements.next()
        compiled(salt, database.server, statement.replace("%", "%%"), writes=mode)
        found, session = probed(salt, database.server, writes=mode)
        kept += session == sessions.get(mode)
        sessions[mode] = session
        both = {key: (found.get(key), fresh[mode].get(key)) for key in {*found, *fresh[mode]}}
        different = {key: pair for key, pair in both.items() if pair[0] != pair[1]}
        if different:
            wrong[statement] = different
        if "numbers" in statement and "_errors" not in compiled(salt, database.server, LAST, writes=mode):
            wrong[statement] = "lastval() is known"
    if wrong:
        pytest.fail(f"{len(wrong)} of {STATEMENTS}: {list(wrong.items())[:5]}")
    # many of them on the same connection: it is not that each got a new one
    assert kept > STATEMENTS / 3


def test_grain_is_no_sql_after_another_minion(salt: Salt, database: sources.Database) -> None:
    """A query that turns off standard_conforming_strings does not make a later one's values injectable."""
    off = "SELECT jsonb_build_object('off', set_config('standard_conforming_strings', 'off', false))"
    evil = "\\' || (SELECT 'secret') || '"
    for _ in range(2):
        assert "standard_conforming_strings" in str(compiled(salt, database.server, off)["_errors"])
        found = compiled(salt, database.server, "SELECT jsonb_build_object('me', %s::text)", minion=evil)
        assert found == {"me": evil}


def test_left_over_encoding_garbles_nothing(salt: Salt, database: sources.Database) -> None:
    """Neither the rest of the same compile nor the next one reads text of another encoding."""
    latin = "SELECT jsonb_build_object('latin', set_config('client_encoding', 'LATIN1', false))"
    text = "SELECT jsonb_build_object('text', E'\\u00c3\\u00a9')"
    for queries in ((latin,), (latin, text)):
        assert "client_encoding" in str(compiled(salt, database.server, *queries)["_errors"])
        assert compiled(salt, database.server, text) == {"text": "\u00c3\u00a9"}


@pytest.mark.parametrize("query", ["-- x", ";", "/* x */"])
@pytest.mark.parametrize("count", [1, 2])
def test_query_of_nothing_is_an_error(salt: Salt, database: sources.Database, query: str, count: int) -> None:
    """It puts nothing of ours into the pillar, neither as the first nor as a later query."""
    first = "SELECT jsonb_build_object('a', 1)"
    pillar = compiled(salt, database.server, *[first, query][-count:])
    assert list(pillar) == ["_errors"]
    assert len(pillar["_errors"]) == 1


def test_queries_of_a_compile_see_one_state(salt: Salt, database: sources.Database) -> None:
    """A row that moves from one group to another between two queries is in exactly one answer."""
    database.run("DROP TABLE IF EXISTS moving; CREATE TABLE moving (place INTEGER, pillar JSONB)")
    database.run("INSERT INTO moving VALUES (1, '{\"row\": 1}')")
    # the first query waits until the row has moved
    first = "SELECT pillar FROM moving WHERE place = 2"
    wait = "SELECT jsonb_build_object('waited', pg_advisory_xact_lock(77)::text)"
    second = "SELECT pillar FROM moving WHERE place = 1"
    with closing(psycopg2.connect(database.server.dsn)) as other, other.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(77)")
        other.commit()
        with ThreadPoolExecutor(1) as pool:
            found = pool.submit(compiled, salt, database.server, first, wait, second)
            waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            until(lambda: database.run(waiting) == [(1,)], Deadline(30), lambda: "nobody waits")
            database.run("UPDATE moving SET place = 2")
            cursor.execute("SELECT pg_advisory_unlock(77)")
            other.commit()
            assert found.result()["row"] == 1


def test_revoked_right_breaks_nothing(salt: Salt, database: sources.Database) -> None:
    """Without the right to call the function that frees locks, the session ends, and no lock stays."""
    database.run("REVOKE EXECUTE ON FUNCTION pg_advisory_unlock_all() FROM PUBLIC")
    database.run("DROP ROLE IF EXISTS limited; CREATE ROLE limited LOGIN PASSWORD 'limited'")
    account = {"user": "limited", "pass": "limited"}
    lock = "SELECT jsonb_build_object('lock', pg_advisory_lock(5)::text)"
    for _ in range(3):
        assert compiled(salt, database.server, lock, **account) == {"lock": ""}
        found = compiled(salt, database.server, PROBE.replace("'written'::regclass", "0"), minion=OTHER, **account)
        assert found["locks"] is None


def test_large_result_leaves_no_memory(database: sources.Database) -> None:
    """The memory that libpq keeps for the largest value goes with the connection."""
    big = "SELECT jsonb_build_object('a', repeat('x', 50000000))"
    settings = {"postgres": database.server.salt_options()}
    few = {**settings, "queries": ["SELECT jsonb_build_object('a', 1)"]}
    many = {**settings, "queries": [big]}
    with SaltProcess("patched", TASK, few) as small, SaltProcess("patched", TASK, many) as large:
        resident = []
        for one in (small, large):
            one.run("web1")
            status = Path(f"/proc/{one.pid}/status").read_text(encoding="ascii")
            resident.append(int(status.partition("VmRSS:")[2].split()[0]))
    assert resident[1] - resident[0] < LEFT_KB
