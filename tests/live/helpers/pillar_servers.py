"""Two PostgreSQL servers, one the other's standby, and a PgBouncer before them, in a network that can be cut.

The roles change at each fail-over, so the servers are called by their ports.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg2

from harness.database import Postgres
from harness.database.cluster import PLACES, local_binaries
from harness.database.sources import Database
from harness.processes.deadline import Deadline, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.live.helpers.cut_network import CutNetwork

ADMIN, DATABASE, USER, OWNER = "saltbed", "soak", "salt", "postgres"
PORTS, POOLER_PORT, POOL = (5432, 5433), 6432, 4
ANSWER_S, START_S = 3, 60
# so that sessions whose client the network has lost end soon
SETTINGS = {
    "fsync": "off",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "2",
    "tcp_user_timeout": "15000",
    "wal_keep_size": "256MB",
    "max_connections": "100",
}


def missing() -> str:
    """Say what this machine lacks, or nothing."""
    if os.geteuid() != 0:
        return "needs root, for a network of its own"
    if local_binaries(os.environ, PLACES) is None:
        return "needs PostgreSQL: `apt-get install postgresql`"
    return "" if pooler() else "needs PgBouncer: `apt-get install pgbouncer`"


def pooler() -> str | None:
    """Return the program PgBouncer."""
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@dataclass
class Servers:
    """Both servers and the pooler; `primary` is the port of the one that takes writes."""

    network: CutNetwork
    folder: Path
    password: str
    primary: int = PORTS[0]
    _processes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def standby(self) -> int:
        """Return the port of the other server."""
        return next(port for port in PORTS if port != self.primary)

    @property
    def passfile(self) -> Path:
        """Return the file in which clients find the password."""
        return self.folder / "pgpass"

    def postgres(self, port: int | None = None, database: str = DATABASE) -> Postgres:
        """Return a server as its administrator sees it, by default the primary."""
        return Postgres("soak", self.network.minions, port or self.primary, ADMIN, ADMIN, database)

    def database(self) -> Database:
        """Return the database on the primary."""
        return Database(self.postgres())

    def binary(self, name: str) -> str:
        """Return the path of a program of PostgreSQL."""
        folder = local_binaries(os.environ, PLACES)
        return str((folder or Path()) / name)

    def make(self) -> None:
        """Make the first server."""
        secret = self.folder / "secret"
        secret.write_text(ADMIN)
        shutil.chown(secret, OWNER)
        initdb = [self.binary("initdb"), f"--pgdata={self._data(self.primary)}", f"--username={ADMIN}"]
        self._run(*initdb, f"--pwfile={secret}", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync")
        with (self._data(self.primary) / "pg_hba.conf").open("a", encoding="ascii") as rules:
            rules.write("host all all all scram-sha-256\nhost replication all all scram-sha-256\n")
        self.start(self.primary)

    def start(self, port: int) -> None:
        """Start a server and wait until it answers."""
        settings = [part for name, value in SETTINGS.items() for part in ("-c", f"{name}={value}")]
        argv = [self.binary("postgres"), "-D", str(self._data(port)), "-h", self.network.minions, "-p", str(port)]
        self._processes[port] = self._popen(*argv, "-k", str(self.folder), *settings, log=f"{port}.log")
        until(lambda: self._answers(port), Deadline(START_S), lambda: f"The server on {port} does not answer.")

    def stop(self, port: int, *, kill: bool) -> None:
        """Stop a server: its clients are told, or it dies at once."""
        process = self._processes.pop(port)
        # "immediate", and not a kill, after which its children are left
        process.send_signal(signal.SIGQUIT if kill else signal.SIGINT)
        process.wait(START_S)

    def copy(self) -> None:
        """Make the other server a standby of the primary, whatever it was."""
        data = self._data(self.standby)
        shutil.rmtree(data, ignore_errors=True)
        where = ["-h", self.network.minions, "-p", str(self.primary), "-U", ADMIN]
        self._run(self.binary("pg_basebackup"), *where, "-D", str(data), "-R", "-c", "fast", "--no-sync")
        self.start(self.standby)

    def fail_over(self) -> None:
        """Kill the primary, let the standby take its place, and make what died a standby."""
        caught_up = "SELECT bool_and(replay_lsn = pg_current_wal_lsn()) FROM pg_stat_replication"
        until(lambda: self.database().run(caught_up) == [(True,)], Deadline(START_S), lambda: "no standby")
        self.stop(self.primary, kill=True)
        self.promote()
        self._write_pooler()
        self._processes[POOLER_PORT].send_signal(signal.SIGHUP)
        self.copy()

    def promote(self) -> None:
        """Let the standby take writes in the place of the primary, which has to be stopped."""
        self.primary = self.standby
        Database(self.postgres(database="postgres")).run("SELECT pg_promote()")

    def rotate(self, password: str) -> None:
        """Give the clients' role another password, and write it where they look for it."""
        self.password = password
        self.database().run(f"ALTER ROLE {USER} PASSWORD %s", password)
        self._write_passwords()
        self._processes[POOLER_PORT].send_signal(signal.SIGHUP)

    def start_pooler(self) -> None:
        """Start PgBouncer and wait until it answers."""
        self._write_passwords()
        self._write_pooler()
        self._processes[POOLER_PORT] = self._popen(str(pooler()), "-q", str(self.folder / "ini"), log="pooler.log")
        until(lambda: self._answers(POOLER_PORT), Deadline(START_S), lambda: "PgBouncer does not answer.")

    def stop_pooler(self) -> None:
        """End PgBouncer, and with it the connections of its clients."""
        process = self._processes.pop(POOLER_PORT)
        process.terminate()
        process.wait(START_S)

    def close(self) -> None:
        """Stop whatever runs."""
        # PgBouncer may ignore the other signal
        for port, process in self._processes.items():
            process.send_signal(signal.SIGTERM if port == POOLER_PORT else signal.SIGQUIT)
        for process in self._processes.values():
            try:
                process.wait(START_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _data(self, port: int) -> Path:
        return self.folder / f"data-{port}"

    def _write_passwords(self) -> None:
        # in one step, as somebody may read them at any moment
        for path, line in ((self.passfile, f"*:*:*:{USER}:{self.password}"), (self.folder / "users", self._users())):
            new = path.with_suffix(".new")
            new.write_text(f"{line}\n")
            new.chmod(0o600)
            if path != self.passfile:
                shutil.chown(new, OWNER)
            new.replace(path)

    def _users(self) -> str:
        return f'"{USER}" "{self.password}"\n"{ADMIN}" "{ADMIN}"'

    def _write_pooler(self) -> None:
        lines = {
            "listen_addr": self.network.minions,
            "listen_port": str(POOLER_PORT),
            "unix_socket_dir": "",
            "auth_type": "scram-sha-256",
            "auth_file": str(self.folder / "users"),
            "pool_mode": "transaction",
            "default_pool_size": str(POOL),
            "server_login_retry": "1",
            "server_connect_timeout": "3",
        }
        place = f"{DATABASE} = host={self.network.minions} port={self.primary} dbname={DATABASE}"
        text = f"[databases]\n{place}\n[pgbouncer]\n" + "".join(f"{name} = {lines[name]}\n" for name in lines)
        (self.folder / "ini").write_text(text)

    def _answers(self, port: int) -> bool:
        process = self._processes[port]
        assert process.poll() is None, (self.folder / "logs" / f"{port}.log").read_text()[-2000:]
        try:
            psycopg2.connect(self.postgres(port, DATABASE if port == POOLER_PORT else "postgres").dsn).close()
        except psycopg2.OperationalError:
            return False
        return True

    def _inside(self, *argv: str) -> list[str]:
        # ends with whoever started it
        owner = ["setpriv", f"--reuid={OWNER}", f"--regid={OWNER}", "--clear-groups", "--pdeathsig=QUIT"]
        return [*self.network.inside(), *owner, *argv]

    def _popen(self, *argv: str, log: str) -> subprocess.Popen[bytes]:
        with (self.folder / "logs" / log).open("ab") as output:
            return subprocess.Popen(self._inside(*argv), stdout=output, stderr=output, cwd="/")

    def _run(self, *argv: str) -> None:
        environment = {**os.environ, "PGPASSWORD": ADMIN}
        subprocess.run(self._inside(*argv), check=True, capture_output=True, timeout=300, cwd="/", env=environment)


@contextmanager
def servers(network: CutNetwork, folder: Path) -> Iterator[Servers]:
    """Start a primary with an empty database, its standby comes with `copy`; `folder` has a short path."""
    # only they and root may use its Unix sockets
    folder.chmod(0o700)
    shutil.chown(folder, OWNER)
    (folder / "logs").mkdir()
    made = Servers(network, folder, "first")
    try:
        made.make()
        yield made
    finally:
        made.close()
