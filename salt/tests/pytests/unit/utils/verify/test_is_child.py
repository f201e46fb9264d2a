"""
Test that the short way of valid_id and clean_join says what clean_path says
"""

import itertools
import os

import pytest

import salt.exceptions
import salt.utils.verify
from tests.support.mock import patch

pytestmark = [pytest.mark.skip_on_windows(reason="Symbolic links and slashes")]

NAMES = (
    "minion",
    "minions",
    "a.b-c_d",
    ".hidden",
    "",
    ".",
    "..",
    "...",
    "a/b",
    "a/../b",
    "../pki",
    "../pki/minion",
    "../outside",
    "/",
    "/etc/passwd",
    "link-out",
    "link-in",
    "link-dir",
    "link-nowhere",
    "link-loop",
    "file",
    "x" * 300,
    "ü",
    "with space",
    "a\\b",
    "new\nline",
)


@pytest.fixture
def pki(tmp_path):
    pki = tmp_path / "pki"
    (pki / "minions").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (pki / "file").touch()
    (pki / "link-out").symlink_to(tmp_path / "outside")
    (pki / "link-in").symlink_to(pki / "file")
    (pki / "link-dir").symlink_to(pki / "minions")
    (pki / "link-nowhere").symlink_to(tmp_path / "nowhere")
    (pki / "link-loop").symlink_to(pki / "link-loop")
    (tmp_path / "pki-link").symlink_to(pki)
    return pki


def _roots(pki):
    return [
        str(pki),
        f"{pki}/",
        f"{pki}/./minions/..",
        str(pki.parent / "pki-link"),
        str(pki.parent / "pki-link" / "minions"),
        str(pki.parent / "missing"),
        os.path.relpath(pki),
        "/",
    ]


def _outcome(func, *args):
    try:
        return func(*args)
    except Exception as exc:  # pylint: disable=broad-except
        return type(exc)


def _slowly(func, *args):
    with patch("salt.utils.verify._is_child", return_value=False):
        return _outcome(func, *args)


def test_valid_id_is_what_it_was(pki):
    """
    With the short way and without it the answer is the same
    """
    ids = (*NAMES, "nul\0", b"minion", None, 1, [], {}, ["minion"])
    for root, id_ in itertools.product(_roots(pki), ids):
        for opts in ({"pki_dir": root}, {"pki_dir": root, "cluster_id": "x"}, {}):
            found = _outcome(salt.utils.verify.valid_id, opts, id_)
            assert found == _slowly(salt.utils.verify.valid_id, opts, id_), (root, id_)


def test_clean_join_is_what_it_was(pki):
    for root, first, second in itertools.product(_roots(pki), NAMES, NAMES):
        found = _outcome(salt.utils.verify.clean_join, root, first, second)
        wanted = _slowly(salt.utils.verify.clean_join, root, first, second)
        assert found == wanted, (root, first, second)


def test_a_link_is_followed(pki):
    opts = {"pki_dir": str(pki)}
    assert not salt.utils.verify.valid_id(opts, "link-out")
    with pytest.raises(salt.exceptions.SaltValidationError):
        salt.utils.verify.clean_join(str(pki), "link-out")
    assert salt.utils.verify.valid_id(opts, "link-in")


def test_one_look_for_one_id(pki):
    """
    An ordinary id takes one lstat, not one for each component of two paths
    """
    with patch("os.lstat", wraps=os.lstat) as lstat:
        assert salt.utils.verify.valid_id({"pki_dir": str(pki)}, "minion")
    assert lstat.call_count == 1
    with patch("os.lstat", wraps=os.lstat) as lstat:
        salt.utils.verify.clean_join(str(pki), "minions", "minion")
    assert lstat.call_count == 2
