"""
What the publisher does with clients that do not read, send what is no message, or go
"""

# pylint: disable=protected-access

import asyncio

import aiohttp
import aiohttp.web
import pytest

import salt.channel.server
import salt.payload
import salt.transport.frame
import salt.transport.tcp
import salt.transport.ws
import salt.utils.msgpack
from tests.support.mock import AsyncMock, MagicMock, patch


@pytest.fixture
def server(tmp_path):
    """
    The publisher of the transport ws
    """
    return salt.transport.ws.PublishServer(
        {"sock_dir": str(tmp_path)}, pull_path=str(tmp_path / "pull.ipc")
    )


async def test_who_publishes_goes(server):
    """
    Reads at the end of a connection never wait, so nothing else would run
    """
    pieces = [salt.payload.dumps({"number": 1}), salt.payload.dumps({"number": 2})]
    reader, writer = MagicMock(), MagicMock()
    # The last one is never asked for
    reader.read = AsyncMock(side_effect=[*pieces, b"", AssertionError("read again")])
    server._pub_payload = AsyncMock()
    await server.pull_handler(reader, writer)
    assert server._pub_payload.await_count == 2
    assert writer.close.called


def _subscriber(server, send, waiting):
    ws = MagicMock(send_bytes=send)
    transport = MagicMock()
    transport.get_write_buffer_size.return_value = waiting
    server.clients[ws] = transport
    return ws, transport


@pytest.mark.parametrize("size, waiting", [(10, 1), (10**6, 0)])
async def test_subscribers_that_do_not_read(server, caplog, size, waiting):
    """
    They are disconnected at once, and the others get everything in order
    """

    async def never(payload):
        await asyncio.Event().wait()

    stuck = [_subscriber(server, never, waiting) for _ in range(3)]
    good = AsyncMock()
    _subscriber(server, good, 0)
    with patch.object(server, "patience", 0.1, create=True):
        for number in range(3):
            await asyncio.wait_for(server.publish_payload([number] * size), 60)
    sent = [salt.payload.loads(call.args[0])[0] for call in good.await_args_list]
    assert sent == [0, 1, 2]
    assert len(server.clients) == 1
    assert all(transport.abort.called for _, transport in stuck)
    assert caplog.text.count("does not read, and is disconnected") == 3


async def test_a_subscriber_that_has_gone(server):
    """
    It is forgotten
    """
    _subscriber(server, AsyncMock(side_effect=ConnectionError("lost")), 0)
    await server.publish_payload("payload")
    assert not server.clients


async def test_a_subscriber_that_leaves_while_others_are_sent_something(server):
    """
    It is left out, and what publishes goes on
    """

    async def send(payload):
        server.clients.pop(leaves)
        getattr(server, "_transports", {}).pop(leaves, None)

    _subscriber(server, send, 0)
    leaves, _ = _subscriber(server, AsyncMock(side_effect=ConnectionError), 0)
    await server.publish_payload("payload")
    assert len(server.clients) == 1


async def test_no_subscriber_has_publications_compressed(server):
    """
    It would take the time of all others
    """
    runner = aiohttp.web.ServerRunner(aiohttp.web.Server(server.handle_request))
    await runner.setup()
    try:
        await aiohttp.web.TCPSite(runner, "127.0.0.1", 0).start()
        url = "http://{}:{}/ws".format(*runner.addresses[0])
        async with aiohttp.ClientSession() as session:
            async with session.ws_connect(url, compress=15) as subscriber:
                assert not subscriber.compress
                await server.publish_payload("payload")
                message = await subscriber.receive(timeout=30)
    finally:
        await runner.cleanup()
    assert salt.payload.loads(message.data) == "payload"


async def test_publications_after_a_connection_was_lost(server):
    """
    They go over a new one
    """
    lost, new = MagicMock(drain=AsyncMock()), MagicMock(drain=AsyncMock())
    lost.is_closing.return_value = True
    server.pub_writer = lost

    async def connect():
        server.pub_writer = new

    with patch.object(server, "connect", connect):
        await server.publish("payload")
    assert new.write.called and not lost.write.called


@pytest.mark.parametrize("message", [5, None, [], {}, "enc", {"enc": "aes"}])
async def test_messages_that_identify_nobody(message):
    """
    They cause no error, and the connection is closed
    """
    channel = salt.channel.server.PubServerChannel.__new__(
        salt.channel.server.PubServerChannel
    )
    channel.opts = {}
    channel.unidentified_pause = 0
    subscriber = MagicMock()
    await channel.presence_callback(subscriber, message)
    assert subscriber.close.called


async def test_a_message_that_does_not_end(caplog):
    """
    A client that sends one does not fill the memory
    """
    server = salt.transport.tcp.PubServer({"pub_server_niceness": None})
    # A list of very many lists
    reads = [b"\xdd\x01\x00\x00\x00", *[b"\x90" * 4096] * 300]
    client = MagicMock(address=("127.0.0.1", 1))

    async def read_bytes(size, partial):
        return reads.pop(0)

    client.stream.read_bytes = read_bytes
    await server._stream_read(client)
    assert client.close.called and len(reads) == 44
    assert caplog.text.count("sends what is no message") == 1


@pytest.mark.parametrize(
    "rubbish",
    [
        b"\xc1" * 10,
        b"GET / HTTP/1.1\r\n\r\n",
        salt.utils.msgpack.packb([1, 2]),
        salt.utils.msgpack.packb({"head": {}}),
    ],
)
async def test_a_client_of_tcp_that_sends_rubbish(caplog, rubbish):
    """
    One line in the log, and it is gone
    """
    heard = []
    server = salt.transport.tcp.PubServer(
        {"pub_server_niceness": None},
        presence_callback=lambda client, body: heard.append(body),
    )
    reads = [salt.transport.frame.frame_msg("right"), rubbish, b"more", b"more"]
    client = MagicMock(address=("127.0.0.1", 1))

    async def read_bytes(size, partial):
        return reads.pop(0)

    client.stream.read_bytes = read_bytes
    server.clients.add(client)
    await server._stream_read(client)
    assert heard == ["right"]
    assert client.close.called and not server.clients
    (record,) = (one for one in caplog.records if one.levelname == "WARNING")
    assert "sends what is no message" in record.getMessage()
    assert "Traceback" not in caplog.text
