"""
A connection to the PostgreSQL of the option ``postgres``

It is opened for one use and closed after it. Salt's own kept connections are for many
small queries.

:depends: psycopg2
"""

import contextlib
import math
import os
import select

try:
    import psycopg2
    import psycopg2.extensions
except ImportError:
    psycopg2 = None

# What is said without the driver
MISSING = "needs psycopg2, which is not installed."

# Where the database is, unless a service of libpq says so
PLACE = {"host": "localhost", "port": 5432, "user": "salt", "dbname": "salt"}

# The names that Salt has for parameters of libpq
NAMES = {"pass": "password", "db": "dbname"}

# The options that are no parameters of libpq, but of Salt's own kept connections
OWN = ("statement_timeout", "lifetime", "writes")

# After so many milliseconds without a sign of life the server is taken for gone
DEAD = 60000


def get_params(opts):
    """
    Return the parameters of a connection out of the option ``postgres``, as
    :mod:`salt.pillar.postgres` understands it
    """
    configured = {
        NAMES.get(name, name): value
        for name, value in (opts.get("postgres") or {}).items()
        if name not in OWN
    }
    params = {}
    if "service" not in configured and "PGSERVICE" not in os.environ:
        params.update(PLACE)
        if "passfile" not in configured and not {"PGPASSWORD", "PGPASSFILE"} & set(
            os.environ
        ):
            params["password"] = "salt"
    params.update(connect_timeout=10, fallback_application_name="salt")
    params.update(configured)
    # libpq takes integers
    if isinstance(params["connect_timeout"], float):
        params["connect_timeout"] = math.ceil(params["connect_timeout"])
    return {name: value for name, value in params.items() if value is not None}


def connect(opts, limit=None):
    """
    Return a context with a new :class:`Connection` to the database of the options
    """
    return contextlib.closing(Connection(limit=limit, **get_params(opts)))


class Connection:
    """
    A connection in autocommit mode, whose owner begins and ends transactions

    limit
        The seconds after which a query that is not answered ends the connection, None is
        no limit. libpq has none as long as the server's kernel acknowledges.
    """

    def __init__(self, limit=None, **params):
        self._limit = limit
        self._conn = psycopg2.connect(
            **{"keepalives_idle": 30, "tcp_user_timeout": DEAD, **params}
        )
        self._conn.autocommit = True
        self._cursor = self._conn.cursor()

    def execute(self, query, values=None):
        if self._limit is None:
            self._cursor.execute(query, values)
            return
        # for all connections of the process: only an engine has a limit
        psycopg2.extensions.set_wait_callback(self._wait)
        try:
            self._cursor.execute(query, values)
        finally:
            psycopg2.extensions.set_wait_callback(None)

    def _wait(self, conn):
        while (state := conn.poll()) != psycopg2.extensions.POLL_OK:
            reads = state == psycopg2.extensions.POLL_READ
            sides = ([conn], []) if reads else ([], [conn])
            if not any(select.select(*sides, [], self._limit)):
                # psycopg2 closes the connection
                raise psycopg2.OperationalError(
                    f"no answer from the server in {self._limit:g} seconds"
                )

    def fetchall(self):
        return self._cursor.fetchall()

    def notified(self, seconds):
        """
        Return whether a notification has come, after waiting for up to so many seconds
        """
        # one may have come with the answer of a query
        if not self._conn.notifies and select.select([self._conn], [], [], seconds)[0]:
            self._conn.poll()
        is_notified = bool(self._conn.notifies)
        self._conn.notifies.clear()
        return is_notified

    def close(self):
        self._conn.close()
