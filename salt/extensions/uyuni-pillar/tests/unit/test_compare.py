"""
Tests of how two pillars are compared
"""

from unittest.mock import MagicMock, patch  # pylint: disable=blacklisted-module

import pytest
import saltext.uyuni_pillar.compare as compare
import saltext.uyuni_pillar.document as document


@pytest.mark.parametrize(
    "files,database",
    [
        ({"a": {"b": 1, "c": 1}}, {"a": {"b": 2, "c": 1}}),
        ({"a": 1}, {"a": 1.0}),
        ({"a": 1}, {"a": True}),
        ({"a": [1]}, {"a": [True]}),
        ({"a": [{"b": 1}]}, {"a": [{"b": 1.0}]}),
        ({"a": {1: 2}}, {"a": {"1": 2}}),
        ({"a": {1: 2, "b": 3}}, {"a": {"1": 2, "b": 3}}),
        ({"a": {True: 2}}, {"a": {1: 2}}),
        ({"a": 0.0}, {"a": -0.0}),
        ({"a": None}, {}),
        ({}, {"a": None}),
        ({"a": {}}, {"a": []}),
    ],
)
def test_differences_are_found(files, database):
    assert compare.difference(files, database)
    assert compare.difference(files, files) is None
    assert compare.difference(database, database) is None


def test_only_what_differs_is_told():
    files = {"a": {"b": 1, "c": 1, "d": 0}, "e": [1, 2]}
    database = {"a": {"b": 2, "c": 1, 1: 0}, "e": [1, 2]}
    assert compare.difference(files, database) == {
        "files": {"a": {"b": 1, "d": 0}},
        "database": {"a": {"b": 2, "1 (int)": 0}},
    }


def test_error_on_both_sides_is_a_difference():
    pillar = {"_errors": ["x"]}
    assert compare.difference(pillar, pillar) == {"both": ["x"]}


@pytest.mark.parametrize(
    "one,other,expected",
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 2}, False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"x": [{"a": 1, "b": 2}]}, {"x": [{"b": 2, "a": 1}]}, True),
        ({"x": {"a": [], "b": 2}}, {"x": {"b": 2, "a": []}}, True),
    ],
)
def test_order_of_keys_is_no_difference_but_told(one, other, expected):
    assert compare.difference(one, other) is None
    assert compare.reordered(one, other) is expected


@pytest.mark.parametrize(
    "source,expected",
    [
        ({"uyuni_files": {}}, True),
        ({"postgres": ["SELECT 1", ["SELECT 1", 2], {"query": "SELECT 1"}]}, True),
        ({"postgres": {"main": "SELECT 1"}}, True),
        ({"postgres": [{"query": "SELECT %s", "params": ["grains:os"]}]}, False),
        (
            {"postgres": {"main": {"query": "SELECT %s", "params": ["grains:os"]}}},
            False,
        ),
        ({"suma_minion": True}, False),
    ],
)
def test_grains_are_looked_up_where_they_may_be_needed(source, expected):
    pillar = MagicMock()
    pillar.return_value.ext_pillar.return_value = ({}, [])
    data = MagicMock(return_value=("web1", {"os": "Debian"}, {}))
    side = compare.Side([source], {})
    with patch("salt.pillar.Pillar", pillar):
        with patch("salt.utils.minions.get_minion_data", data):
            assert [side.compile(minion) for minion in ("web1", "web2")] == [{}, {}]
    # one compiler for all, or one with the grains of each
    assert pillar.call_count == (1 if expected else 2)
    grains = {} if expected else {"os": "Debian"}
    assert {call.args[1] == grains for call in pillar.call_args_list} == {True}


def test_what_is_nested_too_deeply_hides_no_other_minion():
    deep = []
    for _ in range(5000):
        deep = [deep]
    assert compare.difference({"a": deep}, {"a": deep}) == {"both": [document.DEEP]}
