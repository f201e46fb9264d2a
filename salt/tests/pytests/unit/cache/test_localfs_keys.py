"""
A key stays below the folder of its bank, whoever has chosen it
"""

import pytest

import salt.cache
import salt.utils.files
from salt.exceptions import SaltCacheError


@pytest.fixture
def cache(master_opts, tmp_path):
    """
    A cache in a folder of its own, with the grains of a minion
    """
    master_opts["cachedir"] = str(tmp_path / "cache")
    made = salt.cache.Cache(master_opts, driver="localfs")
    made.store("grains", "web1", {"os": "Debian"})
    return made


OUTSIDE = [
    "../grains/web1",
    "x/../../grains/web1",
    "kind:x/../../grains/web1",
    "../../cache/grains/web1",
]


@pytest.mark.parametrize("key", OUTSIDE)
def test_a_key_names_no_other_bank(cache, key):
    for act in (
        lambda: cache.store("tokens", key, {"os": "made up"}),
        lambda: cache.fetch("tokens", key),
        lambda: cache.updated("tokens", key),
        lambda: cache.contains("tokens", key),
        lambda: cache.flush("tokens", key),
    ):
        with pytest.raises(SaltCacheError):
            act()
    assert cache.fetch("grains", "web1") == {"os": "Debian"}


@pytest.mark.parametrize("env", ["x/../web2", "x/../../tokens/ab"])
def test_an_environment_of_a_pillar_names_no_other_minion(cache, env):
    with pytest.raises(SaltCacheError):
        cache.store("pillar", f"web1:{env}", {})


@pytest.mark.parametrize("key", ["web1:dev", "web1:feature/x", "a..b", "ssh:web-01"])
def test_other_keys_are_as_before(cache, key):
    cache.store("pillar", key, {"a": 1})
    assert cache.fetch("pillar", key) == {"a": 1}
    assert cache.flush("pillar", key)
    assert cache.fetch("pillar", key) == {}
