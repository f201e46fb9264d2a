"""
Connections to PostgreSQL that are kept, one for each process

.. versionadded:: 3009.0

Opening a connection takes much longer than a small query does, and a master
asks for the pillar of each of its minions. Modules cannot keep a connection
themselves, as nothing that the loader packs into them outlives a compile.

Connections are in autocommit mode: one that is kept must not sit in a
transaction, where it would block whoever alters the tables.

:depends: psycopg2
"""

import contextlib
import os
import selectors
import time

try:
    import psycopg2
    import psycopg2.extensions

    HAS_PSYCOPG2 = True
except ImportError:
    HAS_PSYCOPG2 = False

# A connection that was not used for so many seconds is replaced by a new one.
# Routers and servers drop idle connections, not always with a word.
KEEP_IDLE = 60

# The options of the connection in the configuration, and their defaults. Those
# that are None are left to libpq.
DEFAULTS = {
    "host": "localhost",
    "user": "salt",
    "pass": "salt",
    "db": "salt",
    "port": 5432,
    "sslmode": None,
    "sslrootcert": None,
    "sslcert": None,
    "sslkey": None,
    "application_name": None,
    "connect_timeout": 10,
    "statement_timeout": 60,
}

# The kept connections by process id and parameters. A connection that is in
# use is not in here, so threads never share one.
_kept = {}


class Connection:
    """
    An open connection to PostgreSQL that has a time limit for all it does

    connect_timeout
        The seconds that connecting may take, for all addresses of a host
        together, and that an answer may be late. 0 is no limit.

    statement_timeout
        The seconds after which the server cancels a statement. 0 is no limit.

    All other parameters are those of libpq. One that is None is left out.

    psycopg2 has time limits for its asynchronous connections only: with the
    others, a server that takes a statement and never answers blocks for ever.
    """

    def __init__(self, connect_timeout=0, statement_timeout=0, **params):
        self.pid = os.getpid()
        self._late = float(connect_timeout)
        self._limit = float(statement_timeout)
        self._cursor = None
        if self._limit:
            params["options"] = "{} -c statement_timeout={}".format(
                params.get("options") or "", max(1, round(self._limit * 1000))
            ).strip()
        self._conn = psycopg2.connect(async_=True, **params)
        try:
            self._wait(self._late)
        except BaseException:
            self.close()
            raise
        self._used = time.monotonic()

    def _wait(self, seconds):
        """
        Wait until the connection is ready, for ever if ``seconds`` is 0
        """
        end = time.monotonic() + seconds
        while True:
            state = self._conn.poll()
            if state == psycopg2.extensions.POLL_OK:
                return
            event = (
                selectors.EVENT_WRITE
                if state == psycopg2.extensions.POLL_WRITE
                else selectors.EVENT_READ
            )
            # While connecting, the socket changes with each address that is
            # tried.
            with selectors.DefaultSelector() as selector:
                selector.register(self._conn.fileno(), event)
                left = max(0, end - time.monotonic()) if seconds else None
                if not selector.select(left):
                    raise psycopg2.OperationalError(
                        f"no answer from the server in {seconds:g} seconds"
                    )

    def execute(self, query, values=None):
        """
        Execute a query and wait for its result

        After an error of the query itself the connection works on.
        """
        try:
            self._cursor = self._conn.cursor()
            self._cursor.execute(query, values)
            self._wait(self._limit + self._late if self._limit else 0)
        except psycopg2.Error:
            if not self._conn.closed and self._conn.isexecuting():
                self.close()
            raise
        except BaseException:
            self.close()
            raise
        self._used = time.monotonic()

    @property
    def description(self):
        """
        The fields of the last result, see PEP 249
        """
        return self._cursor.description

    def fetchall(self):
        """
        Return the rows of the last result
        """
        return self._cursor.fetchall()

    def usable(self):
        """
        Return whether a query may be sent on this connection
        """
        if self._conn.closed or time.monotonic() - self._used > KEEP_IDLE:
            return False
        # A server has nothing to say to an idle connection, except that it
        # goes.
        with selectors.DefaultSelector() as selector:
            selector.register(self._conn.fileno(), selectors.EVENT_READ)
            return not selector.select(0)

    @property
    def closed(self):
        """
        Whether the connection is closed, by us or by the server
        """
        return bool(self._conn.closed)

    def close(self):
        """
        Close the connection

        In a process that was forked this leaves it alone: the server would
        end the session of the parent, whose socket it is.
        """
        if self.pid == os.getpid():
            self._cursor = None
            self._conn.close()


def get_params(opts):
    """
    Return the parameters of a connection out of the option ``postgres``
    """
    configured = opts.get("postgres", {})
    params = {name: configured.get(name, default) for name, default in DEFAULTS.items()}
    params["password"] = params.pop("pass")
    params["dbname"] = params.pop("db")
    params["fallback_application_name"] = "salt"
    return params


@contextlib.contextmanager
def get_connection(**params):
    """
    Yield a connection to PostgreSQL, the one of this process if it is free

    Takes the parameters of :class:`Connection`. Raises the errors of psycopg2.

    A kept connection that was closed meanwhile, as by a restart of the server,
    is replaced by a new one, once. A connection that breaks while a query is
    on its way is an error: the query may have been the reason, and may have
    been executed.
    """
    pid = os.getpid()
    # psycopg2 does not close what belongs to another process
    for key in [key for key in _kept if key[0] != pid]:
        _kept.pop(key, None)
    key = (pid, tuple(sorted(params.items())))
    connection = _kept.pop(key, None)
    if connection is not None and not connection.usable():
        connection.close()
        connection = None
    if connection is None:
        connection = Connection(**params)
    try:
        yield connection
    finally:
        # not in a process that was forked meanwhile, nor if another thread
        # was faster
        if (
            connection.closed
            or os.getpid() != pid
            or _kept.setdefault(key, connection) is not connection
        ):
            connection.close()
