"""
A connection to the PostgreSQL of the option ``postgres``

It is opened for one use and closed after it. Salt's own kept connections are for many
small queries.

:depends: psycopg2, or psycopg 3.1 or later where only that is installed
"""

import contextlib
import math
import os
import select
import socket
import threading

import saltext.uyuni_pillar.driver as driver

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


class Connection:
    """
    A connection in autocommit mode, whose owner begins and ends transactions

    limit
        The seconds after which a query that is not answered ends the connection, None is
        no limit. libpq has none as long as the server's kernel acknowledges, as it does
        for a process that is stopped or waits for its disk.

    params
        Those of libpq.
    """

    def __init__(self, limit=None, **params):
        self._limit = limit
        self._is_waiting = False
        self._lock = threading.Lock()
        self._conn = driver.module.connect(
            **{"keepalives_idle": 30, "tcp_user_timeout": DEAD, **params}
        )
        self._conn.autocommit = True
        self._bells = []
        if hasattr(driver.module, "ClientCursor"):
            # one message may have several statements, as with psycopg2
            self._cursor = driver.module.ClientCursor(self._conn)
            self._conn.add_notify_handler(self._bells.append)
        else:
            self._cursor = self._conn.cursor()
            self._bells = self._conn.notifies

    def execute(self, query, values=None):
        """
        Execute a query and wait for its result
        """
        with self._limited():
            self._cursor.execute(query, values)

    @contextlib.contextmanager
    def _limited(self):
        if self._limit is None:
            yield
            return
        self._is_waiting = True
        timer = threading.Timer(self._limit, self._end)
        timer.daemon = True
        timer.start()
        try:
            yield
        except driver.module.Error as err:
            if self._is_waiting or driver.code(err):
                raise
            raise driver.module.OperationalError(
                f"no answer from the server in {self._limit:g} seconds"
            ) from None
        finally:
            timer.cancel()
            # the socket may be that of something else from here on
            with self._lock:
                self._is_waiting = False

    def _end(self):
        with self._lock:
            if self._is_waiting:
                self._is_waiting = False
                with socket.socket(fileno=os.dup(self._conn.fileno())) as sock:
                    sock.shutdown(socket.SHUT_RDWR)

    def fetchall(self):
        """
        Return the rows of the last result
        """
        return self._cursor.fetchall()

    def heard(self, seconds):
        """
        Return whether a notification has come, after waiting for up to so many seconds
        """
        # one may have come with the answer of a query
        if not self._bells and select.select([self._conn], [], [], seconds)[0]:
            self._read()
        is_heard = bool(self._bells)
        self._bells.clear()
        return is_heard

    def _read(self):
        if hasattr(self._conn, "poll"):
            self._conn.poll()
            return
        self._conn.pgconn.consume_input()
        while True:
            bell = self._conn.pgconn.notifies()
            if bell is None:
                return
            self._bells.append(bell)

    def close(self):
        """
        Close the connection, which rolls back what is not committed
        """
        self._conn.close()
