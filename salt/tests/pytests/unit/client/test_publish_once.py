"""
A job is sent to the master once, however late the master is with its answer.
"""

import pytest

import salt.channel.client
import salt.client
import salt.exceptions
from tests.support.mock import AsyncMock, MagicMock, patch


@pytest.fixture
def channel(master_opts):
    """
    A channel whose master does not answer; it notes how long each request waits.
    """
    made = salt.channel.client.AsyncReqChannel(
        master_opts, MagicMock(ttype="zeromq"), None, tries=3, timeout=60
    )
    late = salt.exceptions.SaltReqTimeoutError("Message timed out")
    made.transport.send = AsyncMock(side_effect=late)
    return made


async def test_a_request_is_sent_again(channel):
    with pytest.raises(salt.exceptions.SaltReqTimeoutError):
        await channel.send({"cmd": "_return"}, timeout=5)
    waits = [call.kwargs["timeout"] for call in channel.transport.send.mock_calls]
    assert waits == [5, 5, 5]


async def test_a_request_is_sent_once(channel):
    """
    It waits for as long as before.
    """
    with pytest.raises(salt.exceptions.SaltReqTimeoutError):
        await channel.send({"cmd": "publish"}, timeout=5, once=True)
    waits = [call.kwargs["timeout"] for call in channel.transport.send.mock_calls]
    assert waits == [15]


async def test_a_request_that_is_answered(channel):
    channel.transport.send = AsyncMock(return_value={"load": {"jid": "1"}})
    assert await channel.send({"cmd": "publish"}, once=True) == {"load": {"jid": "1"}}
    channel.transport.send.assert_called_once()


@pytest.fixture
def client(master_opts, tmp_path):
    master_opts["sock_dir"] = str(tmp_path)
    (tmp_path / "publish_pull.ipc").touch()
    with patch("salt.utils.event.get_event", MagicMock()):
        with salt.client.LocalClient(mopts=master_opts) as client:
            yield client


def test_publish(client):
    """
    Also when the key of the master has changed, and the job is sent again with the new one.
    """
    client.key = "old"
    sent = MagicMock(side_effect=["", {"load": {"jid": "1", "minions": []}}])
    factory = MagicMock()
    factory.return_value.__enter__.return_value.send = sent
    read = MagicMock(return_value="new")
    with patch("salt.channel.client.ReqChannel.factory", factory), patch.object(
        client, "_LocalClient__read_master_key", read
    ):
        assert client.pub("*", "test.ping", timeout=5)["jid"] == "1"
    assert [call.kwargs.get("once") for call in sent.mock_calls] == [True, True]
    assert sent.mock_calls[0].kwargs["timeout"] == 5


async def test_publish_async(client):
    client.key = "old"
    sent = AsyncMock(side_effect=["", {"load": {"jid": "1", "minions": []}}])
    factory = MagicMock()
    factory.return_value.__aenter__.return_value.send = sent
    read = MagicMock(return_value="new")
    with patch("salt.channel.client.AsyncReqChannel.factory", factory), patch.object(
        client, "_LocalClient__read_master_key", read
    ):
        answer = await client.pub_async("*", "test.ping", timeout=5)
    assert answer["jid"] == "1"
    assert [call.kwargs.get("once") for call in sent.mock_calls] == [True, True]
