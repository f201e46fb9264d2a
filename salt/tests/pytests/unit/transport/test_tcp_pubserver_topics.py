"""
What is published to a list of minions goes to these, and costs no look at the connections
of others.
"""

# pylint: disable=protected-access,unbalanced-dict-unpacking

import asyncio
import gc
import time

import pytest

import salt.transport.frame
import salt.transport.tcp


class Client:
    """
    A subscriber.
    """

    def __init__(self, id_):
        self.id_ = id_
        self.address = id_

    def close(self):
        """
        Nothing to do.
        """


class Clients(set):
    """
    Subscribers that count how often all of them are looked at.
    """

    looks = 0

    def __iter__(self):
        self.looks += 1
        return super().__iter__()


class Server(salt.transport.tcp.PubServer):
    """
    A publisher that notes to whom it writes.
    """

    def __init__(self, opts, ids, dropped=()):
        super().__init__(opts, io_loop=asyncio.get_running_loop())
        self.clients = Clients(map(Client, ids))
        for client in set(self.clients):
            self.index_client(client)
        self.clients.looks = 0
        self.dropped = dropped
        self.written = []

    def _submit_write(self, client, payload, to_remove):
        if client.id_ in self.dropped:
            to_remove.append(client)
            return False
        self.written.append(client.id_)
        return True


@pytest.fixture
def made(master_opts):
    servers = []

    def make(ids, dropped=()):
        servers.append(Server(master_opts, ids, dropped))
        return servers[-1]

    yield make
    for server in servers:
        server.clients.clear()
        server.close()


async def test_those_of_the_list(made):
    server = made(["web1", "web2", "web2", "web3", None])
    await server.publish_payload(b"job", ["web2", "gone", "web3"])
    assert server.written == ["web2", "web2", "web3"]


@pytest.mark.parametrize("count", [1, 200])
async def test_no_look_at_the_others(made, count):
    ids = [f"web{number}" for number in range(200)]
    server = made(ids)
    await server.publish_payload(b"job", ids[:count])
    assert server.written == ids[:count]
    assert server.clients.looks == 0


async def test_who_is_too_slow_is_dropped(made):
    server = made(["web1", "web2"], dropped=["web1"])
    await server.publish_payload(b"job", ["web1", "web2"])
    assert server.written == ["web2"]
    assert [client.id_ for client in server.clients] == ["web2"]
    await server.publish_payload(b"job", ["web1", "web2"])
    assert server.written == ["web2", "web2"]


async def test_without_a_list_all_get_it(made):
    server = made(["web1", "web2"])
    await server.publish_payload(b"job")
    assert sorted(server.written) == ["web1", "web2"]


async def test_a_connection_that_is_gone(made):
    """
    It gets nothing, although something else still refers to it.
    """
    server = made(["web1", "web2"])
    gone = next(client for client in server.clients if client.id_ == "web1")
    server.clients.discard(gone)
    await server.publish_payload(b"job", ["web1"])
    assert server.written == []


async def test_ids_that_never_come_back(made):
    """
    The index keeps no entry for them, although no job names them: minions with ever new
    ids come and go.
    """
    server = made([])
    for number in range(5):
        client = Client(f"web{number % 3}")
        server.clients.add(client)
        server.index_client(client)
        if number:
            server.clients.discard(client)
    del client
    gc.collect()
    assert sorted(server._by_id) == ["web0"]
    assert len(server._by_id["web0"]) == 1
    await server.publish_payload(b"job", ["web0", "web1"])
    assert server.written == ["web0"]


async def test_a_connection_with_another_id(made):
    """
    A connection that gives another id gets the jobs of that one alone.
    """
    server = made(["web1"])
    (client,) = server.clients
    client.id_ = "web2"
    server.index_client(client)
    await server.publish_payload(b"job", ["web1", "web2"])
    assert server.written == ["web2"]


async def test_what_is_no_id_is_nobodys(made):
    """
    A list that is no list of ids keeps no job from those that it names.
    """
    server = made(["web1", None])
    await server.publish_payload(b"job", [["x"], None, 7, "web1"])
    assert server.written == ["web1"]


@pytest.mark.parametrize("late", [False, True])
async def test_a_presence_callback_that_fails(master_opts, late):
    """
    A connection gets the jobs of the id that the callback has set before it failed.
    """

    def fails(client, message):
        client.id_ = message["id"]
        raise RuntimeError("the event bus is away")

    async def fails_late(client, message):
        fails(client, message)

    server = salt.transport.tcp.PubServer(
        master_opts,
        io_loop=asyncio.get_running_loop(),
        presence_callback=fails_late if late else fails,
    )
    server.listen(0, address="127.0.0.1")
    (listening,) = server._sockets.values()
    reader, writer = await asyncio.open_connection(*listening.getsockname())
    try:
        writer.write(salt.transport.frame.frame_msg({"id": "web1"}))
        deadline = time.monotonic() + 10
        while not server._clients_of("web1"):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)
        await server.publish_payload(b"job", ["web1"])
        assert b"job" in await asyncio.wait_for(reader.read(4096), 10)
    finally:
        writer.close()
        server.stop()
        server.close()


async def test_over_sockets(master_opts):
    """
    Minions that connect, say who they are and leave: each gets its own jobs while it is
    there.
    """

    async def identify(client, message):
        client.id_ = message["id"]

    async def until(check):
        deadline = time.monotonic() + 10
        while not check():
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)

    server = salt.transport.tcp.PubServer(
        master_opts,
        io_loop=asyncio.get_running_loop(),
        presence_callback=identify,
    )
    server.listen(0, address="127.0.0.1")
    (listening,) = server._sockets.values()
    port = listening.getsockname()[1]
    streams = {}
    try:
        for id_ in ("web1", "web2"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(salt.transport.frame.frame_msg({"id": id_}))
            streams[id_] = reader, writer
        await until(lambda: {client.id_ for client in server.clients} == set(streams))
        await server.publish_payload(b"job", ["web2"])
        await server.publish_payload(b"another", ["web1"])
        assert b"job" in await asyncio.wait_for(streams["web2"][0].read(4096), 10)
        assert b"another" in await asyncio.wait_for(streams["web1"][0].read(4096), 10)
        streams["web2"][1].close()
        await until(lambda: len(server.clients) == 1)
        await server.publish_payload(b"job", ["web2"])
        await until(lambda: gc.collect() >= 0 and sorted(server._by_id) == ["web1"])
    finally:
        for _, writer in streams.values():
            writer.close()
        server.stop()
        server.close()
