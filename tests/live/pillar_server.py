"""A PostgreSQL server with a database for each test, and pillars compiled from it in this process."""

from __future__ import annotations

import copy
import os
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Any

import psycopg2
import salt.config
import salt.loader
import salt.pillar
import salt.utils.postgres
from psycopg2 import sql

from harness.database import forms, schema, sources
from harness.database.postgres import Place
from harness.processes.ports import Ports
from harness.processes.process import Processes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.database.postgres import Postgres

SEED = 1
SCALE = schema.Scale()
IDS = [f"minion-{number:05d}" for number in range(1000)]


@contextmanager
def served(logs: Path) -> Iterator[Postgres]:
    """Start a server as a bed does, and close what this process keeps of it."""
    with Ports(SystemRandom()) as ports, Processes(Path("/tmp")) as processes:  # noqa: S108 - a short path for sockets
        yield sources.start(Place(processes, ports, logs, os.environ), "auto")
        forget()


def forget() -> None:
    """Close the connections that Salt keeps in this process."""
    for connection in salt.utils.postgres._kept.values():
        connection.close()
    salt.utils.postgres._kept.clear()


@dataclass(frozen=True)
class Database:
    """A database of a server, with what tests do to it."""

    server: Postgres

    def run(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        """Run a statement in a transaction of its own and return its rows."""
        with closing(psycopg2.connect(self.server.dsn)) as connection, connection, connection.cursor() as cursor:
            cursor.execute(text, values or None)
            return list(cursor.fetchall()) if cursor.description else []

    def count(self) -> int:
        """Return the number of pillars."""
        return int(self.run("SELECT count(*) FROM suseSaltPillars")[0][0])


def make(server: Postgres, name: str, form: str | None = None) -> Database:
    """Make a database, with the files of a form if it is given."""
    with closing(psycopg2.connect(server.dsn)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    made = replace(server, database=name)
    if form:
        forms.install(made.dsn, forms.FORMS[form])
    return Database(made)


def filled(server: Postgres, name: str, form: str, minions: Sequence[str] = IDS) -> Database:
    """Make a database with the bed's pillars of these minions."""
    made = make(server, name, form)
    fill = forms.fill_target if form == "target" else schema.fill
    fill(made.server.dsn, minions, SEED, SCALE)
    return made


def options(folder: Path, postgres: Postgres, ext_pillar: list[dict[str, Any]], **more: object) -> dict[str, Any]:
    """Return the options of a master that has its pillars from these sources alone."""
    opts: dict[str, Any] = copy.deepcopy(salt.config.master_config(None))
    opts.update(
        {
            "cachedir": str(folder / "cache"),
            "pki_dir": str(folder / "pki"),
            "extension_modules": str(folder / "extmods"),
            "pillar_roots": {},
            "file_client": "local",
            "grains": {},
            "postgres": postgres.salt_options(),
            "ext_pillar": ext_pillar,
            # the driver of PostgreSQL is a matter of these tests, others are not
            "optimization_order": [0],
            **more,
        }
    )
    return opts


@dataclass(frozen=True)
class Compiler:
    """Compiles pillars by the sources of its options, many in a row at the price of one set-up."""

    pillar: Any

    def compile(self, minion: str) -> dict[str, Any]:
        """Return what a minion gets; errors are in `_errors`."""
        self.pillar.minion_id = minion
        found, errors = self.pillar.ext_pillar({}, [])
        return {**found, "_errors": errors} if errors else found


def compiler(opts: dict[str, Any]) -> Compiler:
    """Return a compiler."""
    return Compiler(salt.pillar.Pillar(opts, {}, "nobody", "base"))


def runner(opts: dict[str, Any], context: dict[str, Any] | None = None) -> Any:  # noqa: ANN401 - Salt's loader
    """Return the runners of a master; `context` gets the exit code."""
    return salt.loader.runner(opts, context={} if context is None else context)
