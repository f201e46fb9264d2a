"""
Tests of the stamps of files and directories
"""

import os
import time

import pytest

import salt.utils.stamps


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "file"
    path.write_text("a")
    return path


def _taken(*paths):
    return {str(path): salt.utils.stamps.stamp(str(path)) for path in paths}


def test_nothing_has_changed(path, tmp_path):
    assert salt.utils.stamps.unchanged(_taken(path, tmp_path, tmp_path / "none"))


def test_a_file_is_written(path):
    stamps = _taken(path)
    path.write_text("ab")
    assert not salt.utils.stamps.unchanged(stamps)


def test_a_file_is_written_and_its_time_set_back(path):
    before = os.stat(str(path))
    stamps = _taken(path)
    # the clock that stamps files may be slow
    while os.stat(str(path)).st_ctime_ns == before.st_ctime_ns:
        path.write_text("b")
        os.utime(str(path), ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not salt.utils.stamps.unchanged(stamps)


def test_a_name_comes_into_a_directory(tmp_path):
    stamps = _taken(tmp_path, tmp_path / "new")
    (tmp_path / "new").mkdir()
    assert not salt.utils.stamps.unchanged(stamps)


def test_a_file_goes(path):
    stamps = _taken(path)
    path.unlink()
    assert salt.utils.stamps.stamp(str(path)) is None
    assert not salt.utils.stamps.unchanged(stamps)


def test_stamps_of_a_moment_ago_are_not_trusted(path, tmp_path):
    stamps = _taken(path, tmp_path / "none")
    now = time.time_ns()
    assert not salt.utils.stamps.settled(stamps, now)
    later = now + salt.utils.stamps.SETTLED_NS + 10**9
    assert salt.utils.stamps.settled(stamps, later)
