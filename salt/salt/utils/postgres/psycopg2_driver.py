"""
What kept connections to PostgreSQL need of psycopg2

.. versionadded:: 3009.0
"""

import psycopg2
import psycopg2.extensions
import psycopg2.extras

from salt.utils.postgres.cursor import Asking

NAME = "psycopg2"

Error = psycopg2.Error
InterfaceError = psycopg2.InterfaceError
OperationalError = psycopg2.OperationalError

libpq_version = psycopg2.extensions.libpq_version


class Cursor(Asking, psycopg2.extensions.cursor):
    """
    A cursor whose queries are those of one use of a connection
    """

    # they would ask outside of its transaction
    copy_from = copy_to = None

    def callproc(self, procname, parameters=()):
        """
        Call a function, see PEP 249
        """
        with self._asking():
            return super().callproc(procname, parameters)

    def copy_expert(self, *args, **kwargs):
        """
        Copy rows from or to a file
        """
        with self._asking():
            super().copy_expert(*args, **kwargs)


def connect(**params):
    """
    Return a new connection that begins no transactions by itself
    """
    conn = psycopg2.connect(**params)
    conn.autocommit = True
    return conn


def register_json(conn, loads):
    """
    Read fields of json and jsonb with a function that takes their text

    A hook that somebody has registered for all connections stays.
    """
    types = psycopg2.extensions.string_types
    for default, register in (
        (psycopg2.extensions.JSON, psycopg2.extras.register_default_json),
        (psycopg2.extensions.JSONB, psycopg2.extras.register_default_jsonb),
    ):
        if types.get(default.values[0]) is default:
            register(conn, loads=loads)


def cursor(conn, owner):
    """
    Return a cursor for one use of a connection
    """
    made = conn.cursor(cursor_factory=Cursor)
    made.owner = owner
    return made


def status(conn, name):
    """
    Return what the server has told of a setting
    """
    return conn.get_parameter_status(name)


def transaction(conn):
    """
    Return the state of the transaction
    """
    return conn.get_transaction_status()


def mogrify(own, query, values):
    """
    Return the text of a query with its values
    """
    return own.mogrify(query, values).decode()


def code(err):
    """
    Return the SQLSTATE of an error, None if the server has not reported it
    """
    return err.pgcode
