"""
Unit tests for reading returns that a crashed machine has left
"""

import itertools
import logging
import pathlib

import pytest

import salt.returners.local_cache as local_cache
import salt.utils.files
import salt.utils.jid
from tests.support.mock import patch

JID = "20160603132323715452"


@pytest.fixture
def opts(tmp_path):
    return {
        "cachedir": str(tmp_path),
        "hash_type": "sha256",
        "pki_dir": str(tmp_path / "pki"),
        "keep_jobs_seconds": 86400,
        "master_job_cache": "local_cache",
        "job_cache": True,
    }


@pytest.fixture
def configure_loader_modules(opts):
    return {local_cache: {"__opts__": opts}}


@pytest.fixture
def jid_dir(tmp_path):
    return pathlib.Path(salt.utils.jid.jid_dir(JID, str(tmp_path / "jobs"), "sha256"))


def _returned(minion, **load):
    local_cache.returner({"id": minion, "jid": JID, "return": True, **load})


@pytest.mark.parametrize("content", [b"", b"\x81", b"\x00" * 20])
def test_a_return_that_the_disk_lost_is_left_out(jid_dir, caplog, content):
    """
    It hides no other, and keeps nobody waiting
    """
    local_cache.prep_jid(passed_jid=JID)
    for minion in ("first", "second", "third"):
        _returned(minion, retcode=0)
    lost = jid_dir / "second" / local_cache.RETURN_P
    lost.write_bytes(content)
    fopen, opened = salt.utils.files.fopen, itertools.count(1)

    def limited(*args, **kwargs):
        if next(opened) > 100:
            pytest.fail("A return that is lost is read again and again")
        return fopen(*args, **kwargs)

    with caplog.at_level(logging.ERROR), patch("salt.utils.files.fopen", limited):
        found = local_cache.get_jid(JID)
    kept = {"return": True, "retcode": 0}
    assert found == {"first": kept, "third": kept}
    assert str(lost) in caplog.text


def test_a_return_that_is_written_again_meanwhile_is_read(jid_dir):
    local_cache.prep_jid(passed_jid=JID)
    _returned("minion")
    path = jid_dir / "minion" / local_cache.RETURN_P
    whole = path.read_bytes()
    path.write_bytes(b"")

    def sleep(_seconds):
        path.write_bytes(whole)

    with patch("time.sleep", sleep):
        assert local_cache.get_jid(JID) == {"minion": {"return": True}}
