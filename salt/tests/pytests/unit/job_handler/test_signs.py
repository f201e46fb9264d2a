"""
The files that say that the job handler is alive, and that somebody waits for it in vain.
"""

import os
import stat

import pytest

import salt.job_handler.ipc


def _alive(opts):
    salt.job_handler.ipc.alive(opts)


def _hangs(opts):
    _alive(opts)
    salt.job_handler.ipc._waited(opts, -1)  # pylint: disable=protected-access


@pytest.fixture(params=[("alive", _alive), ("hangs", _hangs)], ids=["alive", "hangs"])
def sign(request, tmp_path):
    """
    A file, and what makes it.
    """
    kind, make = request.param
    return tmp_path / f"job_handler.{kind}", lambda: make({"sock_dir": str(tmp_path)})


def test_a_sign_is_for_its_user_alone(sign):
    """
    Also where it was there before.
    """
    path, make = sign
    make()
    assert stat.S_IMODE(path.lstat().st_mode) == 0o600
    path.chmod(0o666)
    os.utime(path, (1, 1))
    make()
    assert stat.S_IMODE(path.lstat().st_mode) == 0o600
    assert path.stat().st_mtime > 1


@pytest.mark.parametrize("there", (True, False))
def test_a_sign_is_no_link(sign, tmp_path, there):
    """
    What a link leads to is neither made nor touched nor emptied.
    """
    path, make = sign
    victim = tmp_path / "victim"
    if there:
        victim.write_text("x")
        victim.chmod(0o644)
        os.utime(victim, (1, 1))
    path.symlink_to(victim)
    make()
    assert not path.is_symlink()
    assert victim.exists() == there
    if there:
        found = victim.stat()
        assert (found.st_mtime, stat.S_IMODE(found.st_mode)) == (1, 0o644)
        assert victim.read_text() == "x"


def test_a_link_is_no_sign(tmp_path):
    """
    Nobody goes without an answer because a link leads to what is new.
    """
    opts = {"sock_dir": str(tmp_path)}
    (tmp_path / "new").touch()
    (tmp_path / "job_handler.hangs").symlink_to(tmp_path / "new")
    os.utime(tmp_path / "job_handler.hangs", (1, 1), follow_symlinks=False)
    _alive(opts)
    os.utime(tmp_path / "new", (2**31, 2**31))
    assert not salt.job_handler.ipc._hangs(opts)  # pylint: disable=protected-access
