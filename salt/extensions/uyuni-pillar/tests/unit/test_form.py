"""
Tests of the forms of formulas
"""

import copy

import pytest
import saltext.uyuni_pillar.form as form

# An element, what was typed for the group and for the minion, and what comes of it.
# None in place of what was typed: nothing was.
VALUES = [
    # whose value counts
    ({"$default": "d"}, None, None, "d"),
    ({"$placeholder": "p"}, None, None, "p"),
    ({"$default": "d", "$placeholder": "p"}, None, None, "d"),
    ({}, None, None, ""),
    ({"$default": "d"}, "g", None, "g"),
    ({"$default": "d"}, "g", "m", "m"),
    ({"$scope": "system"}, "g", "m", "m"),
    ({"$scope": "group", "$default": "d"}, "g", "m", "g"),
    ({"$scope": "group", "$default": "d"}, None, "m", "d"),
    ({"$scope": "readonly", "$default": "d"}, "g", "m", "d"),
    ({"$scope": "else", "$default": "d"}, "g", "m", None),
    # an empty value that was typed is a value
    ({"$default": "d"}, "g", "", ""),
    ({"$type": "boolean", "$default": True}, None, False, False),
    ({"$type": "number", "$default": 5}, None, 0, 0),
    # unless the form says otherwise
    ({"$ifEmpty": "e"}, None, "", "e"),
    ({"$ifEmpty": "e"}, None, None, "e"),
    ({"$ifEmpty": "e"}, None, "m", "m"),
    ({"$ifEmpty": "e", "$optional": True}, None, "", "e"),
    ({"$optional": True}, None, "m", "m"),
    # elements in elements
    ({"$type": "group", "a": {"$default": 1}, "$name": "A"}, None, None, {"a": 1}),
    (
        {"$type": "group", "a": {}, "b": {}},
        {"a": 1, "b": 1},
        {"b": 2, "c": 3},
        {"a": 1, "b": 2},
    ),
    ({"$type": "hidden-group", "a": {"$default": 1}}, None, None, {"a": 1}),
    ({"$type": "namespace", "a": {}}, None, {"a": 2}, {"a": 2}),
    ({"$type": "group", "text": "no element"}, None, None, {}),
    # a scope holds inside, unless there is one of its own
    (
        {"$type": "group", "$scope": "group", "a": {}, "b": {"$scope": "system"}},
        {"a": "g", "b": "g"},
        {"a": "m", "b": "m"},
        {"a": "g", "b": "m"},
    ),
    # lists of plain values, and mappings of them
    ({"$type": "edit-group", "$prototype": {"$type": "text"}}, None, [1, ""], [1, ""]),
    (
        {"$type": "edit-group", "$prototype": {"$type": "text", "$key": {}}},
        None,
        {"a": 1},
        {"a": 1},
    ),
    # lists of elements: what an entry lacks is empty, no default
    (
        {"$type": "edit-group", "$prototype": {"a": {"$default": 1}, "b": {}}},
        [{"a": 0}],
        None,
        [{"a": 0, "b": ""}],
    ),
    # never merged
    (
        {"$type": "edit-group", "$prototype": {"a": {}}},
        [{"a": 1}, {"a": 2}],
        [{"a": 3, "other": 4}],
        [{"a": 3}],
    ),
    (
        {"$type": "edit-group", "$prototype": {"a": {"$optional": True}}},
        None,
        [{"a": ""}, {"a": 1}],
        [{}, {"a": 1}],
    ),
    (
        {
            "$type": "edit-group",
            "$prototype": {"$type": "group", "$key": {}, "a": {"$ifEmpty": 7}},
        },
        None,
        {"one": {}, "two": {"a": 2}},
        {"one": {"a": 7}, "two": {"a": 2}},
    ),
    # of another type
    ({"$type": "edit-group", "$prototype": {"a": {}}}, None, {"a": 1}, []),
    ({"$type": "edit-group", "$prototype": {"$key": {}, "a": {}}}, None, [1], {}),
    ({"$type": "edit-group", "$prototype": {"a": {}}}, None, None, []),
    # described by nothing
    ({"$type": "edit-group"}, None, [{"a": ""}], [{"a": ""}]),
    # groups in entries
    (
        {
            "$type": "edit-group",
            "$prototype": {"in": {"$type": "group", "a": {"$ifEmpty": 1}}},
        },
        None,
        [{}],
        [{"in": {"a": 1}}],
    ),
]


@pytest.mark.parametrize("element,group,minion,expected", VALUES)
def test_value_of_an_element(element, group, minion, expected):
    typed = [{} if value is None else {"x": value} for value in (group, minion)]
    assert form.fill({"x": element}, *typed) == {"x": expected}


@pytest.mark.parametrize("value", ["", None, 0, False, [], {}])
def test_empty_optional_element_is_left_out(value):
    assert form.fill({"x": {"$optional": True}}, {}, {"x": value}) == {}


def test_what_is_no_element_is_left_out():
    layout = {"$scope": "group", "text": "no element", "a": {}}
    assert form.fill(layout, {"text": 1}, {"other": 1, "a": 1}) == {"a": 1}


def test_forms_stay_as_they_are():
    """
    A form is kept for the next minion, and pillars are merged into.
    """
    layout = {
        "a": {"$default": {"b": []}},
        "c": {"$ifEmpty": [1]},
        "d": {"$type": "edit-group", "$default": [{"e": 1}], "$prototype": {"e": {}}},
    }
    before = copy.deepcopy(layout)
    filled = form.fill(layout, {}, {})
    filled["a"]["b"].append(1)
    filled["c"].append(2)
    filled["d"][0]["e"] = 2
    assert layout == before


@pytest.mark.parametrize(
    "layout,group,minion,expected",
    [
        ([], {}, {}, "all of it has to be a mapping, but a list is in the form"),
        (
            {"x": {"$type": "group", "y": {"$type": "group", "z": {}}}},
            {},
            {"x": {"y": 1}},
            "x:y has to be a mapping, but a int was typed for the minion",
        ),
        (
            {"x": {"$type": "group", "y": {}}},
            {"x": ["y"]},
            {},
            "x has to be a mapping, but a list was typed for the group",
        ),
        (
            {"x": {"$type": "edit-group", "$prototype": {"a": {}}}},
            {},
            {"x": [1]},
            "x has to be a mapping, but a int was typed for the entry",
        ),
        (
            {"x": {"$type": "edit-group", "$prototype": "a"}},
            {},
            {},
            "x has to be a mapping, but a str is its $prototype",
        ),
    ],
)
def test_what_cannot_be_filled_in_is_named(layout, group, minion, expected):
    with pytest.raises(form.BadForm) as err:
        form.fill(layout, group, minion)
    assert str(err.value) == expected


OLD = ["x", "", [], ["x"], 1, True, None]


@pytest.mark.parametrize("typed", OLD)
def test_group_over_an_old_value_takes_what_the_group_has(typed):
    """
    Where the minion's values do not count, Uyuni does not look at them
    """
    elements = {"ntp": {"$type": "group", "$scope": "group", "server": {}}}
    group = {"ntp": {"server": "g"}}
    assert form.fill(elements, group, {"ntp": typed}) == group


@pytest.mark.parametrize("typed", OLD)
def test_group_over_a_value_that_uyuni_fails_at_is_refused(typed):
    elements = {"ntp": {"$type": "group", "server": {"$default": "d"}}}
    with pytest.raises(form.BadForm, match="^ntp has to be a mapping"):
        form.fill(elements, {}, {"ntp": typed})
