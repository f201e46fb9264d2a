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


class Diagnosed(psycopg2.ProgrammingError):
    """
    An error as the server reports it, with the text of the query
    """

    diag = MagicMock(message_primary='relation "p" does not exist')

    def __str__(self):
        return 'relation "p" does not exist\nLINE 1: SELECT secret FROM p'


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


@pytest.mark.parametrize(
    "error,expected",
    [
        (Diagnosed(), 'relation "p" does not exist'),
        (
            psycopg2.OperationalError("connection to db.example.com failed"),
            "the database does not answer, see the log of the master",
        ),
        (
            psycopg2.InterfaceError("connection already closed"),
            "the database does not answer, see the log of the master",
        ),
    ],
)
def test_error_names_what_is_for_the_minion(connection, caplog, error, expected):
    connection.execute.side_effect = error
    with caplog.at_level(logging.ERROR):
        with pytest.raises(salt.exceptions.CommandExecutionError) as caught:
            postgres.ext_pillar("web1", {}, "SELECT secret FROM p")
    assert str(caught.value) == expected
    assert f"Error in ext_pillar POSTGRES: {error}" in caplog.messages


def test_second_query_that_fails_leaves_nothing_of_the_first(connection, opts):
    connection.fetchall.return_value = [({"a": 1},)]
    assert compile_pillar(opts, "SELECT 1") == {"a": 1}
    connection.execute.side_effect = [None, Diagnosed()]
    expected = 'Failed to load ext_pillar postgres: relation "p" does not exist'
    pillar = compile_pillar(opts, "SELECT 1", "SELECT secret FROM p")
    assert pillar == {"_errors": [expected]}


def test_unreachable_database_is_an_error_of_the_pillar(opts, caplog):
    error = psycopg2.OperationalError("Connection refused")
    with patch("psycopg2.connect", MagicMock(side_effect=error)):
        with caplog.at_level(logging.NOTSET):
            pillar = compile_pillar(opts, "SELECT 1")
    assert pillar == {
        "_errors": [
            "Failed to load ext_pillar postgres: the database does not answer, see"
            " the log of the master"
        ]
    }
    assert "Connection refused" in caplog.text
    assert PASSWORD not in caplog.text
