"""
Requests that one client sends at once, before it is connected.
"""

import asyncio

import aiohttp.web
import pytest

import salt.payload
import salt.transport.frame
import salt.transport.tcp
import salt.transport.ws
import salt.utils.msgpack

REQUESTS = [{"number": number} for number in range(20)]


class _Server:
    """
    Answers each request with what it is, over the connection that it came from. The first
    one is answered last.
    """

    def __init__(self):
        self.connections = 0
        self.answered = 0
        self.others = asyncio.Event()
        self.server = self.runner = None

    async def turn(self, request):
        """
        Wait until a request may be answered.
        """
        if request["number"] == 0:
            await self.others.wait()
        self.answered += 1
        if self.answered == len(REQUESTS) - 1:
            self.others.set()


class _TCPServer(_Server):

    async def start(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        return self.server.sockets[0].getsockname()[1]

    async def stop(self):
        self.server.close()

    async def serve(self, reader, writer):
        self.connections += 1
        unpacker = salt.utils.msgpack.Unpacker(raw=False)
        while True:
            data = await reader.read(65536)
            if not data:
                writer.close()
                return
            unpacker.feed(data)
            for message in unpacker:
                asyncio.ensure_future(self.answer(writer, message))

    async def answer(self, writer, message):
        await self.turn(message["body"])
        frame = salt.transport.frame.frame_msg(message["body"], header=message["head"])
        writer.write(frame)


class _WSServer(_Server):
    async def start(self):
        self.runner = aiohttp.web.ServerRunner(aiohttp.web.Server(self.serve))
        await self.runner.setup()
        site = aiohttp.web.TCPSite(self.runner, "127.0.0.1", 0)
        await site.start()
        return self.runner.addresses[0][1]

    async def stop(self):
        await self.runner.cleanup()

    async def serve(self, request):
        self.connections += 1
        ws = aiohttp.web.WebSocketResponse()
        await ws.prepare(request)
        async for message in ws:
            await self.turn(salt.payload.loads(message.data))
            await ws.send_bytes(message.data)
        return ws


async def _replies(server, module, opts, talk=None):
    port = await server.start()
    opts = {**opts, "master_uri": f"tcp://127.0.0.1:{port}"}
    client = module.RequestClient(opts, asyncio.get_running_loop())
    try:
        talk = talk or _ask_all
        return await asyncio.wait_for(talk(client), 60)
    finally:
        client.close()
        await asyncio.sleep(0.1)
        await server.stop()


async def _ask_all(client):
    return await asyncio.gather(*(client.send(request) for request in REQUESTS))


transports = pytest.mark.parametrize(
    "module, kind",
    [(salt.transport.tcp, _TCPServer), (salt.transport.ws, _WSServer)],
    ids=["tcp", "ws"],
)


@transports
def test_caller_that_gives_up(minion_opts, module, kind):
    """
    Its reply comes later, and disturbs nobody.
    """

    async def talk(client):
        first = asyncio.ensure_future(client.send(REQUESTS[0]))
        await asyncio.sleep(0.1)
        first.cancel()
        ret = await asyncio.gather(*(client.send(one) for one in REQUESTS[1:]))
        await asyncio.sleep(0.1)
        return [*ret, await client.send(REQUESTS[1])]

    async def run():
        return await _replies(kind(), module, minion_opts, talk)

    assert asyncio.run(run()) == [*REQUESTS[1:], REQUESTS[1]]


@transports
def test_each_request_gets_its_reply(minion_opts, module, kind):
    async def run():
        # Python 3.9 binds what it makes to the loop that runs
        return await _replies(kind(), module, minion_opts)

    assert asyncio.run(run()) == REQUESTS


def test_requests_share_a_tcp_connection(minion_opts):
    async def run():
        server = _TCPServer()
        await _replies(server, salt.transport.tcp, minion_opts)
        return server.connections

    assert asyncio.run(run()) == 1
