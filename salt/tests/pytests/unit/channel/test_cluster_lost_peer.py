"""
What the event publisher of a cluster does when a peer is gone.
"""

import asyncio

import pytest
import tornado.iostream

import salt.channel.server as server
import salt.master
import salt.utils.event
from tests.support.mock import AsyncMock, MagicMock, patch


@pytest.fixture
def channel(master_opts):
    master_opts.update(cluster_id="cluster", cluster_peers=["127.0.0.2"])
    transport = MagicMock(publish_payload=AsyncMock())
    with patch("salt.crypt.MasterKeys"):
        ret = server.MasterPubServerChannel(master_opts, transport)
    ret.io_loop = MagicMock()
    lost = AsyncMock(side_effect=tornado.iostream.StreamClosedError())
    ret.pushers = [MagicMock(pull_host="127.0.0.2", publish=lost)]
    with patch.dict(
        salt.master.SMaster.secrets, {"aes": {"secret": MagicMock(value=b"")}}
    ), patch.object(
        server, "_get_crypticle", return_value=MagicMock(dumps=lambda load: b"")
    ), patch.object(
        ret, "send_aes_key_event"
    ):
        yield ret


def test_one_announcement_for_many_lost_events(channel):
    """
    Each announcement connects to the event loop that would have to make it.
    """
    event = salt.utils.event.SaltEvent.pack("salt/job/1/ret/m", {"id": "m"})

    async def publish():
        for _ in range(100):
            await channel.publish_payload(event)
        channel.io_loop.call_later.assert_called_once()
        announce = channel.io_loop.call_later.call_args.args[1]
        announce()
        channel.send_aes_key_event.assert_called_once_with()
        await channel.publish_payload(event)

    asyncio.run(publish())
    assert channel.io_loop.call_later.call_count == 2
