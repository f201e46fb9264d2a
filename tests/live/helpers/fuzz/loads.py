"""A sound load of every command of the master's request port, from which the fuzzer's packets are made."""

from __future__ import annotations

from typing import Any, Final

JID: Final = "20260101000000000001"
FILE: Final = {"path": "top.sls", "saltenv": "base"}

# what anybody may send in the clear; `_auth` is the sign-in
CLEAR: Final[dict[str, dict[str, Any]]] = {
    "ping": {},
    "_auth": {"id": "", "pub": "", "nonce": "0" * 32, "enc_algo": "OAEP-SHA1", "sig_algo": "PKCS1v15-SHA1"},
    "publish": {
        "fun": "test.ping",
        "arg": [],
        "tgt": "*",
        "tgt_type": "glob",
        "ret": "",
        "jid": "",
        "user": "root",
        "key": "0" * 20,
        "kwargs": {"delimiter": ":", "token": "0" * 64, "metadata": {"a": 1}},
    },
    "get_token": {"token": "0" * 64},
    # not pam, which waits for seconds after each wrong password
    "mk_token": {"eauth": "sharedsecret", "username": "saltbed", "password": "wrong"},
    "wheel": {"fun": "key.list_all", "kwarg": {}, "eauth": "sharedsecret", "username": "saltbed", "password": "wrong"},
    "runner": {"fun": "test.arg", "kwarg": {"a": 1}, "token": "0" * 64, "user": "root", "key": "0" * 20},
}

# what a minion sends, encrypted with the key of its session
AES: Final[dict[str, dict[str, Any]]] = {
    "verify_minion": {"id_": "minion", "token": b"x"},
    "_master_tops": {"opts": {"id": "minion"}, "grains": {"os": "Debian"}},
    "_master_opts": {"env_only": True},
    "_mine_get": {"tgt": "*", "fun": "test.ping", "tgt_type": "glob"},
    "_mine": {"data": {"test.ping": True}, "clear": False},
    "_mine_delete": {"fun": "test.ping"},
    "_mine_flush": {},
    "_register_resources": {"resources": {"kind": ["one"]}, "resource_grains": {"one": {"os": "x"}}},
    "_file_recv": {"path": ["a", "b"], "loc": 0, "data": b"x", "size": 1},
    "_pillar": {"grains": {"os": "x"}, "saltenv": None, "pillarenv": None, "pillar_override": {}, "ver": "2"},
    "_minion_event": {"tag": "custom/tag", "data": {"a": 1}, "pretag": None, "events": [{"tag": "a", "data": {}}]},
    "_return": {"jid": JID, "fun": "test.ping", "fun_args": [], "return": True, "retcode": 0, "success": True},
    "_syndic_return": {"load": [{"jid": JID, "fun": "test.ping", "return": {"minion-x": {"return": True}}}]},
    "minion_runner": {"fun": "test.arg", "arg": [], "kwarg": {}},
    "pub_ret": {"jid": JID},
    "minion_pub": {"fun": "test.ping", "arg": [], "tgt": "*", "tgt_type": "glob", "ret": "", "tmo": 1, "form": "clean"},
    "minion_publish": {"fun": "test.ping", "arg": [], "tgt": "*", "tgt_type": "glob", "ret": "", "tmo": 1},
    "revoke_auth": {},
    "_serve_file": {**FILE, "loc": 0, "gzip": 0},
    "_file_find": FILE,
    "_file_hash": FILE,
    "_file_hash_and_stat": FILE,
    "_file_list": {"saltenv": "base", "prefix": ""},
    "_file_list_emptydirs": {"saltenv": "base", "prefix": ""},
    "_dir_list": {"saltenv": "base", "prefix": ""},
    "_symlink_list": {"saltenv": "base", "prefix": ""},
    "_file_envs": {},
}
