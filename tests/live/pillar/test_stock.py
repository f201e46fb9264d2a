"""Pillars out of a database on stock Salt and on ours: the faults that the patches mend are there without them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.database import sources
from harness.saltprocess.patched import Salt, options
from harness.saltprocess.process import SaltProcess

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = pytest.mark.live
FIRST = "SELECT 'first', '1'"
KILL = "SELECT 'killed', pg_terminate_backend(pg_backend_pid())::text"
WRITE = "INSERT INTO asked VALUES (1) RETURNING 'written', 'yes'"
MERGED = {"query": "SELECT '{\"a\": 1}'::jsonb", "as_json": True}
ERROR = "Failed to load ext_pillar postgres: {}, see the log of the master"
# the queries, the pillar on stock, and what ours says instead
FAULTS: Mapping[str, tuple[list[object], dict[str, Any], str]] = {
    "a table is missing": (["SELECT * FROM nosuch"], {}, "the database reports UndefinedTable (42P01)"),
    "the second query is broken": (
        [FIRST, "SELECT 1 +"],
        {"first": "1"},
        "the database reports SyntaxError (42601)",
    ),
    "the connection breaks": ([FIRST, KILL], {"first": "1"}, "there is no connection to the database"),
    "a query writes": ([WRITE], {"written": "yes"}, "the database reports ReadOnlySqlTransaction (25006)"),
    "the right to read is gone": (
        [FIRST, "SELECT * FROM closed"],
        {"first": "1"},
        "the database reports InsufficientPrivilege (42501)",
    ),
}
ACCOUNT = {"user": "reader", "pass": "reader"}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sources.Database]:
    """Yield a database with a role that may write into one table and read no other."""
    with sources.served(tmp_path_factory.mktemp("server")) as server:
        made = sources.make(server, "stock")
        made.run("CREATE TABLE asked (a INTEGER); CREATE TABLE closed (a TEXT, b TEXT)")
        made.run("CREATE ROLE reader LOGIN PASSWORD 'reader'; GRANT SELECT, INSERT ON asked TO reader")
        yield made


@pytest.fixture(scope="module", params=["stock", "patched"])
def salt(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Salt]:
    """Yield either Salt."""
    settings = {"folder": str(tmp_path_factory.mktemp("salt"))}
    with SaltProcess(request.param, "harness.saltprocess.compiler", settings) as process:
        yield Salt(process)


def compiled(salt: Salt, database: sources.Database, *queries: object, minion: str = "web1") -> dict[str, Any]:
    """Return the pillar of a minion."""
    source = options(database.server, [{"postgres": list(queries)}], **ACCOUNT)
    (pillar,) = salt.act("compile", source, [minion])
    found: dict[str, Any] = pillar
    return found


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_silent_on_stock_and_an_error_on_ours(salt: Salt, database: sources.Database, name: str) -> None:
    """On stock the pillar is short or empty, or what was written is lost, without a word."""
    queries, on_stock, error = FAULTS[name]
    ours = {"_errors": [ERROR.format(error)]}
    assert compiled(salt, database, *queries) == (on_stock if salt.process.tree == "stock" else ours)
    assert database.run("SELECT count(*) FROM asked") == [(0,)]


def test_minion_id_twice(salt: Salt, database: sources.Database) -> None:
    """Stock gives it once."""
    found = compiled(salt, database, "SELECT %s, %s || '!'")
    on_stock = {"_errors": ["Failed to load ext_pillar postgres: tuple index out of range"]}
    assert found == (on_stock if salt.process.tree == "stock" else {"web1": "web1!"})


def test_json_needs_no_flag(salt: Salt, database: sources.Database) -> None:
    """On stock one field of JSON is an error without `as_json`, which both take."""
    assert compiled(salt, database, MERGED) == {"a": 1}
    found = compiled(salt, database, MERGED["query"])
    on_stock = {"_errors": ["Failed to load ext_pillar postgres: unhashable type: 'dict'"]}
    assert found == (on_stock if salt.process.tree == "stock" else {"a": 1})


def test_json_in_a_column_of_bytes(salt: Salt, database: sources.Database) -> None:
    """With `as_json` a bytea is read as text is."""
    for value in ("'{\"\u00e9\": 1}'", "convert_to('{\"\u00e9\": 1}', 'UTF8')"):
        found = compiled(salt, database, {"query": f"SELECT {value}", "as_json": True})
        if "convert" in value and salt.process.tree == "stock":
            assert "must decode to a dict, got memoryview" in str(found["_errors"])
        else:
            assert found == {"\u00e9": 1}


def test_connections_are_kept(salt: Salt, database: sources.Database) -> None:
    """Stock opens one for each pillar."""
    pids = {compiled(salt, database, "SELECT 'pid', pg_backend_pid()::text")["pid"] for _ in range(20)}
    assert len(pids) == (20 if salt.process.tree == "stock" else 1)
