"""A PostgreSQL database of the bed's own.

What the sources of PostgreSQL share: where they start what they start, what they give to the bed, and how they are
waited for.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg2
from psycopg2.extensions import make_dsn

from harness.errors import StartError
from harness.paths import ROOT
from harness.processes import deadline
from harness.processes.command import Command, Layer
from harness.processes.deadline import until
from harness.processes.ports import HOST

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from harness.processes.ports import Ports
    from harness.processes.processes import Process, Processes

NAME = "saltbed"
ANSWER_S = 2.0


class UnavailableError(StartError):
    """This machine lacks what a source of PostgreSQL needs."""


@dataclass(frozen=True)
class Place:
    """Where a source starts its server; `port` is the one that the user wants, if any.

    `listen` is the address at which the server takes connections; more than the bed's own needs an open network.
    """

    processes: Processes
    ports: Ports
    logs: Path
    environment: Mapping[str, str]
    port: int | None = None
    listen: str = HOST

    @property
    def log(self) -> Path:
        """Return the server's log."""
        return self.logs / "postgres.log"

    def start(self, source: str, *arguments: str, **environment: str) -> Process:
        """Start the process of the bed that holds a database until it is stopped: `harness.database.SOURCE`."""
        command = Command(
            role="postgres",
            argv=[sys.executable, "-m", f"harness.database.{source}", *arguments],
            environment={**self.environment, "PYTHONPATH": str(ROOT), **environment},
            output=self.log,
            layer=Layer.DATABASE,
        )
        return self.processes.start(source, command)


@dataclass(frozen=True)
class Postgres:
    """A database of the bed's own; `source` says where it comes from, `process` is what the bed runs for it."""

    source: str
    host: str
    port: int
    user: str
    password: str
    database: str
    process: Process | None = field(default=None, compare=False, repr=False)

    @property
    def dsn(self) -> str:
        """Return the connection string, as libpq takes it."""
        return str(
            make_dsn(host=self.host, port=self.port, user=self.user, password=self.password, dbname=self.database)
        )

    @property
    def address(self) -> str:
        """Return the connection string without the password."""
        return str(make_dsn(host=self.host, port=self.port, user=self.user, dbname=self.database))

    @property
    def passfile(self) -> str:
        """Return the password as a line of a file of passwords, where a colon ends a field."""
        password = (self.password or "").replace("\\", "\\\\").replace(":", "\\:")
        return f"*:*:*:*:{password}\n"

    def salt_options(self) -> dict[str, Any]:
        """Return the section `postgres` of the master's configuration, see salt.pillar.postgres."""
        return {"host": self.host, "port": self.port, "user": self.user, "pass": self.password, "db": self.database}


def first_line(error: Exception) -> str:
    """Return the first line of an error, which libpq likes to spread over several."""
    return str(error).strip().partition("\n")[0]


def answers(postgres: Postgres) -> bool:
    """Say whether the database takes connections."""
    try:
        psycopg2.connect(postgres.dsn, connect_timeout=int(deadline.patient(ANSWER_S))).close()
    except psycopg2.OperationalError:
        return False
    return True


def wait_ready(
    postgres: Postgres, process: Process, seconds: float, listens: Callable[[], bool] = lambda: True
) -> None:
    """Wait until the database that `process` brings takes connections; raise StartError with the end of its log.

    `seconds` are those of a quiet machine. Nothing is sent before `listens` says that the server is there: any other
    one could ask for the password as it is.
    """
    deadline = process.patience(seconds)

    def ready() -> bool:
        process.check()
        return listens() and answers(postgres)

    until(ready, deadline, lambda: process.late(f"PostgreSQL on port {postgres.port} does not answer", deadline))
