"""
Test that the listings of localfs_key hold what can be a key, and resolve each
directory once rather than each file
"""

import os

import pytest

import salt.cache
import salt.utils.verify
from tests.support.mock import patch

pytestmark = [pytest.mark.skip_on_windows(reason="Symbolic links")]

STATES = {
    "minions": "accepted",
    "minions_pre": "pending",
    "minions_rejected": "rejected",
}


@pytest.fixture
def opts(master_opts, tmp_path):
    opts = master_opts.copy()
    opts["pki_dir"] = str(tmp_path / "pki")
    return opts


@pytest.fixture
def pki(tmp_path):
    """
    A pki directory with whatever may be in one, and keys of all states
    """
    pki = tmp_path / "pki"
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    for directory in [*STATES, "minions_denied"]:
        (pki / directory).mkdir(parents=True)
        for name in (
            "web1",
            "Web1",
            "a.b-c_d",
            ".hidden",
            ".key_cache",
            "a\\b",
            "with space",
            "new\nline",
            "ü",
            "minions",
            "master.pem",
            "link-out",
            "link-in",
            "link-beside",
            "only-" + directory,
        ):
            (pki / directory / name).write_text(directory)
        (pki / directory / "directory").mkdir()
        (pki / directory / "to-outside").symlink_to(outside / "secret")
        (pki / directory / "to-nowhere").symlink_to(pki / "nowhere")
        (pki / directory / "to-web1").symlink_to(pki / "minions" / "web1")
    (pki / "master.pem").write_text("pem")
    (pki / "link-out").symlink_to(outside)
    (pki / "link-in").symlink_to(pki / "minions" / "web1")
    (pki / "link-beside").symlink_to(pki / "master.pem")
    (pki / "linked.pem").symlink_to(outside / "secret")
    return pki


def _expected(opts, directory):
    """
    Return the names of a directory's keys, each of them checked by itself
    """
    pki = opts["pki_dir"]
    found = []
    for name in os.listdir(os.path.join(pki, directory)):
        path = os.path.join(pki, directory, name)
        if (
            os.path.isfile(path)
            and not os.path.islink(path)
            and salt.utils.verify.clean_path(pki, path, subdir=True)
            and (not directory or salt.utils.verify.valid_id(opts, name))
        ):
            found.append(name)
    return [name for name in found if name != ".key_cache"]


def _compare(opts):
    cache = salt.cache.Cache(opts, driver="localfs_key")
    expected = {name: _expected(opts, name) for name in [*STATES, "minions_denied"]}
    assert cache.list("keys") == [
        name
        for directory in ("minions_pre", "minions_rejected", "minions")
        for name in expected[directory]
    ]
    assert cache.list("denied_keys") == expected["minions_denied"]
    assert cache.list("master_keys") == _expected(opts, "")
    states = {}
    for directory, state in STATES.items():
        for name in expected[directory]:
            if not name.startswith("."):
                states[name] = {"state": state}
    assert cache.list_all("keys") == states
    assert list(cache.list_all("denied_keys")) == expected["minions_denied"]
    return expected, states


def test_all_that_may_be_a_key_is_listed(opts, pki):
    expected, states = _compare(opts)
    # the comparison compares something
    assert states["web1"] == {"state": "rejected"}
    assert states["only-minions"] == {"state": "accepted"}
    assert states["only-minions_pre"] == {"state": "pending"}
    # valid_id takes names for what the pki directory has of that name
    assert states["link-beside"] == {"state": "rejected"}
    for name in (
        "link-out",
        "link-in",
        "to-outside",
        "to-web1",
        "to-nowhere",
        "directory",
    ):
        assert name not in states
    assert "a\\b" not in states
    assert ".hidden" in expected["minions"]
    assert ".hidden" not in states


def test_keys_with_data(opts, pki):
    cache = salt.cache.Cache(opts, driver="localfs_key")
    keys = cache.list_all("keys", include_data=True)
    assert keys["only-minions"] == {"state": "accepted", "pub": "minions"}
    assert "to-outside" not in keys
    assert "secret" not in str(keys)


@pytest.mark.parametrize("bank", ("minions", "minions_denied"))
def test_a_directory_that_is_a_link_out_of_the_pki_directory(opts, pki, tmp_path, bank):
    (pki / bank).rename(tmp_path / "elsewhere")
    (pki / bank).symlink_to(tmp_path / "elsewhere")
    expected, states = _compare(opts)
    assert not expected[bank]
    assert "only-" + bank not in states


def test_a_directory_that_is_a_link_within_the_pki_directory(opts, pki):
    (pki / "minions").rename(pki / "elsewhere")
    (pki / "minions").symlink_to(pki / "elsewhere")
    _, states = _compare(opts)
    assert states["only-minions"] == {"state": "accepted"}


def test_a_pki_directory_that_is_a_link(opts, pki, tmp_path):
    (tmp_path / "link").symlink_to(pki)
    opts["pki_dir"] = str(tmp_path / "link")
    _, states = _compare(opts)
    assert states["only-minions"] == {"state": "accepted"}


def test_directories_that_are_not_there(opts, tmp_path):
    cache = salt.cache.Cache(opts, driver="localfs_key")
    assert cache.list("keys") == []
    assert cache.list_all("keys") == {}
    assert cache.list("denied_keys") == []


def test_a_loop_of_links_hides_no_keys(opts, pki):
    for number in range(20):
        loop = pki / "minions" / f"loop{number}"
        loop.symlink_to(loop)
    _, states = _compare(opts)
    assert "only-minions" in states


@pytest.mark.parametrize("function", ("list", "list_all"))
@pytest.mark.parametrize("bank", ("keys", "denied_keys"))
def test_more_keys_resolve_no_more_paths(opts, tmp_path, function, bank):
    """
    Resolving a path takes an lstat for each of its components
    """
    cache = salt.cache.Cache(opts, driver="localfs_key")
    resolved = []
    for count in (10, 200):
        for name in [*STATES, "minions_denied"]:
            directory = tmp_path / "pki" / name
            directory.mkdir(parents=True, exist_ok=True)
            for number in range(count):
                (directory / f"{name}{number}").write_text("key")
        with patch(
            "salt.utils.verify._realpath", side_effect=os.path.realpath
        ) as realpath:
            found = getattr(cache, function)(bank)
        assert len(found) == count * (3 if bank == "keys" else 1)
        resolved.append(realpath.call_count)
    assert resolved[0] == resolved[1]
