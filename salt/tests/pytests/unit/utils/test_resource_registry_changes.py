"""
A minion that registers the resources that it had before costs no writes.
"""

# pylint: disable=protected-access

import pytest

import salt.utils.resource_registry as rr


@pytest.fixture
def registry(tmp_path):
    opts = {"cachedir": str(tmp_path), "cache": "localfs", "extension_modules": ""}
    registry = rr.ResourceRegistry(opts)
    yield registry
    registry.close()


@pytest.fixture
def written(registry, monkeypatch):
    """
    Return the keys that were written.
    """
    keys = []
    put = registry._store.put

    def noted(srn, minion_id, rtype):
        keys.append(srn)
        return put(srn, minion_id, rtype)

    monkeypatch.setattr(registry._store, "put", noted)
    return keys


def test_only_what_changed_is_written(registry, written):
    registry.register_minion("m1", {"vm": ["a", "b"], "host": ["c"]})
    assert sorted(written) == ["host:c", "vm:a", "vm:b"]
    del written[:]
    assert registry.register_minion("m1", {"vm": ["a", "b"], "host": ["c"]}) == (0, 0)
    assert registry.register_minion("m1", {"vm": ["a", "d"], "host": ["c"]}) == (1, 1)
    assert written == ["vm:d"]
    found = registry.get_resources_for_minion("m1")
    assert {name: sorted(ids) for name, ids in found.items()} == {
        "vm": ["a", "d"],
        "host": ["c"],
    }


def test_a_resource_that_moves_is_written(registry, written):
    registry.register_minion("m1", {"vm": ["a"]})
    registry.register_minion("m2", {"vm": ["a"]})
    registry.register_minion("m1", {"vm": ["a"]})
    assert written == ["vm:a"] * 3
    assert registry.get_managing_minions_for_srn("vm", "a") == ["m1"]
