import os

import pytest
import saltext.package_states.files as files
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
    assert not files.differs(root, "web", "text")
    (tmp_path / files.FOLDER / "packages-web.sls").write_bytes(b"\xff")
    assert files.differs(root, "web", "text")
    assert files.read(root, "web") != ""
    (tmp_path / files.FOLDER / "packages-db.sls").mkdir()
    assert files.differs(root, "db", "text")
    with pytest.raises(PackageStateError, match="Is a directory"):
        files.read(root, "db")
