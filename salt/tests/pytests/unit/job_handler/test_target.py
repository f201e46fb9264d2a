import os
import types

import pytest

import salt.channel.server
import salt.crypt
import salt.utils.files
import salt.utils.minions
from salt.job_handler.interval import Stretch
from salt.job_handler.target import narrow
from tests.support.mock import patch

MANY = [f"minion-{number:04}" for number in range(100)]


def _load(tgt, tgt_type="glob", **kwargs):
    return {"tgt": tgt, "tgt_type": tgt_type, "fun": "test.ping", **kwargs}


def test_nobody_left_out():
    """
    The very same load, so the same bytes.
    """
    load = _load("*")
    assert narrow(load, ["a", "b"], {}, False) is load


def test_a_wave_is_a_list():
    load = narrow(_load("web*"), ["a", "b"], {}, True)
    assert (load["tgt"], load["tgt_type"]) == (["a", "b"], "list")
    load = narrow(_load("web*"), MANY, {"x": "full"}, True)
    assert load["tgt_type"] == "list"


@pytest.mark.parametrize(
    "tgt,tgt_type,expected",
    [
        ("web*", "glob", "( web* ) and not L@x,y"),
        ("web[0-9]+", "pcre", "( E@web[0-9]+ ) and not L@x,y"),
        ("os:Debian", "grain", "( G@os:Debian ) and not L@x,y"),
        ("os:(Deb|Roc).*", "grain_pcre", None),
        ("os:Deb.*", "grain_pcre", "( P@os:Deb.* ) and not L@x,y"),
        ("tier:gold", "pillar", "( I@tier:gold ) and not L@x,y"),
        ("tier:g.*", "pillar_pcre", "( J@tier:g.* ) and not L@x,y"),
        ("10.0.0.0/8", "ipcidr", "( S@10.0.0.0/8 ) and not L@x,y"),
        ("%cluster", "range", "( R@%cluster ) and not L@x,y"),
        ("G@os:Debian and web*", "compound", "( G@os:Debian and web* ) and not L@x,y"),
        (["web*", "or", "db*"], "compound", "( web* or db* ) and not L@x,y"),
        ("a, b", "list", "( L@a,b ) and not L@x,y"),
        (["a", "b"], "list", "( L@a,b ) and not L@x,y"),
        # no letter, or no word of a compound target
        ("tier:gold", "pillar_exact", None),
        ("os:Red Hat", "grain", None),
        ("not", "glob", None),
        ("G@os", "glob", None),
    ],
)
def test_all_but_some(tgt, tgt_type, expected):
    load = narrow(_load(tgt, tgt_type), MANY, {"y": "full", "x": "full"}, False)
    if expected is None:
        assert (load["tgt"], load["tgt_type"]) == (MANY, "list")
    else:
        assert (load["tgt"], load["tgt_type"]) == (expected, "compound")


def test_the_shorter_one():
    load = narrow(_load("minion-*"), ["a"], dict.fromkeys(MANY, "full"), False)
    assert (load["tgt"], load["tgt_type"]) == (["a"], "list")


def test_delimiter_needs_a_list():
    load = narrow(_load("os|Debian", "grain", delimiter="|"), MANY, {"x": ""}, False)
    assert load["tgt_type"] == "list"


def test_the_load_of_others_is_not_touched():
    load = _load("*", arg=[1])
    narrow(load, ["a"], {"x": ""}, True)
    assert load == _load("*", arg=[1])


def test_targets_parse():
    """
    Salt's own parser takes what is made.
    """
    load = narrow(_load("web*"), MANY, {"x": "full"}, False)
    assert salt.utils.minions.parse_target("L@x")["engine"] == "L"
    assert load["tgt"].split() == ["(", "web*", ")", "and", "not", "L@x"]


def test_topics_of_a_wave(master_opts):
    """
    Where the master sends to topics, only its minions hear a wave of a job for all.
    """
    keys = os.path.join(master_opts["pki_dir"], "minions")
    os.makedirs(keys)
    for minion in [*MANY, "other"]:
        with salt.utils.files.fopen(os.path.join(keys, minion), "w") as handle:
            handle.write("key")
    wave = MANY[40:70]
    load = narrow(_load("*"), wave, {}, True, Stretch("minion-004", "minion-007", []))
    channel = types.SimpleNamespace(
        opts={**master_opts, "cluster_id": None, "sign_pub_messages": False},
        aes_key=salt.crypt.Crypticle.generate_key_string(),
        ckminions=salt.utils.minions.CkMinions(master_opts),
        transport=types.SimpleNamespace(topic_support=lambda: True),
    )
    with patch("salt.master.SMaster.get_serial", return_value=1):
        package = salt.channel.server.PubServerChannel.wrap_payload(channel, load)
    assert sorted(package["topic_lst"]) == wave
