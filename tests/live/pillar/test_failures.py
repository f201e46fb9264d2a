"""What goes wrong with the database of the pillars ends in `_errors`, never in a pillar that is silently short."""

from __future__ import annotations

import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import psycopg2
import pytest
import trustme

from harness.database import schema, sources
from harness.processes.deadline import Deadline, until
from harness.saltprocess.patched import Salt, options, patched
from tests.live.helpers.pillar_layouts import canonical

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.live
IDS = sources.ids(1000)[:50]
SOURCE = schema.FORMS["improved"].options()
PREFIX = "Failed to load ext_pillar postgres: "
REPORTS = PREFIX + "the database reports {}, see the log of the master"
SILENT = f"{PREFIX}there is no connection to the database, see the log of the master"
BACKENDS = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sources.Database]:
    """Yield a database with the pillars of fifty minions, on a server of this machine's."""
    with sources.served(tmp_path_factory.mktemp("server")) as server:
        yield sources.filled(server, "failures", "improved", IDS)


@pytest.fixture
def salt(tmp_path: Path) -> Iterator[Salt]:
    """Yield the patched Salt."""
    with patched(tmp_path) as found:
        yield found


def errors(pillar: dict[str, Any]) -> list[str]:
    """Return the errors of a pillar that has nothing else."""
    assert list(pillar) == ["_errors"]
    return list(pillar["_errors"])


def failed(salt: Salt, database: sources.Database, *queries: str, **more: object) -> list[str]:
    """Return the errors of the pillar that these queries make."""
    source = [{"postgres": list(queries or schema.FUNCTION)}]
    (pillar,) = salt.act("compile", options(database.server, source, **more), IDS[:1])
    return errors(pillar)


@pytest.fixture
def deaf() -> Iterator[int]:
    """Yield the port of a server that accepts and never answers."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield server.getsockname()[1]


def test_database_is_down(salt: Salt, database: sources.Database, deaf: int) -> None:
    """Nobody listens."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
    assert port != deaf
    assert failed(salt, database, port=port) == [SILENT]


def test_password_is_wrong(salt: Salt, database: sources.Database) -> None:
    """The server refuses the user."""
    assert failed(salt, database, **{"pass": "wrong"}) == [SILENT]


def test_table_is_missing(salt: Salt, database: sources.Database) -> None:
    """The kind of the error reaches the minion, neither the query nor the server's words do."""
    query = "SELECT secret FROM nosuch WHERE id = %s"
    assert failed(salt, database, query) == [REPORTS.format("UndefinedTable (42P01)")]


def test_second_query_is_broken(salt: Salt, database: sources.Database) -> None:
    """What the first query gave is not a pillar."""
    assert failed(salt, database, *schema.FUNCTION, "SELECT 1 +") == [REPORTS.format("SyntaxError (42601)")]


def test_backend_is_killed_in_a_query(salt: Salt, database: sources.Database) -> None:
    """A connection that breaks on the way is an error, on a new connection and on a kept one."""
    # the connection is reset in the same message, so the query stands at its end
    kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%SELECT pg_sleep(60)'"
    for _ in range(2):
        killer = Thread(target=lambda: until(lambda: database.run(kill), Deadline(30), lambda: "no query to kill"))
        killer.start()
        assert failed(salt, database, "SELECT pg_sleep(60)") == [SILENT]
        killer.join()
        (pillar,) = salt.compile(database.server, SOURCE, IDS[:1])
        assert "_errors" not in pillar


def test_statement_timeout(salt: Salt, database: sources.Database) -> None:
    """The server cancels what takes too long."""
    expected = [REPORTS.format("QueryCanceled (57014)")]
    assert failed(salt, database, "SELECT pg_sleep(60)", statement_timeout=0.2) == expected


def test_server_never_answers(salt: Salt, database: sources.Database, deaf: int) -> None:
    """Connecting ends after connect_timeout."""
    assert failed(salt, database, port=deaf, connect_timeout=2) == [SILENT]


def test_refresh_in_an_outage_leaves_no_old_value(
    salt: Salt, database: sources.Database, deaf: int, tmp_path: Path
) -> None:
    """With pillar_cache, the error is served and stored, and a refresh recovers at once.

    Targeting, the mine and ACLs read the stored pillar: a value that the database may have revoked is not in it.
    """
    cache = {"pillar_cache": True, "cachedir": str(tmp_path / "cache"), "pillar_cache_ttl": 3600}
    down = {**options(database.server, SOURCE, port=deaf, connect_timeout=2), **cache}
    works = {**options(database.server, SOURCE), **cache}
    (pillar,) = salt.act("whole", works, IDS[:1])
    assert pillar["minion_id"] == IDS[0]
    assert salt.act("whole", down, IDS[:1]) == [pillar]
    assert errors(salt.act("refreshed", down, IDS[:1])[0]) == [SILENT]
    # for a short time, without asking again
    assert errors(salt.act("whole", works, IDS[:1])[0]) == [SILENT]

    def cached() -> dict[str, Any]:
        found: dict[str, Any] = salt.act("run", works, "cache.fetch", {"bank": "pillar", "key": IDS[0]})["result"]
        return found

    assert errors(cached()) == [SILENT]
    assert set(cached()) == {"_errors"}
    assert salt.act("refreshed", works, IDS[:1]) == [pillar]
    assert salt.act("whole", down, IDS[:1]) == [pillar]
    assert cached() == pillar


def test_no_pillar_is_short_while_the_server_restarts(database: sources.Database, tmp_path: Path) -> None:
    """2,000 compiles in four processes while the server restarts three times: each is complete or an error."""
    with ExitStack() as stack:
        workers = [stack.enter_context(patched(tmp_path / str(number))) for number in range(4)]
        expected = [canonical(found) for found in workers[0].compile(database.server, SOURCE, IDS)]
        rounds: list[list[str]] = []

        def work(salt: Salt) -> None:
            for _ in range(10):
                found = salt.compile(database.server, SOURCE, IDS)
                rounds.append([canonical(pillar) for pillar in found])

        with ThreadPoolExecutor(4) as pool:
            done = [pool.submit(work, salt) for salt in workers]
            for count in (8, 18, 28):
                until(lambda count=count: len(rounds) >= count, Deadline(120), lambda: "the compiles do not go on")  # type: ignore[misc]  # a default can't be annotated
                until(lambda: killed(database), Deadline(60), lambda: "nobody is connected")
                until(lambda: alive(database), Deadline(60), lambda: "the server does not come back")
            for one in done:
                one.result()
        after = [canonical(found) for found in workers[0].compile(database.server, SOURCE, IDS)]
    found = [(pillar, wanted) for pillars in rounds for pillar, wanted in zip(pillars, expected, strict=True)]
    wrong = {pillar for pillar, wanted in found if pillar != wanted}
    assert len(found) == 2000
    assert wrong <= {canonical({"_errors": [SILENT]})}
    assert after == expected


def killed(database: sources.Database) -> bool:
    """Kill a connection of somebody else's, if there is one, upon which the server restarts itself."""
    found = database.run(BACKENDS)
    if found:
        os.kill(found[0][0], signal.SIGKILL)
    return bool(found)


def alive(database: sources.Database) -> bool:
    """Say whether the server answers."""
    try:
        database.run("SELECT 1")
    except psycopg2.OperationalError:
        return False
    return True


def test_table_can_be_altered_under_load(database: sources.Database, salt: Salt) -> None:
    """A lock on the table is there within a second, as no session sits in a transaction after its compile."""
    sitting = "SELECT pid FROM pg_stat_activity WHERE state LIKE 'idle in%' AND state_change < now() - interval '9 s'"
    states: set[int] = set()
    with ThreadPoolExecutor(1) as pool:
        load = pool.submit(salt.compile, database.server, SOURCE, IDS * 10)
        for number in range(5):
            until(lambda: load.done() or database.run(BACKENDS), Deadline(30), lambda: "no load")
            database.run(f"SET lock_timeout = '1s'; ALTER TABLE suseSaltPillars ADD COLUMN new_{number} INTEGER")
            database.run(f"SET lock_timeout = '1s'; ALTER TABLE suseSaltPillars DROP COLUMN new_{number}")
            states |= {pid for (pid,) in database.run(sitting)}
        assert not any("_errors" in pillar for pillar in load.result())
    assert not states
    # one that is idle is closed after a while
    found = database.run("SELECT state FROM pg_stat_activity WHERE application_name = 'salt'")
    assert found in ([], [("idle",)])


def test_sslmode_verify_full(database: sources.Database, salt: Salt, tmp_path: Path) -> None:
    """A server with a certificate of the right authority is taken and its connection kept; another one is refused."""
    home = Path(database.run("SHOW data_directory")[0][0])
    authority, other = trustme.CA(), trustme.CA()
    certificate = authority.issue_cert("127.0.0.1", "localhost")
    for name, blob in (("server.crt", certificate.cert_chain_pems[0]), ("server.key", certificate.private_key_pem)):
        blob.write_to_path(str(home / name))
        os.chown(home / name, home.stat().st_uid, home.stat().st_gid)
        (home / name).chmod(0o600)
    for name, one in (("right.pem", authority), ("wrong.pem", other)):
        one.cert_pem.write_to_path(str(tmp_path / name))
    with closing(psycopg2.connect(database.server.dsn)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute("ALTER SYSTEM SET ssl = on")
        cursor.execute("SELECT pg_reload_conf()")
    until(lambda: database.run("SHOW ssl") == [("on",)], Deadline(30), lambda: "the server has no TLS")
    right = {"sslmode": "verify-full", "sslrootcert": str(tmp_path / "right.pem")}
    changes = options(database.server, SOURCE, **right)
    first = database.run("SELECT coalesce(max(backend_start), now()) FROM pg_stat_activity")
    pids = set()
    for _ in range(3):
        assert not any("_errors" in pillar for pillar in salt.act("compile", changes, IDS[:3]))
        pids |= {pid for (pid,) in database.run("SELECT pid FROM pg_stat_ssl WHERE ssl AND pid <> pg_backend_pid()")}
    assert (len(first), len(pids)) == (1, 1)
    assert failed(salt, database, **{**right, "sslrootcert": str(tmp_path / "wrong.pem")}) == [SILENT]
