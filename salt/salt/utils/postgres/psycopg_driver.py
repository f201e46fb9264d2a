"""
What kept connections to PostgreSQL need of psycopg 3.1 or later

.. versionadded:: 3009.0

Queries are written as psycopg2 writes them, values and all: several statements
in one message have no other form.
"""

import json

import psycopg
import psycopg.pq

# as one that is not installed
if not hasattr(psycopg, "ClientCursor"):
    raise ImportError(f"psycopg {psycopg.__version__} is older than 3.1")

# pylint: disable=wrong-import-position
from psycopg.types.json import JsonLoader

from salt.utils.postgres import psycopg_types
from salt.utils.postgres.cursor import Asking

NAME = "psycopg"

Error = psycopg.Error
InterfaceError = psycopg.InterfaceError
OperationalError = psycopg.OperationalError

# As many seconds as can be waited for
LONGEST = 2147483

libpq_version = psycopg.pq.version


class LastResult(psycopg.ClientCursor):
    """
    A cursor that gives the result of the last statement, as psycopg2 does
    """

    def execute(self, *args, **kwargs):
        """
        Execute a query and wait for its result, see PEP 249
        """
        super().execute(*args, **kwargs)
        while self.nextset():
            pass
        return self


class Cursor(Asking, LastResult):
    """
    A cursor whose queries are those of one use of a connection
    """

    # they would ask outside of its transaction
    copy = stream = None


def connect(**params):
    """
    Return a new connection that begins no transactions by itself
    """
    if params.get("connect_timeout") == 0:
        # to psycopg 3 this would be 130 seconds
        params["connect_timeout"] = LONGEST
    conn = psycopg.connect(autocommit=True, cursor_factory=LastResult, **params)
    try:
        if not (status(conn, "DateStyle") or "").startswith("ISO"):
            # as psycopg2 does, and no other style of all values can be read
            conn.execute("SET datestyle TO 'ISO'")  # pylint: disable=no-member
        psycopg_types.register(conn)
    except BaseException:
        conn.close()  # pylint: disable=no-member
        raise
    return conn


def register_json(conn, loads):
    """
    Read fields of json and jsonb with a function that takes their text

    A hook that somebody has registered for all connections stays.
    """
    # pylint: disable=protected-access
    if JsonLoader._loads is not json.loads:
        return
    encoding = conn.info.encoding

    class Loader(psycopg.adapt.Loader):
        """
        Has the text as it came from the server
        """

        def load(self, data):
            return loads(bytes(data).decode(encoding))

    for name in ("json", "jsonb"):
        conn.adapters.register_loader(name, Loader)


def cursor(conn, owner):
    """
    Return a cursor for one use of a connection
    """
    made = Cursor(conn)
    made.owner = owner
    return made


def status(conn, name):
    """
    Return what the server has told of a setting
    """
    # that of its info needs an encoding which Python knows
    value = conn.pgconn.parameter_status(name.encode())
    return None if value is None else value.decode("utf-8", "replace")


def transaction(conn):
    """
    Return the state of the transaction
    """
    return int(conn.info.transaction_status)


def mogrify(own, query, values):
    """
    Return the text of a query with its values
    """
    return own.mogrify(query, values)


def code(err):
    """
    Return the SQLSTATE of an error, None if the server has not reported it
    """
    return err.sqlstate
