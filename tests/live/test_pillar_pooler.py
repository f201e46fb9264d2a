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

from harness.database import forms, scratch
from harness.processes.deadline import Deadline, until
from harness.saltprocess.patched import options, patched
from tests.halts import halted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.database.postgres import Postgres

pytestmark = pytest.mark.live
POOLER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
IDS = scratch.ids(1000)[:50]
SOURCE = forms.FORMS["improved"].options()
PROCESSES, ROUNDS = 4, 3
NAMES = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'from-salt'"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[scratch.Database]:
    """Yield a database with the pillars of fifty minions."""
    with scratch.served(tmp_path_factory.mktemp("server")) as server:
        yield scratch.filled(server, "pooled", "improved", IDS)


@pytest.fixture
def pooler(database: scratch.Database, tmp_path: Path) -> Iterator[Postgres]:
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
    for path in (tmp_path, tmp_path / "users", tmp_path / "ini"):
        path.chmod(0o777)
    for path in tmp_path.parents:
        if path.owner() == "root" and str(path).startswith("/tmp/"):  # noqa: S108 - where tests have their folders
            path.chmod(path.stat().st_mode | 0o011)
    user = ["--user=nobody"] if os.geteuid() == 0 else []
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


def test_pillars_through_a_pooler(database: scratch.Database, pooler: Postgres, tmp_path: Path) -> None:
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


def test_server_that_takes_a_query_and_never_answers(database: scratch.Database, tmp_path: Path) -> None:
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
