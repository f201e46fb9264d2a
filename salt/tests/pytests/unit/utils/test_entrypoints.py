"""
Tests of salt.utils.entrypoints
"""

import sys
import time

import pytest

import salt.utils.entrypoints
from tests.support.mock import patch

GROUP = "salt.loader"


@pytest.fixture
def site(tmp_path, monkeypatch):
    """
    A place of ``sys.path`` with one distribution
    """
    path = tmp_path / "site"
    path.mkdir()
    _install(path, "first")
    monkeypatch.setattr(sys, "path", [str(path), *sys.path])
    return path


@pytest.fixture(autouse=True)
def later():
    """
    Let the clock be ahead of all that the tests write
    """
    now = time.time_ns() + 60 * 10**9
    with patch("salt.utils.entrypoints._known", None), patch(
        "salt.utils.entrypoints.time.time_ns", return_value=now
    ):
        yield


def _install(path, name, target="somewhere"):
    info = path / f"{name}-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {target}\n")
    return info


def _found():
    """
    Return what is found when the half second of the listing is over
    """
    salt.utils.entrypoints.iter_entry_points.__wrapped__.cache_clear()
    listing = salt.utils.entrypoints.iter_entry_points(GROUP)
    return {each.name: each.value for each in listing}


def _reads(function):
    with patch.object(
        salt.utils.entrypoints.importlib_metadata,
        "entry_points",
        wraps=salt.utils.entrypoints.importlib_metadata.entry_points,
    ) as read:
        function()
    return read.call_count


def test_distributions_are_read_once(site):
    assert _found()["first"] == "somewhere"
    assert _reads(_found) == 0
    assert _found()["first"] == "somewhere"


def test_a_name_is_looked_for(site):
    assert _found()
    for _ in range(2):
        found = salt.utils.entrypoints.iter_entry_points(GROUP, name="first")
        assert [each.name for each in found] == ["first"]
        assert salt.utils.entrypoints.iter_entry_points(GROUP, name="nobody") == []


def test_what_is_installed_is_found(site):
    assert "second" not in _found()
    _install(site, "second")
    assert _found()["second"] == "somewhere"


def test_what_is_removed_is_gone(site):
    info = _install(site, "second")
    assert "second" in _found()
    for path in info.iterdir():
        path.unlink()
    info.rmdir()
    assert "second" not in _found()


def test_what_is_written_anew_is_found(site):
    """
    A development install writes its file in place, which its directories don't show
    """
    assert _found()["first"] == "somewhere"
    _install(site, "first", target="elsewhere")
    assert _found()["first"] == "elsewhere"


def test_entry_points_that_come_later_are_found(site):
    info = _install(site, "second")
    (info / "entry_points.txt").unlink()
    assert "second" not in _found()
    _install(site, "second")
    assert "second" in _found()


def test_an_egg_info_that_changes_is_noticed(site):
    info = site / "third.egg-info"
    info.mkdir()
    (info / "PKG-INFO").write_text("Metadata-Version: 1.0\nName: third\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\nthird = one\n")
    assert _found()["third"] == "one"
    (info / "entry_points.txt").write_text(f"[{GROUP}]\nthird = other\n")
    assert _found()["third"] == "other"


def test_another_path_is_looked_into(site, tmp_path, monkeypatch):
    assert "second" not in _found()
    other = tmp_path / "other"
    other.mkdir()
    _install(other, "second")
    monkeypatch.setattr(sys, "path", [str(other), *sys.path])
    assert "second" in _found()
    monkeypatch.setattr(sys, "path", [str(site)])
    assert _found() == {"first": "somewhere"}


def test_the_current_directory_is_looked_into(site, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", ["", str(site)])
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        _install(tmp_path / name, name)
    monkeypatch.chdir(tmp_path / "here")
    assert set(_found()) == {"here", "first"}
    monkeypatch.chdir(tmp_path / "there")
    assert set(_found()) == {"there", "first"}


def test_what_changed_a_moment_ago_is_read_again(site):
    """
    A second change within the same tick of the file system's clock has the same stamp
    """
    now = time.time_ns()
    with patch("salt.utils.stamps.stamp", return_value=(1, 2, 3, now, now)):
        assert _found()["first"] == "somewhere"
        _install(site, "first", target="elsewhere")
        assert _found()["first"] == "elsewhere"


def test_other_finders_are_asked_each_time(site, monkeypatch):
    """
    What a finder of somebody else finds has no stamp
    """

    class Finder:
        @staticmethod
        def find_distributions(context):
            return ()

        @staticmethod
        def find_spec(name, path=None, target=None):
            return None

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    assert _found()["first"] == "somewhere"
    assert _reads(_found) == 1
