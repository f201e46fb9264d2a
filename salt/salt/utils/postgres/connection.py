"""
A connection to PostgreSQL that serves one use after the other

.. versionadded:: 3009.0
"""

import contextlib
import json
import os
import random
import select
import socket
import time

import salt.exceptions
from salt.utils.postgres import cursor, driver, watch

# A connection that was not used for so many seconds is replaced by a new one.
# Routers and servers drop idle connections, not always with a word.
KEEP_IDLE = 60

# How many seconds an answer may be late
LATE = 10

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

# What a statement that cannot end its transaction sets, makes or listens to is
# gone with that: less is left to reset.
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

# Those by which the driver writes values and reads them
FORMAT = (
    *("client_encoding", "standard_conforming_strings"),
    *("DateStyle", "IntervalStyle"),
)

DECODER = json.JSONDecoder()

_watch = watch.Watch()


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
        self._conn = driver.module.connect(**params)
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise
        self._used = time.monotonic()

    def _prepare(self):
        driver.module.register_json(self._conn, self._loads)
        self._begin = BEGIN[self._writes]
        if self._limit:
            own = self._conn.cursor()
            # a pooler takes connections for a server that does not answer
            with self._watched(self._limit + LATE):
                own.execute(
                    "SELECT extract(epoch FROM"
                    " current_setting('statement_timeout')::interval)::float"
                )
            (lower,) = own.fetchone()
            # It is no parameter of the connection, which would take the place
            # of PGOPTIONS, and which PgBouncer refuses. It returns nothing that
            # could be taken for the result of a query.
            if not lower or lower > self._limit:
                milliseconds = max(1, round(self._limit * 1000))
                self._begin += f"SET LOCAL statement_timeout = {milliseconds}; "
        self._statuses = {
            name: driver.module.status(self._conn, name) for name in STATUSES
        }

    def _loads(self, text):
        """
        Return the value of a field of json or jsonb
        """
        if len(text) > cursor.LARGE:
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
        status, begun = driver.module.status, self._statuses
        return all(status(self._conn, name) == begun[name] for name in names)

    def begin(self):
        """
        Begin to use the connection, and return its cursor

        What this takes is sent with the first query.
        """
        self._first = self._begin
        self._is_plain = True
        return driver.module.cursor(self._conn, self)

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
        if driver.module.transaction(self._conn) != driver.INTRANS:
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
        except driver.module.Error as err:
            if _watch.end(self) or driver.module.code(err):
                raise
            raise driver.module.OperationalError(
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
        if driver.module.transaction(self._conn) == driver.ACTIVE:
            # interrupted while it waited
            self.close()
            return
        with self._conn.cursor() as own:
            try:
                if complete and self._writes == "commit":
                    # what is committed stays in the session
                    self._is_plain = False
                    with self._watched(self._limit and self._limit + LATE):
                        own.execute("COMMIT")
            finally:
                try:
                    with self._watched(LATE):
                        self._clean(own)
                except driver.module.Error:
                    self.close()
        self._used = time.monotonic()

    def _clean(self, own):
        """
        Reset the session
        """
        try:
            own.execute(RESET_PLAIN if self._is_plain else self._reset)
        except driver.module.Error:
            if self.closed:
                raise
            # The right to call a function may be revoked. This needs none.
            own.execute("ROLLBACK")
            own.execute("DISCARD ALL")
        lost = [name for name in CLIENT if not self._is([name])]
        if lost:
            again = "".join(
                driver.module.mogrify(
                    own,
                    "; SELECT pg_catalog.set_config(%s, %s, false)",
                    (name, self._statuses[name]),
                )
                for name in lost
            )
            own.execute(again.lstrip("; "))
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
        with contextlib.suppress(OSError, driver.module.Error):
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
