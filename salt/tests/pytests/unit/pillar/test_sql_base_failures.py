"""
Tests of what becomes of a query that fails, with an adapter that keeps its
error to itself
"""

import contextlib

import pytest

import salt.exceptions
import salt.pillar.sql_base as sql_base
from tests.support.mock import MagicMock


class SwallowingPillar(sql_base.SqlBaseExtPillar):
    """
    Adapter that logs the errors of its driver, as those for MySQL and SQLite do
    """

    @classmethod
    def _db_name(cls):
        return "fake"

    @contextlib.contextmanager
    def _get_cursor(self):
        cursor = MagicMock(description=[("key",), ("value",)])
        cursor.fetchall.return_value = [("a", 1)]
        cursor.execute.side_effect = [None, ValueError("no such table")]
        try:
            yield cursor
        except ValueError:
            pass


def test_query_that_fails_is_an_error_though_the_adapter_swallows_it():
    assert SwallowingPillar().fetch("web1", {}, "SELECT 1") == {"a": 1}
    with pytest.raises(salt.exceptions.CommandExecutionError, match="a query failed"):
        SwallowingPillar().fetch("web1", {}, "SELECT 1", "SELECT 2")
