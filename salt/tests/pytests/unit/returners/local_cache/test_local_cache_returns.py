"""
Unit tests for what one return does in the default job cache (local_cache).
"""

import logging
import os
import pathlib
import stat
import time

import pytest

import salt.payload
import salt.returners.local_cache as local_cache
import salt.utils.files
import salt.utils.jid
import salt.utils.job
from tests.support.mock import MagicMock, patch

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


@pytest.fixture
def load():
    return {
        "id": "minion",
        "jid": JID,
        "fun": "test.ping",
        "return": True,
        "retcode": 0,
        "success": True,
    }


def _tree(path):
    return sorted(
        os.path.relpath(os.path.join(root, name), path)
        for root, dirs, files in os.walk(path)
        for name in dirs + files
    )


def test_prep_jid_leaves_a_known_job_alone(jid_dir):
    """
    The file of a job that is known is not written again for every return
    """
    assert local_cache.prep_jid(passed_jid=JID) == JID
    with patch("salt.utils.files.fopen", MagicMock(side_effect=AssertionError)):
        assert local_cache.prep_jid(passed_jid=JID) == JID
    assert (jid_dir / "jid").read_text() == JID


def test_prep_jid_keeps_a_job_young(jid_dir):
    """
    A job that gets returns does not become old for clean_old_jobs
    """
    local_cache.prep_jid(passed_jid=JID)
    os.utime(jid_dir / "jid", (1, 1))
    local_cache.prep_jid(passed_jid=JID)
    assert time.time() - os.stat(jid_dir / "jid").st_mtime < 60


def test_prep_jid_notices_that_a_job_was_cleaned(jid_dir):
    """
    A directory that clean_old_jobs has removed is made again, every time
    """
    local_cache.prep_jid(passed_jid=JID)
    os.utime(jid_dir / "jid", (1, 1))
    local_cache.clean_old_jobs()
    assert not jid_dir.exists()
    local_cache.prep_jid(passed_jid=JID)
    assert (jid_dir / "jid").read_text() == JID


@pytest.mark.parametrize("content", ["", "2016"])
def test_prep_jid_completes_a_jid_file(jid_dir, content):
    """
    A file that was not written completely is written again
    """
    local_cache.prep_jid(passed_jid=JID)
    (jid_dir / "jid").write_text(content)
    local_cache.prep_jid(passed_jid=JID)
    assert (jid_dir / "jid").read_text() == JID


def test_prep_jid_nocache(jid_dir):
    """
    A known job that is not to be cached is still marked
    """
    local_cache.prep_jid(passed_jid=JID)
    local_cache.prep_jid(passed_jid=JID, nocache=True)
    assert (jid_dir / "nocache").exists()


def test_has_load():
    assert local_cache.has_load(JID) is False
    local_cache.prep_jid(passed_jid=JID)
    assert local_cache.has_load(JID) is False
    local_cache.save_load(JID, {"jid": JID, "tgt": ""}, minions=["minion"])
    with patch.object(local_cache, "get_load", side_effect=AssertionError):
        assert local_cache.has_load(JID) is True


@pytest.mark.parametrize("empty", [{}, None])
def test_has_load_of_an_empty_load(jid_dir, empty):
    """
    Where the load itself is empty, the two say the same
    """
    local_cache.save_minions(JID, [])
    (jid_dir / local_cache.LOAD_P).write_bytes(salt.payload.dumps(empty))
    assert local_cache.has_load(JID) is bool(local_cache.get_load(JID)) is False
    local_cache.save_minions(JID, ["minion"])
    assert local_cache.has_load(JID) is bool(local_cache.get_load(JID)) is True


def test_has_load_of_an_unwritten_load(jid_dir):
    """
    A load without content is as fatal as it is to get_load
    """
    jid_dir.mkdir(parents=True)
    (jid_dir / local_cache.LOAD_P).touch()
    with patch("time.sleep"), pytest.raises(Exception):
        local_cache.has_load(JID)


def test_has_load_without_a_list_of_minions():
    """
    A scheduled job has none, and its second return is not lost for that
    """
    local_cache.save_load(JID, {"jid": JID, "fun": "test.ping"})
    assert local_cache.has_load(JID) is True


def test_store_job_does_not_read_the_load(opts, load):
    """
    The load comes with the list of all minions: a job must not read it for
    every one of them
    """
    names = ("prep_jid", "save_load", "get_load", "has_load", "returner")
    mminion = MagicMock()
    mminion.returners = {f"local_cache.{name}": MagicMock() for name in names}
    salt.utils.job.store_job(opts, load, mminion=mminion)
    mminion.returners["local_cache.get_load"].assert_not_called()
    mminion.returners["local_cache.save_load"].assert_not_called()
    mminion.returners["local_cache.returner"].assert_called_once_with(load)


@pytest.mark.parametrize("known", [True, False])
def test_store_job_with_a_local_cache_of_ones_own(opts, load, known):
    """
    A local_cache from the extension modules may have no has_load
    """
    names = ("prep_jid", "save_load", "get_load", "returner")
    mminion = MagicMock()
    mminion.returners = {f"local_cache.{name}": MagicMock() for name in names}
    mminion.returners["local_cache.get_load"].return_value = (
        {"jid": JID} if known else {}
    )
    salt.utils.job.store_job(opts, load, mminion=mminion)
    assert mminion.returners["local_cache.save_load"].called is not known


@pytest.mark.parametrize("wanted", [True, False])
def test_store_job_endtime(opts, load, wanted):
    names = ("prep_jid", "save_load", "get_load", "returner", "update_endtime")
    mminion = MagicMock()
    mminion.returners = {f"local_cache.{name}": MagicMock() for name in names}
    opts["job_cache_store_endtime"] = wanted
    salt.utils.job.store_job(opts, load, mminion=mminion)
    calls = mminion.returners["local_cache.update_endtime"].call_args_list
    assert [call[0][0] for call in calls] == ([JID] if wanted else [])
    assert all(call[0][1] for call in calls)


def test_returner_files(jid_dir, load):
    """
    The names, contents and modes of the files
    """
    local_cache.prep_jid(passed_jid=JID)
    old = os.umask(0o027)
    try:
        local_cache.returner({**load, "out": "nested"})
    finally:
        os.umask(old)
    assert _tree(jid_dir) == ["jid", "minion", "minion/out.p", "minion/return.p"]
    assert stat.S_IMODE((jid_dir / "minion").stat().st_mode) == 0o750
    for name in ("return.p", "out.p"):
        assert stat.S_IMODE((jid_dir / "minion" / name).stat().st_mode) == 0o640
    assert local_cache.get_jid(JID) == {
        "minion": {"return": True, "retcode": 0, "success": True, "out": "nested"}
    }


def test_returner_shows_all_or_nothing(jid_dir, load):
    """
    What is read while a return is being written has both files or none, and
    they are on the disk by then
    """
    seen, order = [], []
    rename, fsync = os.rename, os.fsync

    def looking(src, dst):
        seen.append(local_cache.get_jid(JID))
        order.append("rename")
        rename(src, dst)

    def syncing(number):
        order.append("fsync")
        fsync(number)

    local_cache.prep_jid(passed_jid=JID)
    with patch("os.rename", looking), patch("os.fsync", syncing):
        local_cache.returner({**load, "out": "nested"})
    assert seen == [{}]
    assert order == ["fsync", "fsync", "rename"]
    assert local_cache.get_jid(JID)["minion"]["out"] == "nested"


def test_returner_completes_what_a_killed_worker_began(jid_dir, load, caplog):
    """
    A worker that died after it had made the directory has cached nothing: the
    next try of the minion is no duplicate
    """
    local_cache.prep_jid(passed_jid=JID)
    (jid_dir / "minion").mkdir()
    with caplog.at_level(logging.DEBUG):
        local_cache.returner(load)
    assert local_cache.get_jid(JID)["minion"]["return"] is True
    assert "Duplicate" not in caplog.text


def test_returner_after_a_failed_write(jid_dir, load):
    """
    A disk that was full leaves nothing behind, and the next try is cached
    """
    local_cache.prep_jid(passed_jid=JID)
    with patch("os.fsync", side_effect=OSError(28, "No space left on device")):
        with pytest.raises(OSError):
            local_cache.returner(load)
    assert _tree(jid_dir) == ["jid"]
    local_cache.returner(load)
    assert local_cache.get_jid(JID)["minion"]["return"] is True


def test_returner_of_a_cleaned_job(jid_dir, load):
    """
    clean_old_jobs between prep_jid and returner
    """
    local_cache.returner(load)
    assert local_cache.get_jid(JID)["minion"]["return"] is True


@pytest.mark.parametrize("second", [True, False])
def test_returner_duplicate_in_a_race(jid_dir, load, caplog, second):
    """
    Of two workers with the return of one minion the first wins; the other
    compares, as with any duplicate
    """
    local_cache.prep_jid(passed_jid=JID)
    rename = os.rename

    def late(src, dst):
        with patch("os.rename", rename):
            local_cache.returner(load)
        rename(src, dst)

    with patch("os.rename", late), caplog.at_level(logging.DEBUG):
        assert local_cache.returner({**load, "return": second}) is False
    assert local_cache.get_jid(JID)["minion"]["return"] is True
    assert _tree(jid_dir) == ["jid", "minion", "minion/return.p"]
    wanted = "payload matches" if second else "*differing* payload"
    assert wanted in caplog.text


@pytest.mark.parametrize("name", ["jid", ".load.p"])
def test_returner_minion_named_like_a_file(jid_dir, load, name, caplog):
    """
    A minion whose name is that of a file of the job is refused as a duplicate
    """
    local_cache.save_load(JID, {"jid": JID})
    local_cache.prep_jid(passed_jid=JID)
    assert local_cache.returner({**load, "id": name}) is False
    assert "could not be read for comparison" in caplog.text
    assert (jid_dir / name).is_file()


def test_returner_nocache(jid_dir, load):
    local_cache.prep_jid(passed_jid=JID, nocache=True)
    local_cache.returner(load)
    assert _tree(jid_dir) == ["jid", "nocache"]
