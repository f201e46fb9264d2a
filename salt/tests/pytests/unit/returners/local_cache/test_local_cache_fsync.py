"""
Unit tests for the option job_cache_fsync
"""

import os

import pytest

import salt.config
import salt.returners.local_cache as local_cache
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


def _returned(minion, **load):
    local_cache.returner({"id": minion, "jid": JID, "return": True, **load})


@pytest.mark.parametrize("setting, calls", [({}, 2), ({"job_cache_fsync": False}, 0)])
def test_a_return_is_on_the_disk_unless_the_kernel_may_wait(opts, setting, calls):
    local_cache.prep_jid(passed_jid=JID)
    opts.update(setting)
    with patch.object(os, "fsync") as fsync:
        _returned("minion", out="highstate")
    assert fsync.call_count == calls
    assert local_cache.get_jid(JID) == {"minion": {"return": True, "out": "highstate"}}


def test_the_default_waits_for_the_disk():
    assert salt.config.DEFAULT_MASTER_OPTS["job_cache_fsync"] is True
    assert salt.config.VALID_OPTS["job_cache_fsync"] is bool
