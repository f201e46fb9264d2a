"""
Tests of the ``params`` of the queries of SQL ext_pillars: grains and options,
through ``fetch`` with drivers of several styles
"""

import contextlib
import logging
import re
import sqlite3

import pytest

import salt.exceptions
import salt.pillar.sql_base as sql_base
from tests.support.sql_pillar import FormatPillar, UnstyledPillar


class OptsPillar(FormatPillar):
    """
    Adapter that offers its options
    """

    def _get_pillar_opts(self):
        return self.opts


class SqlitePillar(sql_base.SqlBaseExtPillar):
    """
    Adapter of sqlite3, whose placeholders are ``?`` and ``:name``
    """

    def __init__(self, connection, opts):
        super().__init__()
        self.connection = connection
        self.opts = opts

    @classmethod
    def _db_name(cls):
        return "SQLite"

    @contextlib.contextmanager
    def _get_cursor(self):
        yield self.connection.cursor()

    def _get_pillar_opts(self):
        return self.opts


@pytest.fixture
def opts():
    return {
        "grains": {
            "os": "Debian",
            "osmajorrelease": 12,
            "roles": ["web", "db"],
            "none": [],
            "ec2": {"zone": "a"},
            "mixed": [1, "hunter2"],
            "nested": [["hunter2"]],
            "mappings": [{"pass": "hunter2"}],
            "bytes": b"hunter2",
            "two words": "x",
        },
        "pillarenv": "prod",
        "saltenv": None,
        "cluster_id": "c1",
        "id": "web1",
        "master_pass": "hunter2",
        "postgres": {"pass": "hunter2"},
    }


@pytest.fixture
def sqlite_pillar(opts):
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE pillars (mid TEXT, name TEXT, value TEXT)")
        connection.executemany(
            "INSERT INTO pillars VALUES (?, ?, ?)",
            [("web1", "role", "100%s"), ("web2", "role", "Debian")],
        )
        yield SqlitePillar(connection, opts)


def queries_of(*args, opts=None, **kwargs):
    """
    Run queries that find nothing and return them as the driver formatted them
    """
    pillar = OptsPillar(opts=opts)
    pillar.fetch("web1", {}, *args, **kwargs)
    return pillar.cursor.queries


def error_of(query, params, opts, adapter=OptsPillar):
    """
    Return the error that a query ends with before there is a connection
    """
    pillar = adapter(opts=opts)
    with pytest.raises(salt.exceptions.SaltConfigurationError) as error:
        pillar.fetch("web1", {}, {"query": query, "params": params})
    assert pillar.connections == 0
    return str(error.value)


def test_listed_params_are_passed_in_their_order(opts):
    query = {
        "query": "SELECT f(%s, %s, %s, %s)",
        "params": ["grains:os", "minion_id", "opts:pillarenv", "grains:ec2:zone"],
    }
    assert queries_of(query, opts=opts) == ["SELECT f(Debian, web1, prod, a)"]


def test_mapped_params_are_passed_by_name(opts):
    query = {
        "query": "SELECT f(%(minion_id)s, %(env)s, %(roles)s)",
        "params": {"env": "opts:pillarenv", "roles": "grains:roles"},
    }
    expected = "SELECT f(web1, prod, ['web', 'db'])"
    assert queries_of(query, opts=opts) == [expected]


def test_minion_id_may_be_mapped_to_itself():
    query = {"query": "SELECT %(minion_id)s", "params": {"minion_id": "minion_id"}}
    assert queries_of(query) == ["SELECT web1"]


def test_each_query_gets_its_own_params(opts):
    named = {"query": "SELECT %(os)s", "params": {"os": "grains:os"}}
    assert queries_of(named, "SELECT %s", opts=opts) == ["SELECT Debian", "SELECT web1"]


@pytest.mark.parametrize(
    "source,expected",
    [
        ("grains:osmajorrelease", "12"),
        ("grains:roles", "['web', 'db']"),
        ("grains:none", "[]"),
        ("grains:two words", "x"),
        ("opts:pillarenv", "prod"),
        ("opts:cluster_id", "c1"),
        # absent values are NULL
        ("grains:nosuch", "None"),
        ("grains:os:no", "None"),
        ("opts:saltenv", "None"),
    ],
)
def test_sources_of_params(source, expected, opts):
    query = {"query": "SELECT %s", "params": [source]}
    assert queries_of(query, opts=opts) == [f"SELECT {expected}"]


def test_grain_is_null_where_there_are_no_grains():
    query = {"query": "SELECT %s", "params": ["grains:os"]}
    assert queries_of(query, opts={"pillarenv": "prod"}) == ["SELECT None"]


def test_queries_may_use_three_options_only():
    assert sorted(sql_base.PARAM_OPTS) == ["cluster_id", "pillarenv", "saltenv"]


@pytest.mark.parametrize(
    "source",
    [
        "nosuch",
        "nosuch:os",
        "nosuch:pillarenv",
        "opts",
        "opts:",
        "opts:id",
        "opts:master_pass",
        "opts:postgres",
        "opts:postgres:pass",
        "opts:grains",
        "opts: pillarenv",
        "grains",
        "grains:",
        "grains: os",
        "grains:os ",
        "grains::os",
        "grains:ec2:",
        " minion_id",
    ],
)
def test_unknown_source_is_an_error(source, opts):
    message = error_of("SELECT %s", [source], opts)
    assert message.startswith(f"a query cannot have {source!r} as a parameter")
    assert "hunter2" not in message


@pytest.mark.parametrize("source", [5, None, {"grains": "hunter2"}, ["hunter2"]])
def test_source_that_is_no_text_is_an_error(source, opts):
    expected = f"a parameter of a query must be a name, not {type(source).__name__}"
    assert error_of("SELECT %s", [source], opts) == expected


@pytest.mark.parametrize("name", ["ec2", "mixed", "nested", "mappings", "bytes"])
def test_value_that_drivers_cannot_bind_is_an_error(name, opts):
    message = error_of("SELECT %s", [f"grains:{name}"], opts)
    assert message.startswith(f"grains:{name} cannot be a parameter of a query")
    assert "hunter2" not in message


def test_option_that_drivers_cannot_bind_is_an_error(opts):
    opts["pillarenv"] = {"hunter2": 1}
    message = error_of("SELECT %s", ["opts:pillarenv"], opts)
    assert message.startswith("opts:pillarenv cannot be a parameter of a query")
    assert "hunter2" not in message


@pytest.mark.parametrize(
    "query,params,expected",
    [
        ("SELECT %s, %s", ["minion_id"], "not have as many .* params: 2 and 1$"),
        ("SELECT %s", [], "not have as many .* params: 1 and 0$"),
        ("SELECT 1", ["minion_id"], "not have as many .* params: 0 and 1$"),
        ("SELECT %(minion_id)s", ["minion_id"], "params must be a mapping$"),
        ("SELECT %(minion_id)s", [], "params must be a mapping$"),
        ("SELECT %s", {"os": "grains:os"}, "params must be a list$"),
        ("SELECT %(b)s, %(a)s", {"os": "grains:os"}, "nothing is passed for: a, b$"),
        ("SELECT %s", "hunter2", "must be a list or a mapping, not str$"),
        ("SELECT %s", 5, "must be a list or a mapping, not int$"),
        ("SELECT %(minion_id)s", {"minion_id": "grains:os"}, "only be minion_id$"),
        ("SELECT %(minion_id)s", {"minion_id": None}, "only be minion_id$"),
        ("SELECT %d", ["grains:osmajorrelease"], "write it as %%$"),
    ],
)
def test_params_that_do_not_fit_are_an_error(query, params, expected, opts, caplog):
    with caplog.at_level(logging.ERROR):
        message = error_of(query, params, opts)
    assert re.search(expected, message)
    # the minion sees the message, the master's log tells which query it is,
    # but not its text, which may hold secrets
    assert query not in message
    assert "hunter2" not in message
    assert f"ext_pillar fake: query 1: {message}" in caplog.messages


def test_adapter_without_opts_has_the_minion_id_only(opts):
    expected = "this adapter does not offer grains and options as parameters"
    for source in ("grains:os", "opts:pillarenv"):
        assert error_of("SELECT %s", [source], {}) == expected
        assert error_of("SELECT %s", [source], opts, UnstyledPillar) == expected


def test_adapter_without_a_style_passes_listed_params():
    pillar = UnstyledPillar()
    query = {"query": "SELECT %s, %s", "params": ["minion_id", "minion_id"]}
    pillar.fetch("web1", {}, query)
    assert pillar.cursor.queries == ["SELECT web1, web1"]


def test_queries_without_params_are_extracted_as_before():
    """
    Adapters outside of Salt compare them in their own tests
    """
    listed = {"query": "SELECT %s", "params": ["minion_id"]}
    found = OptsPillar().extract_queries(["SELECT 1", ["SELECT 2", 1]], {"a": listed})
    rest = {"as_list": False, "as_json": False, "with_lists": None}
    rest["ignore_null"] = False
    assert found == [
        [None, {"query": "SELECT 1", "depth": 0, **rest}],
        [None, {"query": "SELECT 2", "depth": 1, **rest}],
        ["a", {**listed, "depth": 0, **rest}],
    ]


def test_sqlite_gets_listed_params(sqlite_pillar):
    query = {
        "query": "SELECT name, value FROM pillars WHERE mid = ? AND value = ?",
        "params": ["minion_id", "grains:os"],
    }
    assert sqlite_pillar.fetch("web2", {}, query) == {"role": "Debian"}


def test_sqlite_gets_named_params(sqlite_pillar):
    query = {
        "query": "SELECT name, value FROM pillars WHERE value = :os AND mid = :minion_id",
        "params": {"os": "grains:os"},
    }
    assert sqlite_pillar.fetch("web2", {}, query) == {"role": "Debian"}
