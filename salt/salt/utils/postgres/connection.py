"""
A connection to PostgreSQL that serves one use after the other
"""

import contextlib
import json
import os
import random
import re
import select
import socket
import time

import psycopg2
import psycopg2.extensions
import psycopg2.extras

import salt.exceptions
from salt.utils.postgres.cursor import Cursor
from salt.utils.postgres.watch import WATCH

# How many seconds an answer may be late
LATE = 10

# The memory that libpq keeps grows to the largest value, and never shrinks. A
# connection that had one of so many characters is not kept.
LARGE = 1000000

# The states of a transaction
IDLE = psycopg2.extensions.TRANSACTION_STATUS_IDLE
ACTIVE = psycopg2.extensions.TRANSACTION_STATUS_ACTIVE

# All queries of a use see the same state of the database. A standby refuses READ
# WRITE even to those who only read.
BEGIN = {
    "refuse": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; ",
    "rollback": "BEGIN ISOLATION LEVEL REPEATABLE READ; ",
}

# What the end of its transaction leaves of a session. The plans of functions stay:
# they are most of the time of a small query, and give the same.
RESET = (
    "ROLLBACK; DEALLOCATE ALL; SELECT pg_catalog.pg_advisory_unlock_all();"
    " DISCARD SEQUENCES; SELECT pg_catalog.setseed({}); SELECT {}"
)

TERMINATE = "pg_catalog.pg_terminate_backend(pg_catalog.pg_backend_pid())"

# A custom setting such as app.tenant that was once set stays known to its session
# for good, as an empty text, even after a ROLLBACK or DISCARD ALL. No view lists
# these, so their names are searched for in the routines of the database: ROUTINES
# changes with any of those, SOURCES returns their texts, and a view that sets one
# itself counts as a text without a name.
ROUTINES = (
    "(SELECT pg_catalog.concat(pg_catalog.count(*), ' ',"
    " pg_catalog.sum(xmin::pg_catalog.text::pg_catalog.int8))"
    " FROM pg_catalog.pg_proc WHERE oid >= 16384)"
)
SOURCES = r"""ARRAY(
    SELECT pg_catalog.pg_get_functiondef(p.oid)
    FROM pg_catalog.pg_proc AS p JOIN pg_catalog.pg_language AS l ON l.oid = p.prolang
    WHERE p.oid >= 16384 AND p.prokind <> 'a' AND l.lanname NOT IN ('c', 'internal')
    AND (p.prosrc = '' OR p.proconfig IS NOT NULL
    OR p.prosrc ~* '\mset_config\M|\mload\s|\mset\s+(session\s+|local\s+)?(["\w]+\s*\.|[''%])')
    UNION ALL SELECT 'set_config()' FROM pg_catalog.pg_rewrite
    WHERE ev_class >= 16384 AND ev_action::pg_catalog.text LIKE '%:funcid 2078 %')
"""
# Of names, which most databases have none of: to plan it takes longer than the rest
UNSET = (
    " AND NOT EXISTS (SELECT FROM pg_catalog.unnest(%s::text[]) AS name"
    " WHERE pg_catalog.current_setting(name, true) IS NOT NULL AND NOT EXISTS"
    " (SELECT FROM pg_catalog.pg_settings AS s WHERE s.name = name.name))"
)

# The name that a routine sets, and a routine of which nobody can tell what it leaves
NAME = re.compile(
    r"\bset_config\s*\(\s*'([^']*)'|\bset\s+(?:session\s+|local\s+)?\"?(\w+\"?\s*\.\s*\"?\w+)",
    re.IGNORECASE,
)
UNKNOWN = re.compile(
    r"\bset_config\s*\((?!\s*'[^']*'\s*,)|\bload\s+'|'\s*set\s+(?:session\s+|local\s+)?['%]",
    re.IGNORECASE,
)

# Parameters by which the driver writes and reads values
FORMAT = "client_encoding standard_conforming_strings DateStyle IntervalStyle".split()


def _integer(text):
    """
    Return an integer that a pillar can have
    """
    value = int(text)
    if not -(2**63) <= value < 2**64:
        raise salt.exceptions.CommandExecutionError(
            "a result has an integer of more than 64 bits, which a pillar cannot have:"
            " store it as text"
        )
    return value


def _number(text, cursor):  # pylint: disable=unused-argument
    """
    Return the value of a field of numeric
    """
    if text is None:
        return None
    return _integer(text) if text.lstrip("-").isdigit() else float(text)


DECODER = json.JSONDecoder(parse_int=_integer)
NUMERIC = psycopg2.extensions.new_type((1700,), "NUMERIC", _number)
NUMERIC_ARRAY = psycopg2.extensions.new_array_type((1231,), "NUMERIC[]", NUMERIC)


class Connection:
    """
    An open connection to PostgreSQL

    statement_timeout
        The seconds after which the server cancels a query. 0 is no limit. If
        the server does not do so either, the connection is ended a bit later.

    lifetime
        The seconds after which the connection is replaced, about. With 0 it is
        closed after its use.

    writes
        What happens if a query writes: ``refuse`` or ``rollback``.

    All other parameters are those of libpq.
    """

    def __init__(self, statement_timeout=0, lifetime=600, writes="refuse", **params):
        self.pid = os.getpid()
        # whether the session has what cannot be undone, or much memory
        self.is_lasting = self.is_large = False
        self._limit = statement_timeout
        self._begin = BEGIN[writes]
        self._first = ""
        # not all processes at once
        self._end = time.monotonic() + lifetime * random.uniform(0.75, 1)
        self._conn = psycopg2.connect(**params)
        try:
            self._conn.autocommit = True
            psycopg2.extras.register_default_json(self._conn, loads=self._loads)
            psycopg2.extras.register_default_jsonb(self._conn, loads=self._loads)
            for new in (NUMERIC, NUMERIC_ARRAY):
                psycopg2.extensions.register_type(new, self._conn)
            self._prepare()
        except BaseException:
            self.close()
            raise

    def _prepare(self):
        """
        Find out what the session is before its first use
        """
        own = self._conn.cursor()
        # a pooler takes connections for a server that does not answer
        with self._watched(self._limit and self._limit + LATE):
            own.execute(
                "SELECT extract(epoch FROM current_setting('statement_timeout')"
                f"::interval)::float, pg_catalog.pg_backend_pid(), {ROUTINES}, {SOURCES}"
            )
            lower, backend, routines, sources = own.fetchone()
            self._is_pooled = backend != self._conn.get_backend_pid()
            names = self._search(own, sources)
        self._clean = None
        if names is not None:
            clean = own.mogrify(f"{ROUTINES} = %s", (routines,))
            clean += own.mogrify(UNSET, (names,)) if names else b""
            self._clean = f"({clean.decode()})"
            if self._is_pooled:
                self._clean += f", CASE WHEN NOT {self._clean} THEN {TERMINATE} END"
        # It is no parameter of the connection, which would take the place of
        # PGOPTIONS, and which PgBouncer refuses.
        if self._limit and (not lower or lower > self._limit):
            milliseconds = max(1, round(self._limit * 1000))
            self._begin += f"SET LOCAL statement_timeout = {milliseconds}; "
        self._format = self._read_format()

    def _read_format(self):
        return [self._conn.get_parameter_status(name) for name in FORMAT]

    @staticmethod
    def _search(own, sources):
        """
        Return the names of custom settings that routines may define, None if
        they cannot be known
        """
        if any(UNKNOWN.search(source) for source in sources):
            return None
        found = {
            re.sub(r'["\s]', "", "".join(filter(None, match.groups())))
            for source in sources
            for match in NAME.finditer(source)
        }
        names = sorted(name for name in found if "." in name)
        if names:
            # those that the session begins with come back with a ROLLBACK
            own.execute(
                "SELECT name FROM pg_catalog.unnest(%s::text[]) AS name WHERE"
                " COALESCE(pg_catalog.current_setting(name, true), '') = ''",
                (names,),
            )
            names = [name for (name,) in own.fetchall()]
        return names

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
        return DECODER.decode(text)

    def begin(self):
        """
        Begin to use the connection, and return its cursor

        What this takes is sent with the first query.
        """
        self._first = self._begin
        cursor = self._conn.cursor(cursor_factory=Cursor)
        cursor.owner = self
        return cursor

    @contextlib.contextmanager
    def asking(self, is_lasting):
        """
        Wait for a query, and yield what to send before it

        is_lasting
            Whether the query may leave what cannot be undone.
        """
        first, self._first = self._first, ""
        self.is_lasting = self.is_lasting or bool(is_lasting)
        with self._watched(self._limit and self._limit + LATE):
            yield first
        if self._conn.get_transaction_status() == IDLE:
            self.close()
            raise salt.exceptions.CommandExecutionError(
                "a query ended the transaction that it is in"
            )
        if self._read_format() != self._format:
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
        WATCH.begin(self, seconds, self.shutdown)
        try:
            yield
        except psycopg2.Error as err:
            if WATCH.end(self) or err.pgcode:
                raise
            raise psycopg2.OperationalError(
                f"no answer from the server in {seconds:g} seconds"
            ) from None
        finally:
            WATCH.end(self)

    def end(self):
        """
        End the transaction, and leave the session as a new one, or close it
        """
        if self.closed or self._first:
            # no query was sent
            self._first = ""
            return
        if self._conn.get_transaction_status() == ACTIVE:
            # interrupted while it waited
            self.close()
            return
        try:
            with self._conn.cursor() as own, self._watched(LATE):
                is_clean = self._reset(own)
        except psycopg2.Error:
            is_clean = False
        if not is_clean:
            self.close()

    def _reset(self, own):
        """
        Reset the session, and return whether nothing is left of its use

        A pooler would give a session that is not clean to another client, as soon
        as a message ends its transaction. So the same message ends the session.
        """
        if self.is_lasting or self._clean is None:
            if self._is_pooled:
                own.execute(f"ROLLBACK; SELECT {TERMINATE}")
            return False
        own.execute(RESET.format(random.uniform(-1, 1), self._clean))
        return own.fetchone()[0]

    def usable(self):
        """
        Return whether a query may be sent on this connection
        """
        if self.closed or self.is_large or time.monotonic() > self._end:
            return False
        # A server sends nothing to an idle connection, except that it ends, or
        # that its settings have changed.
        poll = select.poll()
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

        A forked process leaves it alone: the server would end the session of the
        parent, whose socket it is.
        """
        if self.pid == os.getpid():
            self._conn.close()
