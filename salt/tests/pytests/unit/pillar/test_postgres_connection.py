"""
Tests of how the PostgreSQL ext_pillar gets its connection, and of what becomes
of its errors
"""

import contextlib
import logging

import pytest

import salt.exceptions
import salt.pillar
import salt.pillar.postgres as postgres
from tests.support.mock import MagicMock, patch

psycopg2 = pytest.importorskip("psycopg2")

PASSWORD = "hunter2"


@pytest.fixture
def opts(minion_opts):
    """
    The options of a masterless minion whose pillar is in the database
    """
    minion_opts.update(
        {
            "file_client": "local",
            "pillar_roots": {},
            "postgres": {"host": "db.example.com", "pass": PASSWORD},
        }
    )
    return minion_opts


@pytest.fixture
def configure_loader_modules(opts):
    return {postgres: {"__opts__": opts}}


@pytest.fixture
def connection():
    """
    A connection whose queries have no rows, and the parameters it got
    """
    connection = MagicMock(description=[("pillar",)], params=None)
    connection.fetchall.return_value = []

    @contextlib.contextmanager
    def get_connection(**params):
        connection.params = params
        yield connection

    with patch("salt.utils.postgres.get_connection", get_connection):
        yield connection


class UndefinedTable(psycopg2.ProgrammingError):
    """
    An error as the server reports it, with the text of the query
    """

    pgcode = "42P01"
    diag = MagicMock(message_primary='relation "p" does not exist')

    def __str__(self):
        return 'relation "p" does not exist\nLINE 1: SELECT secret FROM p'


class SyntaxErrorAtToken(UndefinedTable):
    """
    One whose message quotes the query
    """

    pgcode = "42601"
    diag = MagicMock(message_primary='syntax error at or near "secret"')


class InvalidText(UndefinedTable):
    """
    One whose message quotes data
    """

    pgcode = "22P02"
    diag = MagicMock(message_primary='invalid input syntax for integer: "secret"')


def compile_pillar(opts, *queries):
    """
    Compile a pillar out of the database alone
    """
    opts = {**opts, "ext_pillar": [{"postgres": list(queries)}]}
    return salt.pillar.Pillar(opts, {}, "web1", "base").compile_pillar()


def test_defaults_of_the_connection(connection):
    postgres.ext_pillar("web1", {}, "SELECT 1")
    assert connection.params == {
        "host": "db.example.com",
        "port": 5432,
        "user": "salt",
        "password": PASSWORD,
        "dbname": "salt",
        "sslmode": None,
        "sslrootcert": None,
        "sslcert": None,
        "sslkey": None,
        "application_name": None,
        "fallback_application_name": "salt",
        "connect_timeout": 10,
        "statement_timeout": 60,
        "transaction": False,
    }


def test_options_of_the_connection(connection, opts):
    wanted = {
        "sslmode": "verify-full",
        "sslrootcert": "/ca.pem",
        "sslcert": "/salt.pem",
        "sslkey": "/salt.key",
        "application_name": "salt-master",
        "connect_timeout": 3,
        "statement_timeout": 0,
    }
    opts["postgres"] = wanted
    postgres.ext_pillar("web1", {}, "SELECT 1")
    assert {name: connection.params[name] for name in wanted} == wanted


SILENT = "the database does not answer, see the log of the master"


@pytest.mark.parametrize(
    "error,expected,logged",
    [
        (
            UndefinedTable(),
            "the database reports UndefinedTable (42P01), see the log of the master",
            'UndefinedTable (42P01): relation "p" does not exist',
        ),
        (
            SyntaxErrorAtToken(),
            "the database reports SyntaxErrorAtToken (42601), see the log of the master",
            "SyntaxErrorAtToken (42601), see the log of the database",
        ),
        (
            InvalidText(),
            "the database reports InvalidText (22P02), see the log of the master",
            "InvalidText (22P02), see the log of the database",
        ),
        (
            psycopg2.OperationalError("connection to db.example.com failed"),
            SILENT,
            "connection to db.example.com failed",
        ),
        (
            psycopg2.InterfaceError("connection already closed"),
            SILENT,
            "connection already closed",
        ),
    ],
)
def test_error_tells_what_may_be_told(connection, caplog, error, expected, logged):
    connection.execute.side_effect = error
    with caplog.at_level(logging.NOTSET):
        with pytest.raises(salt.exceptions.CommandExecutionError) as caught:
            postgres.ext_pillar("web1", {}, "SELECT secret FROM p")
    assert str(caught.value) == expected
    # nor as the cause, which a traceback would show
    assert caught.value.__suppress_context__
    assert f"Error in ext_pillar POSTGRES: {logged}" in caplog.messages
    assert "secret" not in caplog.text


@pytest.mark.parametrize("queries,transaction", [(1, False), (2, True)])
def test_several_queries_share_a_transaction(connection, queries, transaction):
    postgres.ext_pillar("web1", {}, *["SELECT 1"] * queries)
    assert connection.params["transaction"] is transaction


def test_second_query_that_fails_leaves_nothing_of_the_first(connection, opts):
    connection.fetchall.return_value = [({"a": 1},)]
    assert compile_pillar(opts, "SELECT 1") == {"a": 1}
    connection.execute.side_effect = [None, psycopg2.InterfaceError("x")]
    pillar = compile_pillar(opts, "SELECT 1", "SELECT secret FROM p")
    assert pillar == {"_errors": [f"Failed to load ext_pillar postgres: {SILENT}"]}


@pytest.mark.parametrize("change", [{}, {"port": "none"}, {"sslmode": "nosuch"}])
def test_password_is_in_no_log(opts, caplog, change):
    opts["postgres"].update({"host": "127.0.0.1", "port": 1, **change})
    with caplog.at_level(logging.NOTSET):
        pillar = compile_pillar(opts, "SELECT 1")
    assert pillar == {"_errors": [f"Failed to load ext_pillar postgres: {SILENT}"]}
    assert "Error in ext_pillar POSTGRES: " in caplog.text
    assert PASSWORD not in caplog.text
