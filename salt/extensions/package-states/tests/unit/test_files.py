import os

import pytest
import saltext.package_states.compile.files as files
import saltext.package_states.compile.sls as sls
from saltext.package_states.errors import PackageStateError

import salt.utils.atomicfile


def test_a_disk_that_is_full_leaves_nothing_behind(tmp_path, monkeypatch):
    root = str(tmp_path)
    assert files.write(root, "web", "old") is True

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(salt.utils.atomicfile, "atomic_rename", full)
    with pytest.raises(PackageStateError, match="there is room, then run"):
        files.write(root, "web", "new")
    assert files.read(root, "web") == "old"
    assert os.listdir(tmp_path / files.FOLDER) == ["packages-web.sls"]


def test_what_is_no_text_is_another_one(tmp_path):
    root = str(tmp_path)
    files.write(root, "web", "text")
    assert files.read(root, "web") == "text"
    (tmp_path / files.FOLDER / "packages-web.sls").write_bytes(b"\xff")
    assert files.read(root, "web") != "text"
    assert files.read(root, "web") != ""
    (tmp_path / files.FOLDER / "packages-db.sls").mkdir()
    assert files.read(root, "db") == ""
    with pytest.raises(PackageStateError, match="Is a directory"):
        files.write(root, "db", "text")


def test_a_state_with_a_dot_can_be_applied_by_name(tmp_path):
    """
    Salt takes a dot in the name of a file for a folder
    """
    root, name = str(tmp_path), files.alone("web.prod-1")
    files.write(root, name, f"# {sls.MADE}\n")
    files.write(root, "web1.example.com", f"# {sls.MADE}\n")
    assert (tmp_path / files.FOLDER / "state-web+prod-1.sls").exists()
    assert files.names_of(root) == [name, "web1.example.com"]
    # as it was called before
    old = tmp_path / files.FOLDER / "state-old.name.sls"
    old.write_text(f"# {sls.MADE}\n")
    assert files.alone("old.name") not in files.names_of(root)
    assert files.remove(root, name) and files.read(root, name) == ""
