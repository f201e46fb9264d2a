"""
Tests of rows that are one JSON object each, through ``fetch``
"""

import contextlib

import pytest

import salt.pillar.sql_base as sql_base
from tests.support.mock import MagicMock


class FakePillar(sql_base.SqlBaseExtPillar):
    """
    Adapter that answers each query with the next of the prepared rows, which
    are of one field
    """

    def __init__(self, *results):
        super().__init__()
        self.cursor = MagicMock(description=[("pillar",)])
        self.cursor.fetchall.side_effect = list(results)

    @classmethod
    def _db_name(cls):
        return "fake"

    @contextlib.contextmanager
    def _get_cursor(self):
        yield self.cursor


def test_dict_rows_of_several_queries_are_merged():
    pillar = FakePillar([({"a": {"b": 1, "c": 1}},)], [({"a": {"c": 2}},)])
    expected = {"a": {"b": 1, "c": 2}}
    assert pillar.fetch("web1", {}, "SELECT 1", "SELECT 2") == expected


def test_dict_rows_stay_below_the_key_of_their_query():
    pillar = FakePillar([({"a": 1},)])
    assert pillar.fetch("web1", {}, mine="SELECT pillar FROM p") == {"mine": {"a": 1}}


def test_ignore_null_skips_rows_of_its_query_only():
    rows = [(None,), ({"a": 1},)]
    pillar = FakePillar(rows, rows)
    skipping = {"query": "SELECT 1", "ignore_null": True}
    with pytest.raises(TypeError, match="JSON rows"):
        pillar.fetch("web1", {}, skipping, "SELECT 2")
    queries = [call.args[0] for call in pillar.cursor.execute.call_args_list]
    assert queries == ["SELECT 1", "SELECT 2"]
