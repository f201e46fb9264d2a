"""
Tests of how the PostgreSQL ext_pillar gets its connection
"""

import contextlib
import logging

import pytest

import salt.pillar
import salt.pillar.postgres as postgres
from tests.support.mock import MagicMock, patch

pytest.importorskip("psycopg2")

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
            "ext_pillar": [{"postgres": ["SELECT 1"]}],
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


@pytest.mark.parametrize("queries,transaction", [(1, False), (2, True)])
def test_several_queries_share_a_transaction(connection, queries, transaction):
    postgres.ext_pillar("web1", {}, *["SELECT 1"] * queries)
    assert connection.params["transaction"] is transaction


@pytest.mark.parametrize("change", [{}, {"port": "none"}, {"sslmode": "nosuch"}])
def test_password_is_in_no_log(opts, caplog, change):
    opts["postgres"].update({"host": "127.0.0.1", "port": 1, **change})
    with caplog.at_level(logging.NOTSET):
        pillar = salt.pillar.Pillar(opts, {}, "web1", "base").compile_pillar()
    told = "the database does not answer, see the log of the master"
    assert pillar == {"_errors": [f"Failed to load ext_pillar postgres: {told}"]}
    assert "Error in ext_pillar POSTGRES: " in caplog.text
    assert PASSWORD not in caplog.text
