"""
What fails says so: it does not look like missing data.
"""

import os
from unittest.mock import patch  # pylint: disable=blacklisted-module

import pytest
import saltext.query
from saltext.query.errors import QueryStoreError

import salt.utils.files
from salt.exceptions import SaltCacheError


def ask(master, what, fields, rule=None):
    return saltext.query.items(master.opts, what, fields, rule)


def test_a_cache_that_fails(master):
    """
    A driver's error is no missing grain.
    """
    master.opts["cache"] = "redis"
    master.key("web1")
    with patch("salt.cache.Cache") as cache:
        cache.return_value.fetch.side_effect = SaltCacheError("connection refused")
        cache.return_value.updated.side_effect = SaltCacheError("connection refused")
        for fields in (["os"], ["seen_ts"], ["grain.x"], ["vinst_cnt"]):
            with pytest.raises(QueryStoreError, match="redis .connection refused"):
                ask(master, "node", fields)
        with pytest.raises(QueryStoreError):
            ask(master, "os", ["name"])


def test_a_driver_that_is_not_there(master):
    master.opts["cache"] = "nope"
    master.key("web1")
    with pytest.raises(QueryStoreError, match="nope"):
        ask(master, "node", ["os"])


@pytest.mark.parametrize("master", [False], indirect=True)
def test_a_file_that_cannot_be_read(master):
    path = master.minion("web1", os="Debian")
    os.remove(path)
    os.mkdir(path)
    ret = ask(master, "node", ["os"])
    assert (ret["data"], ret["damaged"]) == ([[(2, None)]], 1)
    os.rmdir(path)
    os.mkfifo(path)
    assert ask(master, "node", ["os"])["damaged"] == 1


def test_keys_that_cannot_be_read(master):
    folder = os.path.join(master.opts["pki_dir"], "minions")
    os.makedirs(master.opts["pki_dir"])
    with salt.utils.files.fopen(folder, "w") as handle:
        handle.write("no folder")
    with pytest.raises(QueryStoreError, match="keys can't be read"):
        ask(master, "node", ["name"])


def test_a_document_that_is_damaged_is_told(master):
    """
    One document is no reason to refuse the others; that there is one is told.
    """
    master.minion("web1", os="Debian")
    with salt.utils.files.fopen(master.minion("web2"), "wb") as handle:
        handle.write(b"\xc1 broken")
    ret = ask(master, "node", ["os"])
    assert ret["data"] == [[(0, "Debian")], [(2, None)]]
    assert ret["damaged"] == 1
    assert "damaged" not in ask(master, "node", ["name"])


def test_a_wrong_master_job_cache(master):
    master.opts["master_job_cache"] = "nope"
    with (
        patch("salt.loader.minion_mods", return_value={}),
        patch("salt.loader.returners", return_value={}),
        pytest.raises(QueryStoreError, match="master_job_cache .* nope"),
    ):
        ask(master, "job", ["id"])


def test_a_job_store_that_fails(master):
    master.opts["master_job_cache"] = "pgjsonb"

    def fail(*_args):
        raise RuntimeError("could not connect to server")

    found = {"pgjsonb.get_jids": fail, "pgjsonb.get_load": fail}
    with (
        patch("salt.loader.minion_mods", return_value={}),
        patch("salt.loader.returners", return_value=found),
    ):
        for rule in (None, ["=", "id", "1"]):
            with pytest.raises(QueryStoreError, match="pgjsonb .could not connect"):
                ask(master, "job", ["id", "user"], rule)


@pytest.mark.parametrize("master", [False], indirect=True)
def test_a_local_job_cache_that_fails(master):
    folder = os.path.join(master.opts["cachedir"], "jobs", "ab", "cd")
    os.makedirs(os.path.join(folder, "jid"))
    ret = ask(master, "job", ["id"])
    assert (ret["data"], ret["damaged"]) == ([], 1)
