"""A database of the bed's own on somebody's server: `HARNESS_PG_DSN`.

A process of the bed creates the database and drops it when the bed ends, so that it goes even if the harness is
killed.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
from dataclasses import replace

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import parse_dsn

from harness.database import NAME, Place, Postgres, UnavailableError, first_line, wait_ready
from harness.errors import StartError
from harness.processes import deadline

VARIABLE = "HARNESS_PG_DSN"
READY_S = 30.0
CONNECT_S = 5.0


def start(place: Place) -> Postgres:
    """Create a database on the server that `HARNESS_PG_DSN` names."""
    dsn = place.environment.get(VARIABLE, "")
    if not dsn:
        raise UnavailableError(f"{VARIABLE} is not set")
    try:
        with psycopg2.connect(dsn, connect_timeout=int(deadline.patient(CONNECT_S))) as connection:
            known = connection.info
            parts = parse_dsn(dsn)
            name = f"{NAME}_{secrets.token_hex(8)}"
            host = parts.get("host", known.host or "localhost")
            postgres = Postgres(f"{VARIABLE}, {host}", host, known.port, known.user, known.password, name)
        connection.close()
    except psycopg2.Error as error:
        raise StartError(
            f"The server of {VARIABLE} does not answer: {first_line(error)}; correct or unset it."
        ) from error
    process = place.start("lease", name)
    wait_ready(postgres, process, READY_S)
    return replace(postgres, process=process)


def hold(dsn: str, name: str) -> None:
    """Create the database, wait to be told to stop, and drop it."""
    connection = psycopg2.connect(dsn)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        signal.sigwait([signal.SIGTERM, signal.SIGINT])
        cursor.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
    connection.close()


def main(name: str) -> int:
    """Hold the database `name` until SIGTERM."""
    # signals are blocked first: one between the creation and the wait must not prevent the drop
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])
    try:
        hold(os.environ[VARIABLE], name)
    except psycopg2.Error as error:
        print(f"The database {name} can't be made or dropped: {first_line(error)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
