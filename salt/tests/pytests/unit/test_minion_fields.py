"""
Fields of a minion's request that are not what they have to be
"""

import logging

import pytest

import salt.master
from tests.support.mock import MagicMock, patch


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def aes_funcs(request, master_opts, tmp_path):
    """
    What handles requests of minions that have been authenticated
    """
    for name in ("pki", "cache", "sock"):
        (tmp_path / name).mkdir()
        master_opts[f"{name}_dir"] = str(tmp_path / name)
    master_opts["cachedir"] = str(tmp_path / "cache")
    master_opts["master_async_mworker"] = request.param
    master_opts["peer"] = {".*": ["test.ping"]}
    master_opts["peer_run"] = {".*": ["test.arg"]}
    # Its modules, and the grains that they need, are of no use here
    with patch("salt.minion.MasterMinion"):
        made = salt.master.AESFuncs(master_opts)
    # Nobody takes what is published
    made.masterapi.local = MagicMock()
    yield made
    made.destroy()


PUBLISH = {"fun": "test.ping", "arg": [], "tgt": "web9", "ret": ""}
ENV = {"path": "a.sls", "saltenv": "base", "loc": 0, "prefix": ""}

ODD = [
    ("_mine_get", {"tgt": 5, "fun": "x"}),
    ("_mine_get", {"tgt": [None], "fun": "x"}),
    ("_mine_get", {"tgt": "*", "fun": [[]]}),
    ("_mine_get", {"tgt": "*", "fun": "x", "tgt_type": None}),
    ("_mine_get", {"tgt": "*", "fun": "x", "tgt_type": "nosuch"}),
    ("_mine_get", {"tgt": "*", "fun": "x", "tgt_type": "pcre"}),
    ("_mine", {"data": None}),
    ("_mine", {"data": ["x"]}),
    ("_mine_delete", {"fun": []}),
    ("_pillar", {"grains": None}),
    ("_pillar", {"grains": {}, "pillar_override": ["x"]}),
    ("_pillar", {"grains": {}, "pillarenv": {}}),
    ("_pillar", {"grains": {}, "pillarenv": "x/../web2"}),
    ("_minion_event", {"events": 5}),
    ("_minion_event", {"tag": "_salt_error"}),
    ("_minion_event", {"tag": "_salt_error", "data": {}}),
    ("_syndic_return", {"load": [None]}),
    ("pub_ret", {"jid": "5"}),
    ("pub_ret", {"jid": "../x"}),
    ("pub_ret", {"jid": "a\0b"}),
    ("verify_minion", {"id_": "x", "token": b""}),
    ("minion_pub", {**PUBLISH, "fun": None}),
    ("minion_pub", {**PUBLISH, "arg": 5}),
    ("minion_pub", {**PUBLISH, "tgt": {}}),
    ("minion_publish", {**PUBLISH, "tgt_type": []}),
    ("minion_publish", {**PUBLISH, "tmo": None}),
    ("minion_runner", {"fun": b"x", "arg": []}),
    ("minion_runner", {"fun": "test.arg", "arg": None}),
    ("_serve_file", {**ENV, "path": None}),
    ("_serve_file", {**ENV, "loc": -1}),
    ("_serve_file", {**ENV, "loc": "x"}),
    ("_serve_file", {**ENV, "gzip": 10**18}),
    ("_file_find", {**ENV, "saltenv": None}),
    ("_file_find", {**ENV, "path": ["x"]}),
    ("_file_hash", {**ENV, "path": b"\xff"}),
    ("_file_list", {**ENV, "prefix": None}),
    ("_file_list", {**ENV, "saltenv": "../.."}),
    ("_symlink_list", {**ENV, "prefix": 5}),
]


@pytest.mark.asyncio
@pytest.mark.parametrize("func, load", ODD)
async def test_what_is_malformed_has_no_traceback(aes_funcs, caplog, func, load):
    with caplog.at_level(logging.INFO):
        if aes_funcs.get_method(func):
            answer = aes_funcs.run_func(func, {"id": "web1", **load})
            if hasattr(answer, "__await__"):
                answer = await answer
            assert not answer[0] or func in ("_minion_event", "_mine_get")
    assert not [record for record in caplog.records if record.exc_info]


SOUND = [
    ("_mine_get", {"tgt": ["web1", "web2"], "fun": ["x", "y"], "tgt_type": "list"}),
    ("_mine", {"data": {}, "clear": True}),
    ("_pillar", {"grains": {}, "pillar_override": None, "pillarenv": "feature/x"}),
    ("_minion_event", {"events": None, "tag": "x"}),
    ("_minion_event", {"events": [{"tag": "x"}]}),
    ("minion_publish", {**PUBLISH, "tmo": "5", "timeout": 5}),
    ("_serve_file", {**ENV, "gzip": None}),
    ("_serve_file", {**ENV, "gzip": True, "saltenv": None}),
    ("_file_list", {}),
    ("revoke_auth", {"anything": object()}),
]


@pytest.mark.parametrize("func, load", SOUND)
def test_what_is_sound_goes_on(func, load):
    assert salt.master.malformed_field(func, load) is None


@pytest.mark.parametrize("publisher, seen", [("web1", True), ("web2", False)])
@pytest.mark.asyncio
async def test_a_minion_sees_the_returns_of_its_own_job(
    aes_funcs, tmp_path, publisher, seen
):
    folder = tmp_path / "cache" / "publish_auth"
    folder.mkdir()
    (folder / "5").write_text(publisher)
    aes_funcs.local = MagicMock()
    aes_funcs.local.get_cache_returns.return_value = {"web9": True}
    answer = aes_funcs.pub_ret({"id": "web1", "jid": "5"})
    if hasattr(answer, "__await__"):
        answer = await answer
    assert answer == ({"web9": True} if seen else {})
