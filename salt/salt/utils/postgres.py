"""
Connections to PostgreSQL that are kept, one for each process

.. versionadded:: 3009.0

Opening a connection takes much longer than a small query does, and a master
asks for the pillar of each of its minions. Modules cannot keep a connection
themselves, as nothing that the loader packs into them outlives a compile.

Connections are in autocommit mode: one that is kept must not sit in a
transaction, where it would block whoever alters the tables. What one user of a
connection has set is not there for the next one.

:depends: psycopg2
"""

import contextlib
import json
import os
import selectors
import socket
import time

try:
    import psycopg2
    import psycopg2.extensions
    import psycopg2.extras
except ImportError:
    # modules that need it say so
    psycopg2 = None

# A connection that was not used for so many seconds is replaced by a new one.
# Routers and servers drop idle connections, not always with a word.
KEEP_IDLE = 60

# How many seconds an answer may be late if connect_timeout is no limit
LATE = 10

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

# What a new connection has and one that was used may have lost. DISCARD ALL
# must be alone in its message, which would take a round trip, and discards the
# plans of functions, which are most of the time of a small query. psycopg2
# sets the style of dates when it connects.
RESET = (
    "SET SESSION AUTHORIZATION DEFAULT; RESET ALL; SET datestyle TO 'ISO';"
    " DISCARD TEMP; SELECT pg_advisory_unlock_all(); "
)

# Locks of a session outlive its transactions
END = "ROLLBACK; SELECT pg_advisory_unlock_all()"

# A limit of the server that is lower stays. It is local, so that a pooler does
# not hand it to others, and no parameter of the connection, which would take
# the place of PGOPTIONS, and which PgBouncer refuses.
LIMIT = (
    "SELECT set_config('statement_timeout', '{0}', true)"
    " WHERE NOT current_setting('statement_timeout')::interval"
    " BETWEEN '1ms' AND '{0}ms'; "
)

# Needs no descriptor of its own, unlike the default, and this is for one socket
SELECTOR = getattr(selectors, "PollSelector", selectors.SelectSelector)

DECODER = json.JSONDecoder()

# The kept connections by process id and parameters. A connection that is in
# use is not in here, so threads never share one.
_kept = {}


def _targets(host, port):
    """
    Return the hosts that one may connect to, as parameters for one of each

    As in libpq, ``host`` and ``port`` may be lists with commas, and each
    address of a host is tried.
    """
    hosts = str(host or "").split(",")
    ports = str(port or "").split(",")
    if len(ports) == 1:
        ports *= len(hosts)
    if len(ports) != len(hosts):
        # libpq says what is wrong
        return [{"host": host, "port": port}]
    found = []
    for name, number in zip(hosts, ports):
        target = {"host": name or None, "port": number or None}
        addresses = []
        # a path or an abstract name is that of a socket
        if name and not name.startswith(("/", "@")):
            with contextlib.suppress(OSError, UnicodeError):
                infos = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
                addresses = list(dict.fromkeys(info[4][0] for info in infos))
        if len(addresses) > 1:
            found.extend({**target, "hostaddr": address} for address in addresses)
        else:
            found.append(target)
    return found


def _from_jsonb(text):
    """
    Return the value of a field of type jsonb

    ``json.loads`` looks for space around a value, which a server never sends
    for this type. That is a tenth of the time of a small value.
    """
    return DECODER.raw_decode(text)[0]


class Connection:
    """
    An open connection to PostgreSQL that has a time limit for all it does

    connect_timeout
        The seconds that connecting may take, for each address of each host,
        and that an answer may be late. 0 is no limit for connecting.

    statement_timeout
        The seconds after which the server cancels a statement that
        :meth:`begin` was called for. 0 is no limit.

    All other parameters are those of libpq. One that is None is left out.

    psycopg2 has time limits for its asynchronous connections only: with the
    others, a server that takes a statement and never answers blocks for ever.
    """

    def __init__(
        self, connect_timeout=0, statement_timeout=0, host=None, port=None, **params
    ):
        self.pid = os.getpid()
        self._late = float(connect_timeout or 0)
        self._limit = float(statement_timeout or 0)
        self._cursor = None
        self._answers = None
        self._first = ""
        targets = _targets(host, port)
        for number, target in enumerate(targets, 1):
            try:
                self._connect({**params, **target})
                break
            except psycopg2.OperationalError:
                if number == len(targets):
                    raise
        self._used = time.monotonic()

    def _connect(self, params):
        self._conn = psycopg2.connect(async_=True, **params)
        try:
            self._wait(self._late)
        except BaseException:
            self.close()
            raise
        psycopg2.extras.register_default_jsonb(self._conn, loads=_from_jsonb)
        # From now on it stays the same socket
        self._answers = SELECTOR()
        self._answers.register(self._conn.fileno(), selectors.EVENT_READ)

    def _wait(self, seconds):
        """
        Wait until the connection is ready, for ever if ``seconds`` is 0
        """
        end = time.monotonic() + seconds
        while True:
            state = self._conn.poll()
            if state == psycopg2.extensions.POLL_OK:
                return
            left = max(0, end - time.monotonic()) if seconds else None
            if not self._ready(state == psycopg2.extensions.POLL_WRITE, left):
                raise psycopg2.OperationalError(
                    f"no answer from the server in {seconds:g} seconds"
                )

    def _ready(self, writable, seconds):
        """
        Return whether the socket is ready within seconds, None is no limit
        """
        if self._answers is not None and not writable:
            return bool(self._answers.select(seconds))
        # While connecting, the socket changes with each address that is tried.
        event = selectors.EVENT_WRITE if writable else selectors.EVENT_READ
        with SELECTOR() as selector:
            selector.register(self._conn.fileno(), event)
            return bool(selector.select(seconds))

    def begin(self, transaction):
        """
        Begin to use the connection as if it was new

        What this takes is sent with the next query.

        transaction
            Whether all queries up to :meth:`end` are one transaction. Without
            it each is one of its own.
        """
        self._first = RESET
        if transaction:
            self._first += "BEGIN; "
        if self._limit:
            self._first += LIMIT.format(max(1, round(self._limit * 1000)))

    def end(self):
        """
        Roll back the transaction, if there is one
        """
        self._first = ""
        idle = psycopg2.extensions.TRANSACTION_STATUS_IDLE
        if not self.closed and self._conn.get_transaction_status() != idle:
            self.execute(END)

    def execute(self, query, values=None):
        """
        Execute a query and wait for its result

        After an error of the query itself the connection works on.
        """
        first, self._first = self._first, ""
        try:
            self._cursor = self._conn.cursor()
            self._cursor.execute(first + query, values)
            self._wait(self._limit + (self._late or LATE) if self._limit else 0)
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
        return not self._ready(False, 0)

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
def get_connection(transaction=False, **params):
    """
    Yield a connection to PostgreSQL, the one of this process if it is free

    transaction
        Whether all queries are one transaction, which is rolled back. Without
        it each is one of its own.

    All others are those of :class:`Connection`. Raises the errors of psycopg2.

    A kept connection that was closed meanwhile, as by a restart of the server,
    is replaced by a new one, once. A connection that breaks while a query is
    on its way is an error: the query may have been the reason, and may have
    been executed.
    """
    pid = os.getpid()
    # psycopg2 does not close what belongs to another process
    for key in [key for key in list(_kept) if key[0] != pid]:
        _kept.pop(key, None)
    key = (pid, tuple(sorted(params.items())))
    connection = _kept.pop(key, None)
    if connection is not None and not connection.usable():
        connection.close()
        connection = None
    if connection is None:
        connection = Connection(**params)
    connection.begin(transaction)
    try:
        try:
            yield connection
        finally:
            if os.getpid() == pid:
                connection.end()
    finally:
        # not in a process that was forked meanwhile, nor if another thread
        # was faster
        if (
            connection.closed
            or os.getpid() != pid
            or _kept.setdefault(key, connection) is not connection
        ):
            connection.close()
