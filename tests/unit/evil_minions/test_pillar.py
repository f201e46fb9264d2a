"""The pillar store: equal parts once, nothing mixed up."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from evil_minions.inventory.targets import PillarStore, Unpacked

SCALARS = st.sampled_from([None, True, False, 0, 1, -1, 2**63, 0.0, -0.0, 1.0, "", "1", "a", b"", b"a"])
NAMES = st.sampled_from(["a", "b", "", 1])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)


def exact(value: object) -> object:
    """Return a value that is equal only to one of the same types all the way down."""
    if isinstance(value, dict):
        return ("dict", [(exact(name), exact(child)) for name, child in value.items()])
    if isinstance(value, list):
        return ("list", [exact(child) for child in value])
    return (type(value).__name__, repr(value))


@given(st.lists(st.dictionaries(NAMES, VALUES, max_size=3), min_size=1, max_size=4))
def test_pillars_come_out_as_they_went_in(pillars: list[dict[Any, object]]) -> None:
    """Whatever a pillar holds, types and order included, comes back unchanged."""
    store = PillarStore(len(pillars))
    for index, pillar in enumerate(pillars):
        store.put(index, copy.deepcopy(pillar))
    assert [exact(store.get(index)) for index in range(len(pillars))] == [exact(pillar) for pillar in pillars]


@given(st.dictionaries(NAMES, VALUES, max_size=3))
def test_an_item_is_that_of_the_pillar(pillar: dict[Any, object]) -> None:
    """One value alone is what the whole pillar has there, and None where it has nothing."""
    store = PillarStore(1)
    store.put(0, copy.deepcopy(pillar))
    for name in ("a", "b", "c"):
        assert exact(store.item(0, name)) == exact(pillar.get(name))


def test_equal_parts_are_held_once() -> None:
    """A second pillar that differs in one value adds that value and what holds it."""
    store = PillarStore(2)
    common = {"list": [{"a": 1}], "text": "x"}
    store.put(0, {"own": 0, "common": common})
    one = store.parts()
    store.put(1, {"own": 1, "common": common})
    assert store.parts() == one + 2


def test_a_series_shares_what_it_unpacks() -> None:
    """What two pillars have in common is unpacked once in a series, and the store keeps none of it."""
    store = PillarStore(2)
    for index in range(2):
        store.put(index, {"own": index, "common": {"list": [{"a": 1}]}})
    unpacked: Unpacked = {}
    first, second = (store.get(index, unpacked) for index in range(2))
    assert first["common"]["list"][0] is second["common"]["list"][0]
    assert store.get(0)["common"]["list"][0] is not first["common"]["list"][0]


def test_version_follows_changes() -> None:
    """The version grows when a pillar changes, and only then."""
    store = PillarStore(1)
    versions = []
    for pillar in ({"a": 1}, {"a": 1}, {"a": True}, {"a": 1.0}):
        store.put(0, pillar)
        versions.append(store.version)
    assert versions == [1, 1, 2, 3]


def test_old_parts_go() -> None:
    """Pillars that change for ever don't make the store grow for ever."""
    store = PillarStore(2)
    for number in range(20_000):
        store.put(0, {"number": number, "list": [number]})
    assert store.parts() < 5_000
    assert store.get(0) == {"number": 19_999, "list": [19_999]}
