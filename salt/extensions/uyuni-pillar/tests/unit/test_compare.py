"""
Tests of how two pillars are compared
"""

import pytest
import saltext.uyuni_pillar.compare as compare


@pytest.mark.parametrize(
    "files,database",
    [
        ({"a": {"b": 1, "c": 1}}, {"a": {"b": 2, "c": 1}}),
        ({"a": 1}, {"a": 1.0}),
        ({"a": 1}, {"a": True}),
        ({"a": [1]}, {"a": [True]}),
        ({"a": [{"b": 1}]}, {"a": [{"b": 1.0}]}),
        ({"a": {1: 2}}, {"a": {"1": 2}}),
        ({"a": 0.0}, {"a": -0.0}),
        ({"a": None}, {}),
        ({}, {"a": None}),
        ({"a": {}}, {"a": []}),
    ],
)
def test_differences_are_found(files, database):
    assert compare.difference(files, database, "files", "database")
    assert compare.difference(files, files, "a", "b") is None
    assert compare.difference(database, database, "a", "b") is None


def test_only_what_differs_is_told():
    files = {"a": {"b": 1, "c": 1, "d": 0}, "e": [1, 2]}
    database = {"a": {"b": 2, "c": 1, 1: 0}, "e": [1, 2]}
    assert compare.difference(files, database, "files", "database") == {
        "files": {"a": {"b": 1, "d": 0}},
        "database": {"a": {"b": 2, 1: 0}},
    }


def test_error_on_both_sides_is_a_difference():
    pillar = {"_errors": ["x"]}
    assert compare.difference(pillar, pillar, "a", "b") == {"both": ["x"]}


def test_order_of_keys_is_no_difference():
    pillars = {"a": 1, "b": 2}, {"b": 2, "a": 1}
    assert compare.difference(*pillars, "one", "other") is None


def test_what_is_nested_too_deeply_hides_no_other_minion():
    deep = []
    for _ in range(5000):
        deep = [deep]
    (reason,) = compare.difference({"a": deep}, {"a": deep}, "a", "b")["both"]
    assert "too deeply" in reason
