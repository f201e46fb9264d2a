"""
Minions that subscribe over TCP with a key that the master does not have any more.
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
from tests.support.mock import AsyncMock, MagicMock, patch

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
        ret.aes_funcs.verify_minion.side_effect = lambda id_, tok: tok == "right"
        yield ret


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "publisher")


async def subscribe(channel, path, key, tok, until):
    """
    Connect, say who it is, and return what ``until`` says of publisher and
    subscriber in the end.
    """
    publisher = salt.transport.tcp.PubServer(
        channel.opts,
        io_loop=asyncio.get_running_loop(),
        presence_callback=channel.presence_callback,
        remove_presence_callback=channel.remove_presence_callback,
    )
    publisher.add_socket(salt.transport.tcp.tornado.netutil.bind_unix_socket(path))
    lost = AsyncMock()
    subscriber = salt.transport.tcp.PublishClient(
        channel.opts, asyncio.get_running_loop(), path=path
    )
    load = salt.crypt.Crypticle(channel.opts, key).dumps({"id": "web1", "tok": tok})
    try:
        await subscriber.connect(disconnect_callback=lost)
        await subscriber.send(
            salt.transport.frame.frame_msg(
                {"enc": "aes", "load": load, "version": 3}, header=None
            )
        )
        for _ in range(1000):
            await subscriber.recv(timeout=0)
            if until(publisher, lost):
                return
        raise AssertionError("It does not happen")
    finally:
        subscriber.close()
        publisher.stop()
        publisher.close()


def is_known(publisher, lost):
    """
    Whether what is for it would reach it
    """
    assert not lost.called
    return [client.id_ for client in publisher.clients] == ["web1"]


def is_told(publisher, lost):
    """
    Whether it lost its connection: it signs in before it connects again
    """
    assert not [client.id_ for client in publisher.clients if client.id_]
    return lost.called and not publisher.clients


async def test_with_the_key_of_the_master(channel, path, key):
    await subscribe(channel, path, key, "right", is_known)
    assert list(channel.present) == ["web1"]


async def test_with_an_old_key(channel, path):
    old = salt.crypt.Crypticle.generate_key_string()
    await subscribe(channel, path, old, "right", is_told)
    assert not channel.present


async def test_with_the_token_of_another_minion(channel, path, key):
    await subscribe(channel, path, key, "wrong", is_told)
    assert not channel.present
