"""
Tests of rows that are one JSON object each, through ``fetch``
"""

import collections
import contextlib
import json

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


@pytest.mark.parametrize("kind", [collections.OrderedDict, collections.defaultdict])
def test_other_kinds_of_dict_are_merged(kind):
    """
    A driver may have a hook that makes them
    """

    def loads(text):
        return json.loads(text, object_pairs_hook=lambda pairs: _of_kind(kind, pairs))

    rows = [(loads('{"a": {"b": {"c": 1}}}'),), (loads('{"a": {"b": {"d": 2}}}'),)]
    expected = {"a": {"b": {"c": 1, "d": 2}}}
    assert FakePillar(rows).fetch("web1", {}, "SELECT 1") == expected
    # beside those of the driver itself
    rows[0] = ({"a": {"b": {"c": 1}}},)
    assert FakePillar(rows).fetch("web1", {}, "SELECT 1") == expected


def _of_kind(kind, pairs):
    found = kind()
    found.update(pairs)
    return found


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_text_that_a_driver_returns_as_bytes_is_decoded(kind):
    """
    Each driver has a type of its own for a column of bytes, such as bytea
    """
    rows = [(kind('{"é": [1]}'.encode()),), (kind(b'{"b": {"c": 2}}'),)]
    query = {"query": "SELECT 1", "as_json": True}
    assert FakePillar(rows).fetch("web1", {}, query) == {"é": [1], "b": {"c": 2}}
