"""
Tests of what becomes of the errors of the PostgreSQL ext_pillar, and who is
told what of them
"""

import logging
import socket

import pytest

import salt.exceptions
import salt.pillar
import salt.pillar.postgres as postgres
from tests.support.mock import MagicMock, patch
from tests.support.pytest.postgres import READY, Server, error, message

psycopg2 = pytest.importorskip("psycopg2")

PASSWORD = "hunter2"
QUERY = "SELECT secret FROM p"
SILENT = "there is no connection to the database, see the log of the master"


@pytest.fixture
def server():
    server = Server()
    yield server
    server.close()


@pytest.fixture
def opts(minion_opts, server):
    """
    The options of a masterless minion whose pillar is in the database
    """
    minion_opts.update(
        {
            "file_client": "local",
            "pillar_roots": {},
            "postgres": {"host": "127.0.0.1", "port": server.port, "pass": PASSWORD},
        }
    )
    return minion_opts


@pytest.fixture
def configure_loader_modules(opts):
    return {postgres: {"__opts__": opts}}


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


def check_told(caplog, expected, logged):
    """
    Check what a query that fails tells the minion and the log of the master
    """
    with caplog.at_level(logging.NOTSET):
        with pytest.raises(salt.exceptions.CommandExecutionError) as caught:
            postgres.ext_pillar("web1", {}, QUERY)
    assert str(caught.value) == expected
    # nor as the cause, which a traceback would show
    assert caught.value.__suppress_context__
    assert f"Error in ext_pillar POSTGRES: {logged}" in caplog.messages
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    "raised,expected,logged",
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
        (
            # of the driver itself
            psycopg2.ProgrammingError("can't execute an empty query"),
            "psycopg2 reports ProgrammingError, see the log of the master",
            "can't execute an empty query",
        ),
    ],
)
def test_error_tells_what_may_be_told(caplog, raised, expected, logged):
    with patch("psycopg2.connect", side_effect=raised):
        check_told(caplog, expected, logged)


@pytest.mark.parametrize(
    "code,text,name,logged",
    [
        (
            "42P01",
            'relation "p" does not exist',
            "UndefinedTable",
            'UndefinedTable (42P01): relation "p" does not exist',
        ),
        (
            "42601",
            'syntax error at or near "secret"',
            "SyntaxError",
            "SyntaxError (42601), see the log of the database",
        ),
        (
            "22P02",
            'invalid input syntax for type integer: "secret"',
            "InvalidTextRepresentation",
            "InvalidTextRepresentation (22P02), see the log of the database",
        ),
    ],
)
def test_error_of_a_query_tells_no_query(server, caplog, code, text, name, logged):
    # with the position, psycopg2 quotes the line of the query
    server.answers[QUERY] = error(code, text, 8) + READY
    expected = f"the database reports {name} ({code}), see the log of the master"
    check_told(caplog, expected, logged)
    assert server.queries[-1] == QUERY


@pytest.mark.parametrize(
    "answer,expected",
    [
        (
            error("42P01", 'relation "p" does not exist', 20) + READY,
            "the database reports UndefinedTable (42P01), see the log of the master",
        ),
        (lambda session: session.shutdown(socket.SHUT_RDWR), SILENT),
    ],
)
def test_second_query_that_fails_leaves_nothing_of_the_first(
    server, opts, answer, expected
):
    first = {"query": "SELECT 1", "as_json": True}
    assert compile_pillar(opts, first) == {"a": 1}
    server.answers[QUERY] = answer
    pillar = compile_pillar(opts, first, QUERY)
    assert pillar == {"_errors": [f"Failed to load ext_pillar postgres: {expected}"]}


@pytest.mark.parametrize("query", ["-- x", "INSERT INTO p VALUES (1)"])
def test_query_without_a_result_is_an_error(server, opts, query):
    server.answers[query] = message(b"C", b"INSERT 0 1\0") + READY
    pillar = compile_pillar(opts, {"query": "SELECT 1", "as_json": True}, query)
    assert list(pillar) == ["_errors"]
    assert "returns rows" in pillar["_errors"][0]


@pytest.mark.parametrize(
    "source",
    [
        None,
        [],
        {},
        "",
        [""],
        [{"qeury": "SELECT 1"}],
        [{"query": ""}],
        {"root": {"qeury": "SELECT 1"}},
        ["SELECT 1", {"qeury": "SELECT 1"}],
        {"a": "SELECT 1", "b": {"as_json": True}},
    ],
)
def test_entry_without_a_query_is_an_error(opts, source):
    opts["ext_pillar"] = [{"postgres": source}]
    pillar = salt.pillar.Pillar(opts, {}, "web1", "base").compile_pillar()
    assert list(pillar) == ["_errors"]
    assert "have no query: write each as" in pillar["_errors"][0]


def test_ext_pillar_that_is_not_there_is_an_error(opts):
    opts["ext_pillar"] = [{"postgrse": ["SELECT 1"]}, {"query": "SELECT 1"}]
    pillar = salt.pillar.Pillar(opts, {}, "web1", "base").compile_pillar()
    told = "The ext_pillar {} is not available, see the log of the master"
    assert pillar == {"_errors": [told.format("postgrse"), told.format("query")]}


def test_ext_pillar_without_its_driver_is_an_error(opts):
    with patch.dict("sys.modules", {"psycopg2": None}):
        opts["ext_pillar"] = [{"postgres": ["SELECT 1"]}]
        pillar = salt.pillar.Pillar(opts, {}, "web1", "base").compile_pillar()
    assert "The ext_pillar postgres is not available" in pillar["_errors"][0]


@pytest.mark.parametrize("port", [1, "none"])
def test_password_is_in_no_log(opts, caplog, port):
    opts["postgres"]["port"] = port
    with caplog.at_level(logging.NOTSET):
        pillar = compile_pillar(opts, "SELECT 1")
    assert pillar == {"_errors": [f"Failed to load ext_pillar postgres: {SILENT}"]}
    assert "Error in ext_pillar POSTGRES: " in caplog.text
    assert PASSWORD not in caplog.text
