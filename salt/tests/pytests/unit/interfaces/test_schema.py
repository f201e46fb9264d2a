"""
Unit tests for the structure of what functions return
"""

import json

import pytest

from salt.interfaces import marks, schema


@pytest.mark.parametrize(
    "wanted, value",
    [
        (str, "x"),
        (object, None),
        (None, None),
        (bool, True),
        (int, 3),
        (float, 3),
        (list, ("a",)),
        ((bool, None), None),
        ([str], []),
        ([str], ["a", "b"]),
        ({}, {"extra": 1}),
        ({"a": bool}, {"a": True, "b": 1}),
        ({str: str}, {}),
        ({str: (str, list)}, {"bash": "5.2", "linux": ["6.1", "6.2"]}),
        ({"name": str, str: int}, {"name": "x", "uid": 1}),
        ((str, {"a": [int]}), {"a": [1]}),
    ],
)
def test_what_fits(wanted, value):
    marks.check_schema(wanted)
    assert schema.problems(wanted, value) == []


@pytest.mark.parametrize(
    "wanted, value, problem",
    [
        (str, 1, "the result is int, not str"),
        (None, 1, "the result is int, not None"),
        (int, True, "the result is bool, not int"),
        (bool, 1, "the result is int, not bool"),
        ([str], {}, "the result is dict, not ['str']"),
        ([str], ["a", 1], "the result[1] is int, not str"),
        ({"a": bool}, {}, "the result lacks the key 'a'"),
        ({"a": bool}, [], "the result is list, not a dictionary"),
        ({"a": {"b": str}}, {"a": {"b": 1}}, "the result['a']['b'] is int, not str"),
        ({str: str}, {"a": 1}, "the result['a'] is int, not str"),
        ({str: str}, {1: "a"}, "the result has the key 1 of type int, not str"),
        ((bool, None), "", "the result is str, not bool or None"),
        ((str, {"a": int}), {"a": "b"}, "the result['a'] is str, not int"),
    ],
)
def test_what_does_not_fit(wanted, value, problem):
    assert schema.problems(wanted, value) == [problem]


def test_a_thousand_faults_are_few_problems():
    assert len(schema.problems({str: str}, {str(one): one for one in range(1000)})) == (
        schema.MOST_PROBLEMS
    )


def test_values_are_not_changed():
    value = {"a": [1, {"b": ()}]}
    schema.problems({"a": [str], "c": str}, value)
    assert value == {"a": [1, {"b": ()}]}


def test_description_is_json():
    wanted = ({"name": str, str: [object]}, None)
    assert json.loads(json.dumps(schema.describe(wanted))) == {
        "any_of": [{"name": "str", "<str>": ["any"]}, "None"]
    }


@pytest.mark.parametrize(
    "wanted, value",
    [
        (str, ""),
        (bool, False),
        (None, None),
        (object, None),
        ([str], []),
        ({"a": [int], str: str}, {"a": []}),
        ((dict, str), {}),
    ],
)
def test_empty(wanted, value):
    assert schema.empty(wanted) == value
