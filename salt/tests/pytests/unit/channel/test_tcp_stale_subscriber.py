"""
Minions that subscribe over TCP and can not be identified, as their key is an old one.
"""

import asyncio
import ctypes
import multiprocessing

import pytest

import salt.channel.server
import salt.crypt
import salt.master
import salt.transport.frame
import salt.transport.tcp
from tests.support.mock import MagicMock, patch

pytestmark = [
    pytest.mark.skip_on_windows(reason="Unix sockets"),
]


@pytest.fixture
def key():
    """
    Of the master
    """
    return salt.crypt.Crypticle.generate_key_string()


@pytest.fixture
def channel(master_opts, key):
    opts = {**master_opts, "transport": "tcp"}
    secret = multiprocessing.Array(ctypes.c_char, key.encode())
    with patch("salt.master.AESFuncs"), patch("salt.utils.event.get_event"), patch.dict(
        salt.master.SMaster.secrets, {"aes": {"secret": secret}}
    ):
        ret = salt.channel.server.PubServerChannel(opts, MagicMock())
        ret.unidentified_pause = 0
        ret.aes_funcs.verify_minion.side_effect = lambda id_, tok: tok == "right"
        yield ret


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "publisher")


def message(opts, key, **load):
    load = salt.crypt.Crypticle(opts, key).dumps({"id": "web1", "tok": "right", **load})
    return {"enc": "aes", "load": load, "version": 3}


async def ids_after(channel, path, sent):
    """
    Connect, say what is to be sent, and return the ids by which the publisher knows
    its subscribers once it has looked at that: None if it has closed the connection.
    """
    publisher = salt.transport.tcp.PubServer(
        channel.opts,
        io_loop=asyncio.get_running_loop(),
        presence_callback=channel.presence_callback,
        remove_presence_callback=channel.remove_presence_callback,
    )
    publisher.add_socket(salt.transport.tcp.tornado.netutil.bind_unix_socket(path))
    stream = salt.transport.tcp.tornado.iostream.IOStream(
        salt.transport.tcp.socket.socket(salt.transport.tcp.socket.AF_UNIX)
    )
    try:
        await stream.connect(path)
        # Without a reader it does not notice that it is closed
        stream.set_close_callback(lambda: None)
        await stream.write(salt.transport.frame.frame_msg(sent, header=None))
        for _ in range(1000):
            await asyncio.sleep(0.01)
            ids = [client.id_ for client in publisher.clients]
            if stream.closed() and not ids:
                return None
            if any(ids):
                return ids
        return ids
    finally:
        stream.close()
        publisher.stop()
        publisher.close()


async def test_with_the_key_of_the_master(channel, path, key):
    sent = message(channel.opts, key)
    assert await ids_after(channel, path, sent) == ["web1"]
    assert list(channel.present) == ["web1"]


async def test_with_an_old_key(channel, path):
    sent = message(channel.opts, salt.crypt.Crypticle.generate_key_string())
    assert await ids_after(channel, path, sent) is None
    assert not channel.present


async def test_with_the_token_of_another_minion(channel, path, key):
    sent = message(channel.opts, key, tok="wrong")
    assert await ids_after(channel, path, sent) is None
    assert not channel.present


async def test_when_the_keys_can_not_be_read(channel, path, key):
    """
    A minion is not left alone with a connection that says nothing
    """
    channel.aes_funcs.verify_minion.side_effect = OSError("No keys today")
    assert await ids_after(channel, path, message(channel.opts, key)) is None


@pytest.mark.parametrize("verified", [True, False])
async def test_with_a_verification_that_waits(channel, path, key, verified):
    """
    As with the option master_async_mworker
    """

    async def verify_minion(id_, tok):
        await asyncio.sleep(0)
        return verified

    channel.aes_funcs.verify_minion = verify_minion
    ids = await ids_after(channel, path, message(channel.opts, key))
    assert ids == (["web1"] if verified else None)


async def test_not_at_once(channel, key):
    """
    Minions that try again must not keep a master busy
    """
    channel.unidentified_pause = 1
    subscriber = MagicMock()
    waited = []

    async def sleep(seconds):
        assert not subscriber.close.called
        waited.append(seconds)

    with patch("asyncio.sleep", sleep):
        await channel.presence_callback(
            subscriber, message(channel.opts, key, tok="wrong")
        )
    subscriber.close.assert_called_once_with()
    assert 1 <= waited[0] <= 2
