"""The files of sql/ with psql itself: installed as the pages say, and refused with one sentence where they can't be."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg2
import pytest

from harness.database import sources
from harness.database.schema import SQL
from tests.live.helpers.pillar_files import OWNERS, UYUNI

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.database import Postgres

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("psql") is None, reason="needs psql: `apt-get install postgresql-client`"),
]
NEED_UYUNI = ("pillar.sql", "pillar_rfc.sql", "pillar_target.sql")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """Yield a server."""
    with sources.served(tmp_path_factory.mktemp("server")) as found:
        yield found


def _psql(database: sources.Database, *names: str) -> subprocess.CompletedProcess[str]:
    files = [f"--file={SQL / name}" for name in names]
    argv = ["psql", "--no-psqlrc", f"--dbname={database.server.address}", *files]
    environment = {**os.environ, "PGPASSWORD": database.server.password}
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("name", NEED_UYUNI)
def test_empty_database_is_one_error(server: Postgres, name: str) -> None:
    """Without the tables of Uyuni the first error ends the file, and the exit code tells."""
    database = sources.make(server, f"empty_{name.partition('.')[0]}")
    done = _psql(database, name)
    assert done.returncode == 3
    assert done.stderr.count("ERROR") == 1
    assert "Run sql/uyuni.sql first" in done.stderr or "does not exist" in done.stderr


@pytest.mark.parametrize("name", NEED_UYUNI)
def test_installing_twice_is_safe(server: Postgres, name: str) -> None:
    """After uyuni.sql each file installs without an error, and once more."""
    database = sources.make(server, f"twice_{name.partition('.')[0]}")
    done = _psql(database, "uyuni.sql", name, "uyuni.sql", name)
    assert (done.returncode, done.stderr.count("ERROR")) == (0, 0), done.stderr


def test_installed_by_many_at_once(server: Postgres) -> None:
    """Who installs meanwhile waits, and finds each function whole."""
    database = sources.make(server, "many")
    assert _psql(database, "uyuni.sql", "pillar.sql", "pillar_changes.sql").returncode == 0
    with ThreadPoolExecutor(6) as pool:
        names = 4 * ("pillar.sql", "pillar_changes.sql", "pillar_role.sql")
        done = list(pool.map(lambda name: _psql(database, name), names))
    assert [(one.returncode, one.stderr) for one in done if one.returncode] == []


def _migrate(database: sources.Database, name: str) -> subprocess.CompletedProcess[str]:
    """Run a file as a migration of Uyuni: without comments, with a line before and after, by psql."""
    text = re.sub(r"^--.*\n", "", (SQL / name).read_text(), flags=re.MULTILINE)
    # what Uyuni would take for the place of its tables
    assert re.search(r"\[\[.*?\]\]|__.*?__", text) is None
    argv = ["psql", f"--dbname={database.server.address}", "-v", "ON_ERROR_STOP=ON", "-f", "-"]
    environment = {
        **os.environ,
        "PGPASSWORD": database.server.password,
        "PGOPTIONS": "--client-min-messages=error -c standard_conforming_strings=on",
    }
    sql = f"select '{name}' from dual;\n{text}commit;\n\n"  # noqa: S608 - files of ours
    return subprocess.run(argv, env=environment, input=sql, capture_output=True, text=True, check=False, timeout=60)


def test_files_are_migrations_of_uyuni(server: Postgres) -> None:
    """Each file is a step of its own; one that fails changes nothing, and is run again."""
    database = sources.make(server, "migrated")
    done = _psql(database, "uyuni.sql")
    assert done.returncode == 0, done.stderr
    database.run(f"CREATE TABLE dual AS SELECT 'X'::CHAR AS dummy; {UYUNI} {OWNERS}")
    row = "INSERT INTO suseSaltPillar (id, server_id, category, pillar) VALUES (1, 1, 'own', '{\"own\": 1}')"
    database.run(row)
    columns = "SELECT attname, atttypid FROM pg_attribute WHERE attrelid = 'suseSaltPillar'::regclass AND attnum > 0"
    before = database.run(columns)
    with closing(psycopg2.connect(database.server.dsn)) as other, other.cursor() as cursor:
        cursor.execute("LOCK TABLE suseSaltPillar IN ROW EXCLUSIVE MODE")
        assert _migrate(database, "pillar.sql").returncode == 3
    for name in 2 * ("pillar.sql", "pillar_changes.sql", "pillar_role.sql"):
        done = _migrate(database, name)
        assert (done.returncode, done.stderr) == (0, ""), (name, done.stdout)
    database.run("UPDATE suseSaltPillar SET pillar = '{\"own\": 2}'")
    assert database.run("SELECT suse_minion_pillars('web1')") == [({"own": 2},)]
    assert database.run("SELECT before, after FROM suseSaltPillarHistory") == [({"own": 1}, {"own": 2})]
    assert database.run(columns) == before


def test_table_in_use_is_waited_for_a_while(server: Postgres) -> None:
    """Who waits for a table keeps others from it that come later: an installation gives up, and changes nothing."""
    database = sources.make(server, "busy")
    assert _psql(database, "uyuni.sql", "pillar.sql").returncode == 0
    with closing(psycopg2.connect(database.server.dsn)) as other, other.cursor() as cursor:
        cursor.execute("LOCK TABLE suseSaltPillars IN ROW EXCLUSIVE MODE")
        with ThreadPoolExecutor(2) as pool:
            done = list(pool.map(lambda name: _psql(database, name), ("pillar.sql", "pillar_changes.sql")))
    for one in done:
        assert (one.returncode, "canceling statement due to lock timeout" in one.stderr) == (3, True), one.stderr
    assert database.run("SELECT to_regprocedure('suse_salt_pillar_moved()')") == [(None,)]
