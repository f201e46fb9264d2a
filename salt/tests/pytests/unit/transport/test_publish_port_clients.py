"""
What the publisher does with clients that do not read, send what is no message, or go
"""

# pylint: disable=protected-access

import asyncio
import contextlib
import socket

import aiohttp
import pytest

import salt.payload
import salt.transport.frame
import salt.transport.tcp
import salt.transport.ws
import salt.utils.msgpack
from tests.support.mock import MagicMock, patch


def _port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@contextlib.asynccontextmanager
async def _server(tmp_path):
    """
    A publisher of the transport ws
    """
    ret = salt.transport.ws.PublishServer(
        {"sock_dir": str(tmp_path), "ipv6": False},
        pub_host="127.0.0.1",
        pub_port=_port(),
        pull_path=str(tmp_path / "pull.ipc"),
    )
    task = asyncio.create_task(ret.publisher(ret.publish_payload))
    while not ret.started.is_set():
        await asyncio.sleep(0.01)
    yield ret
    # It ends the loop of its process
    with patch.object(asyncio.get_running_loop(), "stop"):
        ret.close()
        await task


async def _subscriber(session, server):
    ret = await session.ws_connect(f"ws://127.0.0.1:{server.pub_port}/ws")
    while not server.clients:
        await asyncio.sleep(0.01)
    return ret


async def _publish(server, payload):
    _, writer = await asyncio.open_unix_connection(server.pull_path)
    writer.write(salt.payload.dumps(payload, use_bin_type=True))
    await writer.drain()
    writer.close()
    await writer.wait_closed()


async def test_who_publishes_goes(tmp_path):
    """
    What others publish comes as before
    """
    ends = []
    real = asyncio.StreamReader.read

    async def read(self, size=-1):
        data = await real(self, size)
        if not data:
            ends.append(self)
        if len(ends) > 100:
            # Nothing else would run
            raise ConnectionError("It reads on at the end")
        return data

    with patch.object(asyncio.StreamReader, "read", read):
        await _publish_three_times(tmp_path)
    assert len(ends) == len(set(ends)) == 3


async def _publish_three_times(tmp_path):
    async with _server(tmp_path) as server, aiohttp.ClientSession() as session:
        subscriber = await _subscriber(session, server)
        for number in range(3):
            await _publish(server, {"number": number})
            message = await asyncio.wait_for(subscriber.receive_bytes(), 30)
            assert salt.payload.loads(message) == {"number": number}


async def test_subscribers_that_do_not_read(tmp_path, caplog):
    """
    They are disconnected at once, and the others get everything in order
    """
    async with _server(tmp_path) as server, aiohttp.ClientSession() as session:
        subscriber = await _subscriber(session, server)
        request = b"GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n"
        request += b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        request += b"Sec-WebSocket-Key: " + b"A" * 22 + b"==\r\n\r\n"
        stuck = []
        for _ in range(3):
            sock = socket.create_connection(("127.0.0.1", server.pub_port))
            sock.sendall(request)
            stuck.append(sock)
        while len(server.clients) < 4:
            await asyncio.sleep(0.01)
        with patch.object(server, "patience", 0.5):
            for number in range(40):
                await server.publish_payload(b"%d" % number * [500000, 1][number % 2])
                message = await asyncio.wait_for(subscriber.receive_bytes(), 30)
                assert salt.payload.loads(message).startswith(str(number))
        assert len(server.clients) == 1
        assert caplog.text.count("does not read, and is disconnected") == 3
        for sock in stuck:
            sock.close()


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
