"""
Test what a list of names targets, and that it reads the minions' data once
"""

import pytest

import salt.utils.minions
import salt.utils.resources
from tests.support.mock import MagicMock, patch

# what other kinds of targets give it is under test as well
# pylint: disable=protected-access


@pytest.fixture
def data():
    """
    The minions' cached data, as (bank, minion): what is stored
    """
    return {
        ("pillar", "web1"): {"resources": {"disk": {"resource_ids": ["disk1"]}}},
        ("pillar", "web2"): {"resources": {"odd": [{"a": 1}, 5, "odd1", "odd2"]}},
        ("pillar", "web3"): "no pillar",
        ("grains", "web1"): {"salt_resources": {"net": ["net1", "net2", "web1"]}},
        ("grains", "web2"): {"salt_resources": None},
        ("grains", "web3"): {},
    }


@pytest.fixture
def cache(data):
    def list_(bank):
        return [minion for (known, minion) in data if known == bank]

    cache = MagicMock()
    cache.list.side_effect = list_
    cache.fetch.side_effect = lambda bank, minion: data[bank, minion]
    return cache


@pytest.fixture
def ckminions(master_opts, cache):
    master_opts["minion_data_cache"] = True
    with patch("salt.key.get_key") as get_key, patch(
        "salt.cache.factory", return_value=cache
    ), patch("salt.utils.resource_registry.get_registry") as get_registry:
        get_key.return_value.ACC = "minions"
        get_key.return_value.list_match.side_effect = lambda names: {
            "minions": [name for name in names if name.startswith("web")],
            "minions_pre": [name for name in names if name.startswith("new")],
        }
        get_registry.return_value.resolve_bare_resource_id.side_effect = lambda token: (
            [("ssh", token)] if token.startswith("ssh") else []
        )
        yield salt.utils.minions.CkMinions(master_opts)


def test_the_order_and_repetitions_stay(ckminions):
    names = ["web2", "nobody", "web1", "new1", "web2", "nobody", "web1"]
    assert ckminions._check_list_minions(names, True) == {
        "minions": ["web2", "web1", "web2", "web1"],
        "missing": ["nobody", "new1", "nobody"],
    }


def test_a_string(ckminions):
    assert ckminions._check_list_minions("web1,,nobody,", True) == {
        "minions": ["web1"],
        "missing": ["nobody"],
    }


@pytest.mark.parametrize("kind", (list, set, tuple, dict.fromkeys))
def test_minions_that_are_given(ckminions, kind):
    names = ["web2", "nobody", "web1", "web2", "ssh1"]
    found = ckminions._check_list_minions(names, True, minions=kind(["web2", "x"]))
    assert found == {"minions": ["web2", "web2", "web1", "ssh1"], "missing": ["nobody"]}


def test_a_key_without_list_match(ckminions):
    ckminions.key = MagicMock(spec=["list_status"])
    ckminions.key.list_status.return_value = {"minions": ["web1"]}
    assert ckminions._check_list_minions(["web1", "nobody", "web1"], True) == {
        "minions": ["web1", "web1"],
        "missing": ["nobody"],
    }


def test_resources(ckminions):
    """
    Those of the registry and those of the cached data, in the order of the list
    """
    names = ["net1", "nobody", "ssh1", "web1", "disk1", "odd2", "ssh1", "net1", ""]
    assert ckminions._check_list_minions(names, True) == {
        "minions": ["web1", "net1", "ssh1", "disk1", "odd2"],
        # as ever, a resource that is named twice is missing once
        "missing": ["nobody", "ssh1", "net1", ""],
    }


def test_missing_names_are_ignored(ckminions):
    names = ["net1", "nobody", "ssh1", "web1"]
    assert ckminions._check_list_minions(names, True, ignore_missing=True) == {
        "minions": ["web1", "net1", "ssh1"],
        "missing": [],
    }


def test_a_registry_that_fails(ckminions):
    """
    What was found until then counts
    """
    ckminions.registry.resolve_bare_resource_id.side_effect = [
        [],
        [("ssh", "ssh1")],
        OSError("no registry"),
    ]
    names = ["net1", "ssh1", "net2", "nobody"]
    assert ckminions._check_list_minions(names, True) == {
        "minions": ["net1", "ssh1"],
        "missing": ["net2", "nobody"],
    }


def test_unknown_names_read_the_data_once(ckminions, cache, data):
    names = [f"nobody{number}" for number in range(50)]
    found = ckminions._check_list_minions([*names, "net1"], True)
    assert found == {"minions": ["net1"], "missing": names}
    assert cache.fetch.call_count == len(data)


def test_known_names_read_no_data(ckminions, cache):
    ckminions._check_list_minions(["web1", "ssh1"], True)
    cache.list.assert_not_called()
    cache.fetch.assert_not_called()


def test_the_data_is_read_until_all_is_found(ckminions, cache):
    ckminions._check_list_minions(["disk1", "disk1"], True)
    cache.fetch.assert_called_once_with("pillar", "web1")


def test_each_id_is_found_as_by_itself(cache):
    opts = {"minion_data_cache": True}
    ids = ["disk1", "nobody", "odd1", "odd2", "net2", "web1", "", None, 5, "5"]
    one_by_one = {
        resource_id
        for resource_id in ids
        if salt.utils.resources.bare_resource_id_in_minion_data_cache(
            opts, resource_id, cache=cache
        )
    }
    assert one_by_one == {"disk1", "odd1", "odd2", "net2", "web1", 5}
    assert (
        salt.utils.resources.bare_resource_ids_in_minion_data_cache(
            opts, ids, cache=cache
        )
        == one_by_one
    )


def test_a_cache_that_fails(cache):
    opts = {"minion_data_cache": True}
    cache.fetch.side_effect = OSError
    for fails in (None, OSError):
        cache.list.side_effect = fails
        found = salt.utils.resources.bare_resource_ids_in_minion_data_cache(
            opts, ["disk1", "nobody"], cache=cache
        )
        assert found == set()


def test_nothing_is_read_without_the_option(cache):
    found = salt.utils.resources.bare_resource_ids_in_minion_data_cache(
        {"minion_data_cache": False}, ["disk1"], cache=cache
    )
    assert found == set()
    cache.list.assert_not_called()
