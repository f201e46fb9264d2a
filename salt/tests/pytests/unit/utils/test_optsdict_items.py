"""
Tests for walking through all items of opts.
"""

import pytest

from salt.utils.optsdict import OptsDict


def test_items_are_what_each_key_gives():
    """
    Iteration gives the very objects that a lookup gives, through all layers
    """
    root = OptsDict.from_dict(
        {"own": {"x": 1}, "list": [1], "plain": 1, "gone": 1, "back": 1}
    )
    parent = OptsDict.from_parent(root)
    parent["between"] = {"y": [2]}
    parent["nested"] = OptsDict.from_dict({"z": 3})
    del parent["gone"], parent["back"]
    child = OptsDict.from_parent(parent)
    child["back"] = ["again"]
    child["local"] = {"w": 4}

    for opts, keys in (
        (root, {"own", "list", "plain", "gone", "back"}),
        (parent, {"own", "list", "plain", "between", "nested"}),
        (child, {"own", "list", "plain", "between", "nested", "back", "local"}),
    ):
        items = dict(opts.items())
        assert set(items) == keys == set(opts)
        for key, value in items.items():
            assert value is opts[key]
        assert len(opts) == len(keys)

    # what is changed through an item stays with the layer that it was taken from
    dict(child.items())["list"].append(2)
    assert child["list"] == [1, 2]
    assert root["list"] == [1]
    assert parent["list"] == [1]


def test_items_of_a_base_with_lookups_of_its_own():
    """
    A base that is no plain dictionary is asked for each value
    """

    class Shouting(dict):
        def __getitem__(self, key):
            return super().__getitem__(key).upper()

    opts = OptsDict.from_parent(OptsDict.from_dict(Shouting(a="x", b="y")))
    assert dict(opts.items()) == {"a": "X", "b": "Y"}
    assert opts["a"] == "X"


def test_items_are_not_looked_up_one_by_one(monkeypatch):
    opts = OptsDict.from_parent(OptsDict.from_dict({str(key): key for key in range(9)}))
    monkeypatch.setattr(OptsDict, "__getitem__", lambda *_: pytest.fail("looked up"))
    assert len(set(opts)) == 9
