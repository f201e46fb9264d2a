"""
What the event publisher of a cluster does with events of a peer whose key it does not have
yet.
"""

# pylint: disable=protected-access

import asyncio
import collections
import hashlib

import pytest

import salt.channel.server as server
import salt.utils.event
from tests.support.mock import AsyncMock, MagicMock, patch

KEYS = (b"the key before", b"the key now")


@pytest.fixture
def channel(master_opts, tmp_path):
    master_opts.update(
        id="127.0.0.1",
        cluster_id="cluster",
        cluster_peers=["127.0.0.2"],
        cluster_pki_dir=str(tmp_path),
    )
    transport = MagicMock(publish_payload=AsyncMock())
    with patch("salt.crypt.MasterKeys"):
        ret = server.MasterPubServerChannel(master_opts, transport)
    ret.auth_errors = collections.defaultdict(collections.deque)
    ret.master_key.master_key.decrypt = lambda aes, algorithm: aes
    ret.master_key.fetch.return_value = MagicMock(decrypt=lambda sig: sig)

    def crypticle(opts, key):
        """
        What is encrypted with another key can't be read.
        """

        def loads(data):
            if data["key"] != key:
                raise server.salt.exceptions.AuthenticationError("another key")
            return {"event_payload": dict(data["event"])}

        return MagicMock(loads=loads)

    with patch.object(server, "_get_crypticle", crypticle), patch.object(
        ret, "send_aes_key_event"
    ):
        yield ret


def _announce(key):
    digest = hashlib.sha256(key).hexdigest().encode()
    peers = {"127.0.0.1": {"aes": key, "sig": digest}}
    return salt.utils.event.SaltEvent.pack(
        "cluster/peer/127.0.0.2", {"peer_id": "127.0.0.2", "peers": peers}
    )


def _event(jid, key):
    return salt.utils.event.SaltEvent.pack(
        f"cluster/event/127.0.0.2/salt/job/{jid}/publish",
        {"key": key, "event": {"jid": jid}},
    )


def _published(channel):
    return [
        salt.utils.event.SaltEvent.unpack(call.args[0])
        for call in channel.transport.publish_payload.call_args_list
    ]


@pytest.mark.parametrize("known", [None, KEYS[0]])
def test_events_that_come_before_the_key(channel, known):
    """
    They are published under their own tags once the key is there.
    """

    async def run():
        if known:
            await channel.handle_pool_publish(_announce(known))
        for jid in ("1", "2"):
            await channel.handle_pool_publish(_event(jid, KEYS[1]))
        channel.transport.publish_payload.assert_not_called()
        await channel.handle_pool_publish(_announce(KEYS[1]))

    asyncio.run(run())
    assert _published(channel) == [
        (f"salt/job/{jid}/publish", {"jid": jid, "__peer_id": "127.0.0.2"})
        for jid in ("1", "2")
    ]


def test_event_that_makes_no_sense(channel):
    """
    Those after it are published.
    """

    async def run():
        broken = salt.utils.event.SaltEvent.pack(
            "cluster/event/127.0.0.2/salt/job/1/publish", {"key": KEYS[1]}
        )
        await channel.handle_pool_publish(broken)
        await channel.handle_pool_publish(_event("2", KEYS[1]))
        channel.peer_keys["127.0.0.2"] = KEYS[0]
        await channel.handle_pool_publish(_announce(KEYS[1]))

    with patch.object(
        channel,
        "extract_cluster_event",
        side_effect=[
            server.salt.exceptions.AuthenticationError(),
            server.salt.exceptions.AuthenticationError(),
            KeyError("event"),
            {"jid": "2"},
        ],
    ):
        asyncio.run(run())
    assert _published(channel) == [("salt/job/2/publish", {"jid": "2"})]


def test_old_events_are_not_published(channel):
    """
    Jobs of long ago must not run now.
    """

    async def run():
        await channel.handle_pool_publish(_event("1", KEYS[1]))
        now = server.time.monotonic()
        with patch("time.monotonic", return_value=now + channel._EARLY_SECONDS + 1):
            await channel.handle_pool_publish(_announce(KEYS[1]))

    asyncio.run(run())
    assert _published(channel) == []


def test_events_have_the_name_that_the_key_has(channel):
    """
    A master without an ``id`` of its own has ``_master`` at its end, which peers do not
    know.
    """
    channel.opts["id"] = "host_master"
    pusher = MagicMock(pull_host="127.0.0.2", publish=AsyncMock())
    channel.pushers = [pusher]
    aes = {"secret": MagicMock(value=b"")}
    with patch.dict(server.salt.master.SMaster.secrets, {"aes": aes}), patch.object(
        server, "_get_crypticle", return_value=MagicMock(dumps=lambda load: b"")
    ):
        event = salt.utils.event.SaltEvent.pack("salt/job/1/new", {})
        asyncio.run(channel.publish_payload(event))
    tag, _ = salt.utils.event.SaltEvent.unpack(pusher.publish.call_args.args[0])
    assert tag == "cluster/event/host/salt/job/1/new"
