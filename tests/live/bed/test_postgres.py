"""Every source of PostgreSQL gives a database of the bed's own, and leaves nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import closing, contextmanager
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING

import psycopg2
import pytest

from harness.database import Place, UnavailableError, answers, cluster, container, sources
from harness.database import schema as database
from harness.errors import StartError
from harness.processes.deadline import Deadline, until
from harness.processes.ports import Ports
from harness.processes.processes import Processes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.choices import Source
    from harness.database import Postgres

pytestmark = pytest.mark.live


@contextmanager
def opened(source: Source, tmp_path: Path, environment: Mapping[str, str] | None = None) -> Iterator[Postgres]:
    """Open a source as a bed does."""
    with Ports(SystemRandom()) as ports, Processes(Path("/tmp")) as processes:  # noqa: S108 - a short path for sockets
        yield sources.start(Place(processes, ports, tmp_path, environment or os.environ), source)


def query(dsn: str, text: str) -> list[tuple[object, ...]]:
    """Return the rows of one query."""
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute(text)
        return list(cursor.fetchall())


def check(postgres: Postgres) -> None:
    """Load schema and rows, and fetch the pillars of one minion as Salt does."""
    database.install(postgres.dsn)
    database.fill(postgres.dsn, ["one", "two"], 1, database.Scale())
    assert len(query(postgres.dsn, "SELECT suse_minion_pillars('one')")) == 24


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """Yield somebody's server."""
    environment = {name: value for name, value in os.environ.items() if name != "HARNESS_PG_DSN"}
    with opened("auto", tmp_path_factory.mktemp("server"), environment) as found:
        yield found


@pytest.mark.parametrize("source", ["local", "wheel"])
def test_server_of_its_own(source: Source, tmp_path: Path) -> None:
    """Local binaries and the wheel's give a server that ends with the bed."""
    try:
        with opened(source, tmp_path) as postgres:
            check(postgres)
    except StartError as reason:
        if "neither PATH nor" not in str(reason):
            raise
        pytest.skip(str(reason))
    assert not answers(postgres)


def test_dsn(server: Postgres, tmp_path: Path) -> None:
    """A server that exists gets a database, which is dropped at the end."""
    with opened("dsn", tmp_path, {**os.environ, "HARNESS_PG_DSN": server.dsn}) as postgres:
        check(postgres)
        databases = "SELECT datname FROM pg_database WHERE datname LIKE 'saltbed%'"
        assert query(server.dsn, databases) == [(postgres.database,)]
    assert query(server.dsn, databases) == []


def test_dsn_of_a_url(server: Postgres, tmp_path: Path) -> None:
    """A connection string may be a URL."""
    url = f"postgresql://{server.user}:{server.password}@{server.host}:{server.port}/{server.database}"
    with opened("auto", tmp_path, {**os.environ, "HARNESS_PG_DSN": url}) as postgres:
        assert postgres.source == "HARNESS_PG_DSN, 127.0.0.1"


def test_dsn_that_does_not_answer(tmp_path: Path) -> None:
    """A wrong connection string is an error even where other sources would work: the user asked for this one."""
    environment = {**os.environ, "HARNESS_PG_DSN": "host=127.0.0.1 port=1 user=x dbname=x"}
    with (
        pytest.raises(StartError, match=r"^The server of HARNESS_PG_DSN does not answer: .*; correct or unset it\.$"),
        opened("auto", tmp_path, environment),
    ):
        pass


def test_docker(tmp_path: Path) -> None:
    """Docker gives a server in a container, which is removed at the end."""
    try:
        client = container.engine(os.environ)
    except UnavailableError as reason:
        pytest.skip(str(reason))
    with opened("docker", tmp_path) as postgres:
        check(postgres)
    assert client.containers.list(all=True, filters={"label": "saltbed"}) == []
    client.close()


def test_schema_by_psql(server: Postgres, root: Path) -> None:
    """The files of the schema load with plain psql, and again without a change."""
    binaries = cluster.local_binaries(os.environ, cluster.PLACES) or cluster.wheel_binaries()
    assert binaries is not None
    files = [f"--file={root / 'sql' / name}" for name in database.SCHEMA]
    for _ in range(2):
        command = [str(binaries / "psql"), "--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", *files, server.address]
        environment = {**os.environ, "PGPASSWORD": server.password}
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
    assert query(server.dsn, "SELECT suse_minion_pillars('nobody')") == []


def test_killed_server_is_noticed(tmp_path: Path) -> None:
    """A server that ends takes its backends along and stops answering."""
    with Ports(SystemRandom()) as ports, Processes(Path("/tmp")) as processes:  # noqa: S108 - a short path for sockets
        place = Place(processes, ports, tmp_path, os.environ)
        postgres = sources.start(place, "local")
        (pid,) = query(postgres.dsn, "SELECT pg_backend_pid()")[0]
        assert isinstance(pid, int)
        ((data,),) = query(postgres.dsn, "SHOW data_directory")
        leader = int(Path(str(data), "postmaster.pid").read_text().splitlines()[0])
        os.kill(leader, 9)
        until(lambda: not answers(postgres), Deadline(10), lambda: "it answers still")


@pytest.mark.needs_root
def test_wheel_below_a_private_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Binaries that the server's user can't reach, as in a virtual environment below /root, still work."""
    installed = cluster.wheel_binaries()
    if installed is None:
        pytest.skip("the wheel is not installed")
    package = installed.parents[1]
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    for folder in (installed.parent, package.with_name(f"{package.name}.libs")):
        shutil.copytree(folder, private / folder.relative_to(package.parent))
    monkeypatch.setattr(cluster, "wheel_binaries", lambda: private / installed.relative_to(package.parent))
    with opened("wheel", tmp_path) as postgres:
        check(postgres)
