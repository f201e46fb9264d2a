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
def cursor():
    """
    A cursor whose queries have no rows, and the parameters of its connection
    """
    cursor = MagicMock(description=[("pillar",)], params=None)
    cursor.fetchall.return_value = []

    @contextlib.contextmanager
    def get_cursor(**params):
        cursor.params = params
        yield cursor

    with patch("salt.utils.postgres.get_cursor", get_cursor):
        yield cursor


def test_options_of_the_connection(cursor, opts):
    wanted = {
        "sslmode": "verify-full",
        "sslcrl": "/crl.pem",
        "target_session_attrs": "read-write",
        "application_name": "salt-master",
        "connect_timeout": 3,
        "statement_timeout": 0,
        "lifetime": 60,
        "writes": "rollback",
    }
    opts["postgres"] = wanted
    postgres.ext_pillar("web1", {}, "SELECT 1")
    assert {name: cursor.params[name] for name in wanted} == wanted


def test_cursor_is_what_queries_are_executed_with(cursor):
    # pylint: disable=protected-access
    with postgres.POSTGRESExtPillar()._get_cursor() as found:
        assert found is cursor


def test_option_that_is_wrong_is_named_in_the_pillar(opts):
    opts["postgres"]["statement_timeout"] = -1
    pillar = salt.pillar.Pillar(opts, {}, "web1", "base").compile_pillar()
    (error,) = pillar["_errors"]
    assert "statement_timeout of the option postgres is -1: it must be" in error


@pytest.mark.parametrize("change", [{}, {"port": "none"}, {"sslmode": "nosuch"}])
def test_password_is_in_no_log(opts, caplog, change):
    opts["postgres"].update({"host": "127.0.0.1", "port": 1, **change})
    with caplog.at_level(logging.NOTSET):
        pillar = salt.pillar.Pillar(opts, {}, "web1", "base").compile_pillar()
    told = "there is no connection to the database, see the log of the master"
    assert pillar == {"_errors": [f"Failed to load ext_pillar postgres: {told}"]}
    assert "Error in ext_pillar POSTGRES: " in caplog.text
    assert PASSWORD not in caplog.text
