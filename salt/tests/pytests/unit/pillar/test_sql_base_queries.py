"""
Tests of how the queries of SQL ext_pillars get their parameters, and of rows
that are JSON objects, through ``fetch`` with drivers of several styles
"""

import contextlib
import sqlite3

import pytest

import salt.exceptions
import salt.pillar.sql_base as sql_base


class FakeCursor:
    """
    Cursor that formats its queries as the MySQL drivers do, and answers each
    with the next of the prepared results
    """

    def __init__(self, results):
        self.results = list(results)
        self.queries = []
        self.rows = []
        self.description = None

    def execute(self, query, args=None):
        self.queries.append(query if args is None else query % args)
        names, self.rows = self.results.pop(0)
        self.description = [(name,) for name in names]

    def fetchall(self):
        return self.rows


class FormatPillar(sql_base.SqlBaseExtPillar):
    """
    Adapter of a driver whose placeholders are ``%s`` and ``%(name)s``
    """

    paramstyle = "pyformat"

    def __init__(self, *results, opts=None):
        super().__init__()
        self.cursor = FakeCursor(results)
        self.opts = opts or {}
        self.connections = 0

    @classmethod
    def _db_name(cls):
        return "fake"

    @contextlib.contextmanager
    def _get_cursor(self):
        self.connections += 1
        yield self.cursor

    def _get_pillar_opts(self):
        return self.opts


class UnstyledPillar(FormatPillar):
    """
    Adapter from before there was a style
    """

    paramstyle = None


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


@pytest.fixture
def database():
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE pillars (mid TEXT, name TEXT, value TEXT)")
        connection.executemany(
            "INSERT INTO pillars VALUES (?, ?, ?)",
            [("web1", "role", "100%s"), ("web2", "role", "web")],
        )
        yield connection


@pytest.fixture
def opts():
    return {
        "grains": {"os": "Debian", "roles": ["web", "db"], "ec2": {"zone": "a"}},
        "pillarenv": "prod",
        "saltenv": None,
        "postgres": {"pass": "secret"},
    }


def queries_of(*args, opts=None, **kwargs):
    """
    Run queries that find nothing and return them as the driver formatted them
    """
    pillar = FormatPillar(*[(["pillar"], [])] * 5, opts=opts)
    pillar.fetch("web1", {}, *args, **kwargs)
    return pillar.cursor.queries


def test_dict_rows_are_merged_without_as_json():
    rows = [({"a": {"b": [1]}, "c": 3},), ({"a": {"b": [2], "d": 4}},)]
    pillar = FormatPillar((["pillar"], rows))
    expected = {"a": {"b": [2], "d": 4}, "c": 3}
    assert pillar.fetch("web1", {}, "SELECT pillar FROM p WHERE id = %s") == expected


def test_dict_rows_of_several_queries_are_merged():
    pillar = FormatPillar(
        (["pillar"], [({"a": {"b": 1, "c": 1}},)]),
        (["pillar"], [({"a": {"c": 2}},)]),
    )
    expected = {"a": {"b": 1, "c": 2}}
    assert pillar.fetch("web1", {}, "SELECT 1", "SELECT 2") == expected


def test_dict_rows_extend_lists_with_as_list():
    rows = [({"a": [1, 2]},), ({"a": [1, 3]},)]
    pillar = FormatPillar((["pillar"], rows))
    query = {"query": "SELECT pillar FROM p", "as_list": True}
    assert pillar.fetch("web1", {}, query) == {"a": [1, 2, 3]}


def test_dict_rows_stay_below_the_key_of_their_query():
    pillar = FormatPillar((["pillar"], [({"a": 1},)]))
    assert pillar.fetch("web1", {}, mine="SELECT pillar FROM p") == {"mine": {"a": 1}}


@pytest.mark.parametrize("text", ['{"a": 1}', "plain", b'{"a": 1}'])
def test_text_of_one_field_is_no_json_without_as_json(text):
    pillar = FormatPillar((["pillar"], [(text,)]))
    assert pillar.fetch("web1", {}, "SELECT pillar FROM p") == {text: text}


def test_dict_beside_a_key_is_a_value():
    rows = [("a", {"b": 1}), ("a", {"c": 2})]
    pillar = FormatPillar((["key", "pillar"], rows))
    assert pillar.fetch("web1", {}, "SELECT key, pillar FROM p") == {"a": {"c": 2}}


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
def test_each_placeholder_is_the_minion_id(query, expected):
    assert queries_of(query) == [expected]


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


def test_each_query_gets_its_own_params(opts):
    named = {"query": "SELECT %(os)s", "params": {"os": "grains:os"}}
    assert queries_of(named, "SELECT %s", opts=opts) == ["SELECT Debian", "SELECT web1"]


@pytest.mark.parametrize("source", ["grains:nosuch", "grains:os:no", "opts:saltenv"])
def test_absent_values_are_null(source, opts):
    query = {"query": "SELECT %s", "params": [source]}
    assert queries_of(query, opts=opts) == ["SELECT None"]


@pytest.mark.parametrize(
    "source", ["nosuch", "opts:postgres", "opts:postgres:pass", "grains:", "opts", 5]
)
def test_unknown_source_is_an_error(source, opts):
    query = {"query": "SELECT %s", "params": [source]}
    pillar = FormatPillar(opts=opts)
    with pytest.raises(salt.exceptions.SaltConfigurationError, match="as a parameter"):
        pillar.fetch("web1", {}, query)
    assert pillar.connections == 0


@pytest.mark.parametrize(
    "query,params,match",
    [
        ("SELECT %s, %s", ["minion_id"], "2 placeholders for the 1 params"),
        ("SELECT %(minion_id)s", ["minion_id"], "1 placeholders for the 1 params"),
        ("SELECT %(env)s", None, "do not name: env"),
        ("SELECT %(env)s", {"os": "grains:os"}, "do not name: env"),
        ("SELECT %s", {"os": "grains:os"}, "do not name: %s"),
        ("SELECT %s, %(minion_id)s", None, "either name all"),
        ("SELECT %s", "minion_id", "list or a mapping"),
    ],
)
def test_params_that_do_not_fit_are_an_error(query, params, match, opts):
    details = {"query": query, "params": params}
    pillar = FormatPillar(opts=opts)
    with pytest.raises(salt.exceptions.SaltConfigurationError, match=match):
        pillar.fetch("web1", {}, details)
    assert pillar.connections == 0


def test_adapter_without_opts_has_the_minion_id_only():
    pillar = FormatPillar()
    query = {"query": "SELECT %s", "params": ["grains:os"]}
    with pytest.raises(salt.exceptions.SaltConfigurationError, match="as a parameter"):
        pillar.fetch("web1", {}, query)


def test_adapter_without_a_style_passes_the_minion_id_once():
    pillar = UnstyledPillar((["pillar"], []))
    pillar.fetch("web1", {}, "SELECT %s, '%%s'")
    assert pillar.cursor.queries == ["SELECT web1, '%s'"]


def test_adapter_without_a_style_passes_listed_params():
    pillar = UnstyledPillar((["pillar"], []))
    query = {"query": "SELECT %s, %s", "params": ["minion_id", "minion_id"]}
    pillar.fetch("web1", {}, query)
    assert pillar.cursor.queries == ["SELECT web1, web1"]


def test_sqlite_question_mark_is_the_minion_id(database):
    query = "SELECT name, value FROM pillars WHERE mid = ? AND value LIKE '%s'"
    assert SqlitePillar(database).fetch("web1", {}, query) == {"role": "100%s"}


def test_sqlite_gets_listed_params(database):
    query = {
        "query": "SELECT name, value FROM pillars WHERE mid = ? OR mid || '' = ?",
        "params": ["minion_id", "minion_id"],
    }
    assert SqlitePillar(database).fetch("web2", {}, query) == {"role": "web"}


def test_sqlite_gets_named_params(database):
    query = {
        "query": "SELECT name, value FROM pillars WHERE mid = :minion_id",
        "params": {},
    }
    assert SqlitePillar(database).fetch("web2", {}, query) == {"role": "web"}
