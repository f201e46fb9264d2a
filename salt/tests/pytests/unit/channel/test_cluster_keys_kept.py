"""
What a master of a cluster does with the keys in the reply to its join.
"""

import os
import pathlib

import pytest

import salt.channel.server as server
import salt.master
import salt.utils.event
from tests.support.mock import AsyncMock, MagicMock, patch

NAMES = ("cluster.pem", "cluster.pub", ".aes")


@pytest.fixture
def channel(master_opts, tmp_path):
    master_opts.update(
        id="127.0.0.2",
        cluster_id="cluster",
        cluster_peers=["127.0.0.1"],
        cluster_pki_dir=str(tmp_path),
    )
    transport = MagicMock(publish_payload=AsyncMock())
    with patch("salt.crypt.MasterKeys"):
        ret = server.MasterPubServerChannel(master_opts, transport)
    ret.master_key.cluster_rsa_path = str(tmp_path / "cluster.pem")
    ret.master_key.cluster_pub_path = str(tmp_path / "cluster.pub")

    def fetch(bank, name):
        path = tmp_path / name
        return path.read_text(encoding="utf-8") if path.exists() else {}

    ret.master_key.cache.fetch = fetch
    private = MagicMock(decrypt=lambda value, algorithm: b"token" + value.encode())
    secrets = {"cluster_aes": {"secret": MagicMock()}}
    with patch("salt.crypt.PrivateKey.from_file", return_value=private), patch(
        "salt.crypt.PrivateKey.from_str"
    ), patch("salt.crypt.PublicKeyString"), patch(
        "salt.crypt.Crypticle", return_value=MagicMock(decrypt=str.encode)
    ), patch.object(
        salt.master.SMaster, "secrets", secrets
    ), patch.multiple(
        ret,
        _mark_joined_cluster=MagicMock(),
        _start_raft_as_learner=MagicMock(),
        _discover_token="token",
        _discover_event=None,
        # What the reply has to fit, where that is looked at
        _joins={"127.0.0.1": ("key", "token")},
        create=True,
    ):
        yield ret


async def _joined(channel):
    inner = {
        "peer_id": "127.0.0.1",
        "return_token": "token",
        "peers": {},
        "cluster_aes": "aes",
        "cluster_key_session": "session",
        "cluster_pem": "pem",
        "cluster_pub": "pub",
    }
    data = {"payload": salt.payload.dumps(inner), "sig": b""}
    await channel.handle_pool_publish(
        salt.utils.event.SaltEvent.pack("cluster/peer/join-reply", data)
    )


def _write(folder, contents):
    for name, content in zip(NAMES, contents):
        (folder / name).write_text(content, encoding="utf-8")
        os.utime(folder / name, (1, 1))


def _contents(folder):
    return [(folder / name).read_text(encoding="utf-8") for name in NAMES]


async def test_keys_that_it_has_are_left_alone(channel, tmp_path):
    """
    Masters that share the folder would miss them for a moment, and make others.
    """
    _write(tmp_path, ("pem", "pub", "aes"))
    with patch.object(pathlib.Path, "unlink") as unlink:
        await _joined(channel)
    assert _contents(tmp_path) == ["pem", "pub", "aes"]
    assert [(tmp_path / name).stat().st_mtime for name in NAMES] == [1, 1, 1]
    assert not unlink.called
    assert not channel.master_key.cache.store.called


@pytest.mark.parametrize(
    "before", [(), ("other", "pub", "aes"), ("pem", "other", "other")]
)
async def test_other_keys_are_replaced(channel, tmp_path, before):
    """
    Those of the cluster count.
    """
    _write(tmp_path, before)
    await _joined(channel)
    assert _contents(tmp_path) == ["pem", "pub", "aes"]
    assert [call.args for call in channel.master_key.cache.store.call_args_list] == [
        ("master_keys", "cluster.pem", b"pem"),
        ("master_keys", "cluster.pub", b"pub"),
    ]


async def test_a_cache_with_other_keys_is_filled(channel, tmp_path):
    """
    Other drivers than that of files have the keys elsewhere.
    """
    _write(tmp_path, ("pem", "pub", "aes"))
    channel.master_key.cache.fetch = lambda bank, name: "other"
    await _joined(channel)
    assert channel.master_key.cache.store.call_count == 2
