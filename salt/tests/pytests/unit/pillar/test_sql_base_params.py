"""
Tests of how the queries of SQL ext_pillars get the minion id, through ``fetch``
with drivers of several styles
"""

import contextlib
import logging
import re
import sqlite3

import pytest

import salt.exceptions
import salt.pillar.sql_base as sql_base
from tests.support.sql_pillar import FormatPillar, UnstyledPillar


class OwnQueriesPillar(FormatPillar):
    """
    Adapter with a configuration of its own, from before there were placeholders
    """

    def extract_queries(self, args, kwargs):
        for query in args:
            yield None, {
                "query": query,
                "depth": 0,
                "as_list": False,
                "as_json": False,
                "with_lists": None,
                "ignore_null": False,
            }


class SqlitePillar(sql_base.SqlBaseExtPillar):
    """
    Adapter of sqlite3, whose placeholders are ``?`` and ``:name``
    """

    def __init__(self, connection):
        super().__init__()
        self.connection = connection

    @classmethod
    def _db_name(cls):
        return "SQLite"

    @contextlib.contextmanager
    def _get_cursor(self):
        yield self.connection.cursor()


@pytest.mark.parametrize("style", ["format", "pyformat"])
@pytest.mark.parametrize(
    "query,expected",
    [
        ("SELECT 1", "SELECT 1"),
        ("SELECT '50%%'", "SELECT '50%'"),
        ("SELECT f(%s)", "SELECT f(web1)"),
        ("SELECT f(%s, %s)", "SELECT f(web1, web1)"),
        ("SELECT f(%s) LIKE 'a%%'", "SELECT f(web1) LIKE 'a%'"),
        ("SELECT '%%s', f(%s)", "SELECT '%s', f(web1)"),
        ("SELECT '%%%s', f(%s)", "SELECT '%web1', f(web1)"),
        ("SELECT f(%(minion_id)s)", "SELECT f(web1)"),
        ("SELECT f(%(minion_id)s, %(minion_id)s)", "SELECT f(web1, web1)"),
        ("SELECT '%%(x)s', f(%(minion_id)s)", "SELECT '%(x)s', f(web1)"),
    ],
)
def test_each_placeholder_is_the_minion_id(style, query, expected):
    pillar = FormatPillar()
    pillar.paramstyle = style
    pillar.fetch("web1", {}, query)
    assert pillar.cursor.queries == [expected]


@pytest.mark.parametrize(
    "query,expected",
    [
        ("SELECT %(env)s", "nothing is passed for: env$"),
        ("SELECT %(b)s, %(a)s, %(minion_id)s", "nothing is passed for: a, b$"),
        ("SELECT %s, %(minion_id)s", "either name all"),
        ("SELECT 'a%'", "write it as %%$"),
        ("SELECT 'a%', %s", "write it as %%$"),
        ("SELECT %s -- 100%", "write it as %%$"),
        ("SELECT %d", "write it as %%$"),
        ("SELECT '%%%', %(minion_id)s", "write it as %%$"),
    ],
)
def test_placeholder_that_nothing_fits_is_an_error(query, expected, caplog):
    pillar = FormatPillar()
    with caplog.at_level(logging.ERROR):
        with pytest.raises(salt.exceptions.SaltConfigurationError) as error:
            pillar.fetch("web1", {}, query)
    message = str(error.value)
    assert pillar.connections == 0
    assert re.search(expected, message)
    # the minion sees the message, the master's log tells which query it is,
    # but not its text, which may hold secrets
    assert query not in message
    assert f"ext_pillar fake: query 1: {message}" in caplog.messages


def test_later_query_is_checked_before_the_first_is_run():
    pillar = FormatPillar()
    with pytest.raises(salt.exceptions.SaltConfigurationError):
        pillar.fetch("web1", {}, "SELECT %s", "SELECT 'a%'")
    assert pillar.connections == 0


def test_adapter_without_a_style_passes_the_minion_id_once():
    pillar = UnstyledPillar()
    pillar.fetch("web1", {}, "SELECT %s, '%%s'")
    assert pillar.cursor.queries == ["SELECT web1, '%s'"]


def test_adapter_may_generate_queries_of_its_own():
    pillar = OwnQueriesPillar()
    pillar.fetch("web1", {}, "SELECT %s, %s", "SELECT %(minion_id)s")
    assert pillar.cursor.queries == ["SELECT web1, web1", "SELECT web1"]


def test_sqlite_question_mark_is_the_minion_id():
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE pillars (mid TEXT, name TEXT, value TEXT)")
        connection.execute("INSERT INTO pillars VALUES ('web1', 'role', '100%s')")
        query = "SELECT name, value FROM pillars WHERE mid = ? AND value LIKE '%s'"
        pillar = SqlitePillar(connection)
        assert pillar.fetch("web1", {}, query) == {"role": "100%s"}
