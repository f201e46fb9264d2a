"""
Test that a long list of names finds the keys that each name finds by itself
"""

import random

import pytest

import salt.cache
import salt.cache.mmap_key
import salt.exceptions
import salt.key
from tests.support.mock import patch

# the caches of mmap_key outlive their directory
# pylint: disable=protected-access

# localfs has no list_all, and that of mmap_cache says nothing of the states
DRIVERS = ("localfs_key", "mmap_key", "localfs", "mmap_cache")

KEYS = 60

# so often the names are named, which makes more than are looked up one by one
TIMES = 10


@pytest.fixture(params=DRIVERS)
def driver(request):
    return request.param


@pytest.fixture
def key(master_opts, tmp_path, driver):
    opts = master_opts.copy()
    opts["pki_dir"] = str(tmp_path / "pki")
    opts["cachedir"] = str(tmp_path / "cache")
    opts["keys.cache_driver"] = driver
    opts["mmap_key_size"] = opts["mmap_cache_size"] = 5000
    (tmp_path / "pki").mkdir()
    salt.cache.mmap_key._caches.clear()
    key = salt.key.Key(opts)
    for number in range(KEYS):
        _store(key, f"web{number:03}", "accepted")
    for number in range(5):
        _store(key, f"new{number}", "pending")
        _store(key, f"bad{number}", "rejected")
        _store(key, f"denied{number}", None)
    _store(key, "web003", None)
    _store(key, "new3", None)
    _store(key, "UPPER.example.com", "accepted")
    _store(key, ".hidden", "accepted")
    _store(key, "..two", "rejected")
    try:
        yield key
    finally:
        key.cache.destroy()
        salt.cache.mmap_key._caches.clear()


def _store(key, name, state):
    if state is None:
        key.cache.store("denied_keys", name, ["pub"])
    else:
        key.cache.store("keys", name, {"state": state, "pub": "pub"})


def _one_by_one(key, names):
    """
    Return what each name finds by itself
    """
    found = {}
    for name in names:
        entry = key.cache.fetch("keys", name)
        if entry:
            found.setdefault(key.STATE_MAP[entry["state"]], []).append(name)
        if key.cache.fetch("denied_keys", name):
            found.setdefault(key.DEN, []).append(name)
    return found


@pytest.fixture
def names():
    """
    Names of every kind, some more often than others, in no order
    """
    names = [f"web{number:03}" for number in range(KEYS)]
    names += ["web001", "web003", "new3", "bad1", "new0", "denied1", "denied1"]
    names += ["web003", "nobody", "upper.example.com", "UPPER.example.com"]
    names += [".hidden", "..two", "WEB001", "web001 ", "x" * 200]
    names *= TIMES
    random.Random(1).shuffle(names)
    return names


def test_many_names(key, names):
    expected = _one_by_one(key, names)
    assert set(expected) == {key.ACC, key.PEND, key.REJ, key.DEN}
    # each of them, web001 and web003 once more, web003 again, and two others
    assert len(expected[key.ACC]) == (KEYS + 5) * TIMES
    assert set(expected[key.DEN]) == {"web003", "new3", "denied1"}
    found = key.list_match(names)
    assert found == expected
    assert list(found) == list(expected)
    assert key.list_match(",".join(names)) == expected
    assert key.list_match(tuple(names)) == expected
    assert key.list_match(name for name in names) == expected


def test_few_names(key, names):
    assert key.list_match(names[:20]) == _one_by_one(key, names[:20])
    assert key.list_match("web001,nobody,bad1") == {
        key.ACC: ["web001"],
        key.REJ: ["bad1"],
    }
    assert key.list_match([]) == {}


@pytest.mark.parametrize("driver", ("localfs_key", "mmap_key"), indirect=True)
@pytest.mark.parametrize(
    "name",
    ("", "..", ".", "a/b", "../minions/web001", "a\\b", "a\0b", "/etc/passwd")
    + (None, 5, b"web001", ["web001"]),
)
def test_a_name_that_is_no_minion_id(key, names, name):
    for some in ([name], [*names, name], [name, *names]):
        with pytest.raises(salt.exceptions.SaltCacheError):
            key.list_match(some)


@pytest.mark.parametrize("driver", ("localfs_key",), indirect=True)
def test_the_file_of_cached_keys_is_no_key(key, names, tmp_path):
    (tmp_path / "pki" / "minions" / ".key_cache").write_text("keys")
    with pytest.raises(salt.exceptions.SaltCacheError, match="key_cache"):
        key.list_match([*names, ".key_cache"])


@pytest.mark.parametrize("driver", ("localfs_key",), indirect=True)
@pytest.mark.parametrize(
    "order",
    (
        ("minions", "minions_pre", "minions_rejected"),
        ("minions_rejected", "minions_pre", "minions"),
    ),
)
def test_a_name_in_several_states(key, names, tmp_path, order):
    """
    Rejected counts before pending, and pending before accepted
    """
    for name, states in (
        ("all", order),
        ("two", [state for state in order if state != "minions_rejected"]),
        ("ends", [state for state in order if state != "minions_pre"]),
    ):
        for state in [*states, "minions_denied"]:
            (tmp_path / "pki" / state).mkdir(exist_ok=True)
            (tmp_path / "pki" / state / name).write_text(state)
    names = ["two", *names, "all", "ends"]
    expected = _one_by_one(key, names)
    assert "all" in expected[key.REJ] and "ends" in expected[key.REJ]
    assert "two" in expected[key.PEND]
    assert key.list_match(names) == expected


@pytest.mark.skip_on_windows(reason="Symbolic links")
@pytest.mark.parametrize("driver", ("localfs_key",), indirect=True)
def test_a_link_is_no_key(key, names, tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("pub")
    (tmp_path / "pki" / "minions" / "link-in").symlink_to(
        tmp_path / "pki" / "minions" / "web001"
    )
    (tmp_path / "pki" / "minions" / "link-out").symlink_to(outside)
    assert key.list_match([*names, "link-in"]) == _one_by_one(key, names)
    with pytest.raises(salt.exceptions.SaltCacheError, match="not a valid key path"):
        key.list_match([*names, "link-out"])


@pytest.mark.skip_on_windows(reason="Symbolic links")
@pytest.mark.parametrize("driver", ("localfs_key",), indirect=True)
def test_a_directory_that_is_a_link_out_of_the_pki_directory(key, names, tmp_path):
    (tmp_path / "pki" / "minions").rename(tmp_path / "elsewhere")
    (tmp_path / "pki" / "minions").symlink_to(tmp_path / "elsewhere")
    for some in (names, ["web001"]):
        with pytest.raises(salt.exceptions.SaltCacheError, match="not a valid key"):
            key.list_match(some)


@pytest.mark.parametrize("driver", ("localfs_key", "mmap_key"), indirect=True)
def test_many_names_are_listed_once(key, names):
    listed = [f"web{number:03}" for number in range(KEYS)] * TIMES
    with patch.object(key.cache, "fetch", wraps=key.cache.fetch) as fetch, patch.object(
        key.cache, "list_all", wraps=key.cache.list_all
    ) as list_all:
        key.list_match([*listed, "nobody"])
    list_all.assert_called_once_with("keys")
    # that one has a denied key as well, and nobody is nowhere
    assert {args.args[1] for args in fetch.call_args_list} == {"web003", "nobody"}


def test_few_names_do_not_list_all_keys(key, names):
    with patch.object(key.cache, "list_all") as list_all, patch.object(
        key.cache, "list"
    ) as list_:
        key.list_match(names[:20])
    list_all.assert_not_called()
    list_.assert_not_called()


def test_keys_that_cannot_be_listed_are_fetched(key, names):
    expected = _one_by_one(key, names)
    error = salt.exceptions.SaltCacheError("no such list")
    for function in ("list", "list_all"):
        with patch.object(key.cache, function, side_effect=error):
            assert key.list_match(names) == expected


@pytest.mark.parametrize(
    "driver", ("localfs_key", "mmap_key", "localfs"), indirect=True
)
def test_list_keys(key):
    """
    ``localfs`` has no ``list_all``
    """
    keys = key.list_keys()
    assert len([name for name in keys[key.ACC] if name.startswith("web")]) == KEYS
    assert [name for name in keys[key.REJ] if name.startswith("bad")] == [
        f"bad{number}" for number in range(5)
    ]
    assert keys[key.PEND] == [f"new{number}" for number in range(5)]
    assert keys[key.DEN] == [*(f"denied{n}" for n in range(5)), "new3", "web003"]
