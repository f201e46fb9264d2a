"""
Subscribers of the event bus receive what they have asked for by its beginning
"""

# pylint: disable=protected-access

import asyncio
import pickle
from contextlib import asynccontextmanager

import pytest

import salt.channel.server
import salt.transport
import salt.transport.frame
import salt.transport.tcp
import salt.utils.asynchronous
from tests.support.mock import AsyncMock, MagicMock, patch

pytestmark = [
    pytest.mark.skip_on_windows(reason="Unix sockets"),
]

# rounds of the event loop, or hundredths of a second, until something has come
PATIENCE = 3000


class Bus:
    """
    A publisher on a Unix socket and one subscriber of it
    """

    def __init__(self, opts, path, **kwargs):
        self.opts = opts
        self.path = str(path)
        self.kwargs = kwargs
        self.server = self.client = None

    def serve(self):
        self.server = salt.transport.tcp.PubServer(
            self.opts, io_loop=asyncio.get_running_loop(), **self.kwargs
        )
        self.server.add_socket(
            salt.transport.tcp.tornado.netutil.bind_unix_socket(self.path)
        )

    async def connect(self):
        self.client = salt.transport.tcp.PublishClient(
            {**self.opts, "tcp_reconnect_backoff": 0.01},
            asyncio.get_running_loop(),
            path=self.path,
        )
        await self.client.connect()
        await self.until(lambda: self.server.clients)

    async def until(self, done):
        for _ in range(PATIENCE):
            if done():
                return
            await asyncio.sleep(0.01)
        raise AssertionError("It does not happen")

    @property
    def known(self):
        """
        What the publisher knows of the subscriber's wishes
        """
        return [one.prefixes for one in self.server.clients]

    async def only(self, *prefixes):
        await self.client.receive_only(list(prefixes))
        wanted = [tuple(prefix.encode() for prefix in prefixes)]
        await self.until(lambda: self.known == wanted)

    async def publish(self, *messages):
        for message in messages:
            await self.server.publish_payload(message)

    async def received(self):
        """
        What came, up to a last message that everybody gets
        """
        for one in self.server.clients:
            one.prefixes = None
        await self.publish(b"last")
        found = []
        for _ in range(PATIENCE):
            message = await self.client.recv()
            if message == b"last":
                return found
            found.append(message)
        raise AssertionError("The last message does not come")

    def close(self):
        for one in (self.client, self.server):
            if one is not None:
                one.close()
        self.server.stop()


@asynccontextmanager
async def bus(opts, path, **kwargs):
    made = Bus(opts, path / "pub.ipc", **{"prefixes": True, **kwargs})
    made.serve()
    try:
        await made.connect()
        yield made
    finally:
        made.close()


async def test_everything_without_a_wish(master_opts, tmp_path):
    async with bus(master_opts, tmp_path) as made:
        await made.publish(b"a/1", b"b/1")
        assert await made.received() == [b"a/1", b"b/1"]


async def test_what_begins_otherwise_is_left_out(master_opts, tmp_path):
    async with bus(master_opts, tmp_path) as made:
        await made.only("a/", "c/")
        await made.publish(b"a/1", b"b/1", b"a", b"c/1", b"", b"a/2", b"xa/")
        assert await made.received() == [b"a/1", b"c/1", b"a/2"]


async def test_others_receive_what_they_did(master_opts, tmp_path):
    """
    The wish of one is nothing to the others
    """
    async with bus(master_opts, tmp_path) as made:
        await made.only("a/")
        first = made.client
        await made.connect()
        await made.until(lambda: len(made.server.clients) == 2)
        await made.publish(b"a/1", b"b/1")
        assert await made.received() == [b"a/1", b"b/1"]
        made.client.close()
        made.client = first
        assert await first.recv() == b"a/1"
        assert await first.recv() == b"last"


async def test_a_wish_is_replaced_and_withdrawn(master_opts, tmp_path):
    async with bus(master_opts, tmp_path) as made:
        await made.only("a/")
        await made.publish(b"a/1", b"b/1")
        await made.only("b/")
        await made.publish(b"a/2", b"b/2")
        await made.only()
        await made.publish(b"a/3", b"b/3")
        await made.client.receive_only(None)
        await made.until(lambda: made.known == [None])
        await made.publish(b"a/4", b"b/4")
        assert await made.received() == [b"a/1", b"b/2", b"a/4", b"b/4"]


async def test_before_the_connection_and_after_the_next(master_opts, tmp_path):
    """
    A publisher that has been started again is told as well
    """
    made = Bus(master_opts, tmp_path / "pub.ipc", prefixes=True)
    made.serve()
    try:
        with patch.object(
            salt.transport.tcp.PublishClient, "connect", new=AsyncMock()
        ), patch.object(made, "until", new=AsyncMock()):
            await made.connect()
        await made.client.receive_only([b"a/"])
        await made.client.connect()
        await made.until(lambda: made.known == [(b"a/",)])

        made.server.close()
        made.server.stop()
        made.serve()
        reading = asyncio.ensure_future(made.client.recv())
        await made.until(lambda: made.known == [(b"a/",)])
        await made.publish(b"b/1", b"a/1")
        assert await asyncio.wait_for(reading, 30) == b"a/1"
    finally:
        made.close()


@pytest.mark.parametrize("wish", [1, [1], "", {"a": None}, [None], ["b"] * 101])
async def test_a_wish_that_is_none(master_opts, tmp_path, wish):
    """
    Whoever asks for something else receives everything, and may ask again
    """
    async with bus(master_opts, tmp_path) as made:
        await made.only("a/")
        await made.client.send(salt.transport.frame.frame_msg({"prefixes": wish}))
        await made.until(lambda: made.known == [None])
        await made.client.send(salt.transport.frame.frame_msg("prefixes"))
        await made.only("a/")
        await made.publish(b"a/1", b"b/1")
        assert await made.received() == [b"a/1"]


async def test_a_wish_is_confirmed(master_opts, tmp_path):
    """
    What is sent after the confirmation is what has been asked for
    """
    async with bus(master_opts, tmp_path) as made:
        await made.client.receive_only(["a/"], b"confirmed")
        assert await asyncio.wait_for(made.client.recv(), 30) == b"confirmed"
        assert made.known == [(b"a/",)]
        await made.publish(b"b/1", b"a/1")
        # who does not ask for it is not told, and neither is a new connection
        await made.only("b/")
        await made.publish(b"a/2", b"b/2")
        assert await made.received() == [b"a/1", b"b/2"]


async def test_a_confirmation_to_nobody(master_opts, tmp_path):
    """
    Who is gone or does not read gets none, and the publisher goes on
    """
    async with bus(master_opts, tmp_path) as made:
        (client,) = made.server.clients
        with patch.object(client.stream, "write") as write:
            for error in (
                salt.transport.tcp.tornado.iostream.StreamClosedError,
                salt.transport.tcp.tornado.iostream.StreamBufferFullError,
            ):
                write.side_effect = error
                made.server._confirm_prefixes(client, b"confirmed")
        assert write.call_count == 2
        await made.publish(b"a/1")
        assert await made.received() == [b"a/1"]


async def test_minions_have_no_wish(master_opts, tmp_path):
    """
    The publisher that minions are connected to hears who they are, as ever
    """
    heard = MagicMock(return_value=None)
    async with bus(
        master_opts, tmp_path, prefixes=False, presence_callback=heard
    ) as made:
        await made.client.receive_only(["a/"])
        await made.until(lambda: heard.called)
        assert heard.call_args.args[1] == {"prefixes": ["a/"]}
        await made.publish(b"b/1")
        assert await made.received() == [b"b/1"]


async def test_a_connection_that_has_just_been_closed(master_opts, tmp_path):
    async with bus(master_opts, tmp_path) as made:
        made.client._stream.close()
        await made.client.receive_only(["a/"])
        assert made.client._prefixes == ["a/"]


def test_the_event_bus_of_a_cluster_has_it(master_opts):
    opts = {**master_opts, "cluster_id": "blue", "cluster_pool_port": 0}
    with patch("salt.transport.tcp.PublishServer") as server, patch.object(
        salt.channel.server.MasterPubServerChannel, "__init__", return_value=None
    ):
        salt.channel.server.MasterPubServerChannel.factory(opts)
    assert server.call_args.kwargs["prefixes"] is True


@pytest.mark.parametrize("transport", ["tcp", "ws", "zeromq"])
def test_every_client_can_be_asked(minion_opts, transport):
    """
    A transport without wishes receives everything, also in a SyncWrapper
    """
    with salt.utils.asynchronous.SyncWrapper(
        salt.transport.publish_client,
        args=({**minion_opts, "transport": transport},),
        kwargs={"host": "127.0.0.1", "port": 4505},
        loop_kwarg="io_loop",
    ) as client:
        assert client.receive_only(["a/"]) is None


@pytest.mark.parametrize("ipc_mode", ["ipc", "tcp"])
@pytest.mark.parametrize("node", ["master", "minion"])
def test_event_buses_have_it(master_opts, minion_opts, node, ipc_mode):
    opts = {**(master_opts if node == "master" else minion_opts), "ipc_mode": ipc_mode}
    server = salt.transport.ipc_publish_server(node, opts)
    try:
        assert server.prefixes is True
        assert server.__getstate__()["prefixes"] is True
    finally:
        server.close()


def test_publishers_for_minions_do_not_have_it(master_opts):
    server = salt.transport.publish_server({**master_opts, "transport": "tcp"})
    try:
        assert server.prefixes is False
        with patch.object(server, "started", None):
            state = server.__getstate__()
        assert pickle.loads(pickle.dumps(state["prefixes"])) is False
    finally:
        server.close()
