import os

import pytest
import saltext.package_states.master.document as document
import saltext.package_states.master.sets as sets
from saltext.package_states.errors import InvalidInput

import salt.utils.atomicfile


def full(*_):
    """
    Fail as a full disk does
    """
    raise OSError(28, "No space left on device")


def test_what_a_file_had_stays_if_it_can_not_be_written(tmp_path, monkeypatch):
    path = tmp_path / "set.yaml"
    path.write_text("old")
    monkeypatch.setattr(salt.utils.atomicfile, "atomic_rename", full)
    with pytest.raises(InvalidInput, match="No space left on device; give the path"):
        sets.write(str(path), "new")
    with pytest.raises(InvalidInput, match="it is not what can be opened"):
        sets.write(str(path), "\ud800")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["set.yaml"]


def test_what_can_not_be_written_is_told(tmp_path):
    for path in (tmp_path, tmp_path / "no" / "file", "/dev/full"):
        with pytest.raises(InvalidInput, match="can't be written: .*; give the path"):
            sets.write(str(path), "new")


def test_a_file_keeps_its_permissions_and_a_link_its_target(tmp_path):
    path, link = tmp_path / "set.yaml", tmp_path / "link"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    sets.write(str(link), "é")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == ("é".encode(), 0o640)
    assert link.is_symlink()
    assert sets.read(str(link)) == "é"


def test_a_pipe_is_written_and_a_device_has_an_end(tmp_path):
    end, begin = os.pipe()
    sets.write(f"/dev/fd/{begin}", "text")
    os.close(begin)
    assert os.read(end, 10) == b"text"
    os.close(end)
    text = sets.read("/dev/zero")
    with pytest.raises(InvalidInput, match="at most 16 MiB"):
        document.from_yaml(text)
