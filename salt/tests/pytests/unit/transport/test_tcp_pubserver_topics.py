"""
What is published to a list of minions goes to these, and costs no look at all others for
each of them.
"""

import asyncio

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
        self.dropped = dropped
        self.written = []

    def _submit_write(self, client, payload, to_remove):
        if client.id_ in self.dropped:
            to_remove.append(client)
            return False
        self.written.append(client.id_)
        return True


async def test_those_of_the_list(master_opts):
    server = Server(master_opts, ["web1", "web2", "web2", "web3", None])
    await server.publish_payload(b"job", ["web2", "gone", "web3"])
    assert server.written == ["web2", "web2", "web3"]
    server.clients.clear()
    server.close()


async def test_one_look_for_all(master_opts):
    ids = [f"web{number}" for number in range(200)]
    server = Server(master_opts, ids)
    await server.publish_payload(b"job", ids)
    assert server.written == ids
    assert server.clients.looks == 1
    server.clients.clear()
    server.close()


async def test_who_is_too_slow_is_dropped(master_opts):
    server = Server(master_opts, ["web1", "web2"], dropped=["web1"])
    await server.publish_payload(b"job", ["web1", "web2"])
    assert server.written == ["web2"]
    assert [client.id_ for client in server.clients] == ["web2"]
    server.clients.clear()
    server.close()


async def test_without_a_list_all_get_it(master_opts):
    server = Server(master_opts, ["web1", "web2"])
    await server.publish_payload(b"job")
    assert sorted(server.written) == ["web1", "web2"]
    server.clients.clear()
    server.close()
