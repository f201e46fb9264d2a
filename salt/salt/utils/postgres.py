"""
Connections to PostgreSQL that are kept, one for each process

.. versionadded:: 3009.0

Opening a connection takes much longer than a small query does, and a master
asks for the pillar of each of its minions. Modules cannot keep a connection
themselves, as nothing that the loader packs into them outlives a compile.

Each use of a connection is one transaction, and sees one state of the database.
What a user of a connection leaves in its session is reset before the next one
sends anything: a query is quoted and parsed as the session is at that time.

:depends: psycopg2
"""

import contextlib
import json
import math
import os
import random
import re
import select
import socket
import threading
import time

import salt.exceptions

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

# How many seconds an answer may be late
LATE = 10

# A server that did not take a connection is not asked again for as long as
# this took, and at most for so many seconds
PAUSE = 30

# The kept memory of libpq grows to the largest value, and never shrinks. A
# connection that had one of so many characters is not kept.
LARGE = 1000000

# What PostgreSQL takes for statement_timeout
LONGEST = 2147483

# The options that are no parameters of libpq
OWN = {"statement_timeout": 60, "lifetime": 600, "writes": "refuse"}

# Where the database is, unless a service of libpq says so
PLACE = {"host": "localhost", "port": 5432, "user": "salt", "dbname": "salt"}

# The names that Salt has for parameters of libpq
NAMES = {"pass": "password", "db": "dbname"}

# What is left if a network drops all packets
NETWORK = {"keepalives_idle": 10, "keepalives_interval": 10, "keepalives_count": 3}

# All queries of a use see the same state of the database
BEGIN = {
    "refuse": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; ",
    "rollback": "BEGIN ISOLATION LEVEL REPEATABLE READ READ WRITE; ",
    "commit": "BEGIN ISOLATION LEVEL REPEATABLE READ READ WRITE; ",
}

# The parts of DISCARD ALL, which must be alone in its message, and a role that
# the server sets for the user, which DISCARD ALL forgets. The plans of
# functions stay: they are most of the time of a small query, and give the same.
RESET = (
    "ROLLBACK; CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ROLE; RESET ALL;"
    " DEALLOCATE ALL; UNLISTEN *; SELECT pg_catalog.pg_advisory_unlock_all();"
    " DISCARD SEQUENCES; DISCARD TEMP"
)

# A statement that cannot end its transaction. What it sets, makes or listens to
# is gone with that: less is left to reset.
PLAIN = re.compile(r"\s*(?:SELECT|WITH)\b[^;]*", re.ASCII | re.IGNORECASE)
RESET_PLAIN = (
    "ROLLBACK; DEALLOCATE ALL; SELECT pg_catalog.pg_advisory_unlock_all();"
    " DISCARD SEQUENCES"
)

# What the server tells of a session whenever it changes. A server that does
# not have one of them tells nothing.
STATUSES = (
    *("application_name", "client_encoding", "DateStyle", "IntervalStyle"),
    *("TimeZone", "standard_conforming_strings", "is_superuser", "search_path"),
    *("session_authorization", "default_transaction_read_only", "in_hot_standby"),
)

# Those that a client sets when it connects. RESET ALL goes behind that where a
# pooler stands between.
CLIENT = ("application_name", "client_encoding", "DateStyle")

# Those by which psycopg2 writes values and reads them
FORMAT = (
    *("client_encoding", "standard_conforming_strings"),
    *("DateStyle", "IntervalStyle"),
)

DECODER = json.JSONDecoder()

# The kept connections by process id and parameters. A connection that is in
# use is not in here, so threads never share one.
_kept = {}

# Until when a server is not asked again and why, by process id and parameters
_failed = {}


class _Watch:
    """
    Ends connections whose server takes a query and never answers

    libpq has no limit for that: as long as the kernel of a server acknowledges,
    as it does for a process that is stopped or waits for its disk, and as a
    pooler does that is paused, neither keepalives nor tcp_user_timeout end it.
    """

    def __init__(self):
        self._pid = None
        self._lock = threading.Lock()
        self._ends = {}

    def begin(self, connection, seconds):
        """
        End a connection unless :meth:`end` is called in so many seconds
        """
        with self._lock:
            if self._pid != os.getpid():
                # a forked process has no threads
                self._pid = os.getpid()
                self._ends.clear()
                threading.Thread(target=self._run, daemon=True).start()
            self._ends[connection] = time.monotonic() + seconds

    def end(self, connection):
        """
        Return whether a connection is still good
        """
        with self._lock:
            return self._ends.pop(connection, None) is not None

    def _run(self):
        # A condition to wait for would take longer than a small query
        while True:
            time.sleep(0.5)
            with self._lock:
                for connection, end in list(self._ends.items()):
                    if end < time.monotonic():
                        del self._ends[connection]
                        connection.shutdown()


_watch = _Watch()


class Cursor(psycopg2.extensions.cursor if psycopg2 else object):
    """
    A cursor of psycopg2 whose queries are those of one use of a connection
    """

    owner = None

    def execute(self, query, vars=None):  # pylint: disable=redefined-builtin
        """
        Execute a query and wait for its result, see PEP 249
        """
        if hasattr(query, "as_string"):
            query = query.as_string(self)
        elif isinstance(query, bytes):
            query = query.decode()
        with self.owner.asking(PLAIN.fullmatch(query)) as first:
            super().execute(first + query, vars)

    def executemany(self, query, vars_list):
        """
        Execute a query for each of many values, see PEP 249
        """
        for values in vars_list:
            self.execute(query, values)

    def callproc(self, procname, parameters=()):
        """
        Call a function, see PEP 249
        """
        with self._asking():
            return super().callproc(procname, parameters)

    def copy_expert(self, *args, **kwargs):
        """
        Copy rows from or to a file as psycopg2 does
        """
        with self._asking():
            super().copy_expert(*args, **kwargs)

    @contextlib.contextmanager
    def _asking(self):
        """
        Wait for what is no text of a query
        """
        with self.owner.asking() as first:
            if first:
                super().execute(first)
            yield

    def fetchall(self):
        """
        Return the rows of the last result, see PEP 249
        """
        rows = super().fetchall()
        if not self.owner.is_large:
            self.owner.is_large = any(
                isinstance(value, str) and len(value) > LARGE
                for row in rows
                for value in row
            )
        return rows


class Connection:
    """
    An open connection to PostgreSQL

    statement_timeout
        The seconds after which the server cancels a query. 0 is no limit. If
        the server does not do so either, the connection is ended a bit later.

    lifetime
        The seconds after which the connection is replaced, about.

    writes
        What becomes of what queries write: ``refuse``, ``rollback`` or
        ``commit``.

    All other parameters are those of libpq.
    """

    def __init__(self, statement_timeout=0, lifetime=600, writes="refuse", **params):
        self.pid = os.getpid()
        self.is_large = False
        self._limit = statement_timeout
        self._writes = writes
        self._first = ""
        self._is_plain = True
        self._reset = RESET
        # not all processes at once
        self._end = time.monotonic() + lifetime * random.uniform(0.75, 1)
        self._conn = psycopg2.connect(**params)
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise
        self._used = time.monotonic()

    def _prepare(self):
        # BEGIN is our own
        self._conn.autocommit = True
        types = psycopg2.extensions.string_types
        for default, register in (
            (psycopg2.extensions.JSON, psycopg2.extras.register_default_json),
            (psycopg2.extensions.JSONB, psycopg2.extras.register_default_jsonb),
        ):
            # a hook that somebody has registered for all connections stays
            if types.get(default.values[0]) is default:
                register(self._conn, loads=self._loads)
        self._begin = BEGIN[self._writes]
        if self._limit:
            cursor = self._conn.cursor()
            cursor.execute(
                "SELECT extract(epoch FROM"
                " current_setting('statement_timeout')::interval)::float"
            )
            (lower,) = cursor.fetchone()
            # It is no parameter of the connection, which would take the place
            # of PGOPTIONS, and which PgBouncer refuses. It returns nothing that
            # could be taken for the result of a query.
            if not lower or lower > self._limit:
                milliseconds = max(1, round(self._limit * 1000))
                self._begin += f"SET LOCAL statement_timeout = {milliseconds}; "
        self._statuses = {
            name: self._conn.get_parameter_status(name) for name in STATUSES
        }

    def _loads(self, text):
        """
        Return the value of a field of json or jsonb
        """
        if len(text) > LARGE:
            self.is_large = True
        try:
            # looks for no space around it, which jsonb never has, and which
            # takes a tenth of the time of a small value
            value, end = DECODER.raw_decode(text)
            if end == len(text):
                return value
        except ValueError:
            pass
        return json.loads(text)

    def _is(self, names):
        """
        Return whether the session is what it was when it began
        """
        status, begun = self._conn.get_parameter_status, self._statuses
        return [status(name) for name in names] == [begun[name] for name in names]

    def begin(self):
        """
        Begin to use the connection, and return its cursor

        What this takes is sent with the first query.
        """
        self._first = self._begin
        self._is_plain = True
        cursor = self._conn.cursor(cursor_factory=Cursor)
        cursor.owner = self
        return cursor

    @contextlib.contextmanager
    def asking(self, is_plain=False):
        """
        Wait for a query, and yield what is to be sent before it

        is_plain
            Whether the query cannot end the transaction.
        """
        first, self._first = self._first, ""
        self._is_plain = self._is_plain and bool(is_plain)
        with self._watched(self._limit and self._limit + LATE):
            yield first
        active = psycopg2.extensions.TRANSACTION_STATUS_INTRANS
        if self._conn.get_transaction_status() != active:
            self.close()
            raise salt.exceptions.CommandExecutionError(
                "a query ended the transaction that it is in"
            )
        if not self._is(FORMAT):
            self.close()
            raise salt.exceptions.CommandExecutionError(
                f"a query changed one of {', '.join(FORMAT)}, which its result and"
                " the next query would be garbled by"
            )

    @contextlib.contextmanager
    def _watched(self, seconds):
        """
        End the connection if there is no answer in so many seconds, 0 is no limit
        """
        if not seconds:
            yield
            return
        _watch.begin(self, seconds)
        try:
            yield
        except psycopg2.Error as err:
            if _watch.end(self) or err.pgcode:
                raise
            raise psycopg2.OperationalError(
                f"no answer from the server in {seconds:g} seconds"
            ) from None
        finally:
            _watch.end(self)

    def end(self, complete):
        """
        End the transaction, and leave the session as a new one

        complete
            Whether all went well. Only then anything may be committed.
        """
        if self.closed:
            return
        if self._first:
            # no query was sent
            self._first = ""
            return
        active = psycopg2.extensions.TRANSACTION_STATUS_ACTIVE
        if self._conn.get_transaction_status() == active:
            # interrupted while it waited
            self.close()
            return
        with self._conn.cursor() as cursor:
            if complete and self._writes == "commit":
                with self._watched(self._limit and self._limit + LATE):
                    cursor.execute("COMMIT")
                self._is_plain = False
            try:
                with self._watched(LATE):
                    self._clean(cursor)
            except psycopg2.Error:
                self.close()
        self._used = time.monotonic()

    def _clean(self, cursor):
        """
        Reset the session
        """
        try:
            cursor.execute(RESET_PLAIN if self._is_plain else self._reset)
        except psycopg2.Error:
            if self.closed:
                raise
            # The right to call a function may be revoked. This needs none.
            cursor.execute("ROLLBACK")
            cursor.execute("DISCARD ALL")
        lost = [name for name in CLIENT if not self._is([name])]
        if lost:
            again = "".join(
                cursor.mogrify(
                    "; SELECT pg_catalog.set_config(%s, %s, false)",
                    (name, self._statuses[name]),
                ).decode()
                for name in lost
            )
            cursor.execute(again.lstrip("; "))
            # next time with the rest
            self._reset += again
        if self.is_large:
            self.close()

    def usable(self):
        """
        Return whether a query may be sent on this connection
        """
        now = time.monotonic()
        if self.closed or now - self._used > KEEP_IDLE or now > self._end:
            return False
        if not self._is(STATUSES):
            return False
        # A server has nothing to say to an idle connection, except that it
        # goes, or that its settings are others now.
        poll = getattr(select, "poll", None)
        if poll is None:
            return not select.select([self._conn.fileno()], [], [], 0)[0]
        poll = poll()
        poll.register(self._conn.fileno(), select.POLLIN)
        return not poll.poll(0)

    def shutdown(self):
        """
        End the connection while another thread waits for an answer
        """
        with contextlib.suppress(OSError, psycopg2.Error):
            with socket.socket(fileno=os.dup(self._conn.fileno())) as sock:
                sock.shutdown(socket.SHUT_RDWR)

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
            self._conn.close()


def _seconds(name, value, greatest):
    """
    Return the value of an option that is a number of seconds
    """
    try:
        seconds = float(value or 0)
        if not isinstance(value, bool) and 0 <= seconds <= greatest:
            return seconds
    except (TypeError, ValueError):
        pass
    raise salt.exceptions.SaltConfigurationError(
        f"{name} of the option postgres is {value!r}: it must be a number of seconds,"
        f" 0 to {greatest}"
    )


def get_params(opts):
    """
    Return the parameters of a connection out of the option ``postgres``

    Raises SaltConfigurationError if one of Salt's own is not what it may be.
    """
    configured = {
        NAMES.get(name, name): value
        for name, value in (opts.get("postgres") or {}).items()
    }
    params = dict(NETWORK)
    if psycopg2.extensions.libpq_version() >= 120000:
        params["tcp_user_timeout"] = 30000
    if "service" not in configured and "PGSERVICE" not in os.environ:
        params.update(PLACE)
        if not (
            "passfile" in configured
            or "PGPASSFILE" in os.environ
            or "PGPASSWORD" in os.environ
        ):
            params["password"] = "salt"
    params.update(OWN, connect_timeout=10, fallback_application_name="salt")
    params.update(configured)
    for name, greatest in (
        ("connect_timeout", LONGEST),
        ("statement_timeout", LONGEST),
        ("lifetime", LONGEST),
    ):
        params[name] = _seconds(name, params[name], greatest)
    # libpq takes integers
    params["connect_timeout"] = math.ceil(params["connect_timeout"])
    if params["writes"] not in BEGIN:
        raise salt.exceptions.SaltConfigurationError(
            f"writes of the option postgres is {params['writes']!r}: it must be one of"
            f" {', '.join(BEGIN)}"
        )
    return {
        name: int(value) if isinstance(value, bool) else value
        for name, value in params.items()
        if value is not None
    }


def _connect(key, params):
    """
    Return a new connection, or raise the error of a try that was not long ago
    """
    start = time.monotonic()
    until, told = _failed.get(key, (start, ""))
    if start < until:
        raise psycopg2.OperationalError(f"{told} (a moment ago)")
    try:
        connection = Connection(**params)
    except psycopg2.OperationalError as err:
        end = time.monotonic()
        _failed[key] = (end + min(end - start, PAUSE), str(err).strip())
        raise
    _failed.pop(key, None)
    return connection


@contextlib.contextmanager
def get_cursor(**params):
    """
    Yield a cursor of a connection to PostgreSQL, the one of this process if it
    is free

    The parameters are those of :class:`Connection`. Raises the errors of
    psycopg2.

    A kept connection that was closed meanwhile, as by a restart of the server,
    is replaced by a new one, once. A connection that breaks while a query is
    on its way is an error: the query may have been the reason, and may have
    been executed.
    """
    pid = os.getpid()
    # psycopg2 does not close what belongs to another process
    for known in (_kept, _failed):
        for key in [key for key in list(known) if key[0] != pid]:
            known.pop(key, None)
    key = (pid, tuple(sorted(params.items())))
    connection = _kept.pop(key, None)
    if connection is not None and not connection.usable():
        connection.close()
        connection = None
    if connection is None:
        connection = _connect(key, params)
    complete = False
    try:
        with connection.begin() as cursor:
            try:
                yield cursor
                complete = True
            finally:
                if os.getpid() == pid:
                    connection.end(complete)
    finally:
        # not in a process that was forked meanwhile, nor if another thread
        # was faster
        if (
            connection.closed
            or os.getpid() != pid
            or _kept.setdefault(key, connection) is not connection
        ):
            connection.close()
