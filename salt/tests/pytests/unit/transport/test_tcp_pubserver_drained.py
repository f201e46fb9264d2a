"""
A subscriber of the event bus that reads fast is not dropped as slow.
"""

# pylint: disable=protected-access

import asyncio
import socket

import pytest
import tornado.iostream

import salt.transport.tcp

EVENTS = 500

linux = pytest.mark.skip_unless_on_linux(
    reason="Elsewhere what a socket pair takes at once differs"
)


class Connection:
    """
    A publisher with one subscriber, whose events come without a pause.
    """

    def __init__(self, opts, limit=50):
        self.server = salt.transport.tcp.PubServer(
            {**opts, "pub_server_write_queue_size": limit},
            io_loop=asyncio.get_running_loop(),
        )
        ours, self.theirs = socket.socketpair()
        self.stream = tornado.iostream.IOStream(ours)
        self.server.handle_stream(self.stream, "subscriber")

    async def publish(self, count, size=10, reads=True):
        """
        Publish events, of which the subscriber reads each at once or none.
        """
        for _ in range(count):
            await self.server.publish_payload(b"", raw_payload=b"x" * size)
            if reads:
                self.theirs.recv(size)

    def read_all(self):
        """
        Return the number of bytes that the subscriber can read without waiting.
        """
        count = 0
        self.theirs.setblocking(False)
        try:
            while True:
                got = len(self.theirs.recv(65536))
                if not got:
                    return count
                count += got
        except BlockingIOError:
            return count
        finally:
            self.theirs.setblocking(True)

    async def close(self):
        drainers = [task for _, task in self.server._writers.values()]
        self.server.close()
        self.theirs.close()
        # Before Python 3.12, wait_for swallows a cancellation if its write is done
        for _ in range(10):
            for drainer in drainers:
                drainer.cancel()
            await asyncio.sleep(0)
        assert all(drainer.done() for drainer in drainers)


async def test_fast_subscriber_stays(master_opts):
    connection = Connection(master_opts)
    try:
        await connection.publish(EVENTS)
        assert len(connection.server.clients) == 1
    finally:
        await connection.close()


@linux
async def test_fast_write_behind_pending_ones(master_opts):
    """
    A write that is done is not queued while the drainer has others to await.
    """
    connection = Connection(master_opts)
    client = next(iter(connection.server.clients))
    published = 0
    try:
        while client not in connection.server._writers:
            await connection.publish(1, size=65536, reads=False)
            published += 65536
        queue, _ = connection.server._writers[client]
        read = connection.read_all()
        await connection.publish(1, size=10, reads=False)
        assert not client.stream.writing()
        assert queue.qsize() == 1
        for _ in range(10):
            await asyncio.sleep(0)
        assert queue.empty()
        assert client in connection.server.clients
        assert read + connection.read_all() == published + 10
    finally:
        await connection.close()


@linux
@pytest.mark.parametrize("limit", [50, 0, -1])
async def test_fast_subscriber_that_is_full_for_moments(
    master_opts, monkeypatch, limit
):
    """
    Writes that were not done at once are forgotten when they are, also while events
    come without a pause, and if the queue has no limit.
    """
    monkeypatch.setattr(
        salt.transport.tcp.PubServer, "_DEFAULT_WRITE_QUEUE_MAXSIZE", 50
    )
    connection = Connection(master_opts, limit)
    client = next(iter(connection.server.clients))
    try:
        for _ in range(EVENTS):
            while not client.stream.writing():
                assert client in connection.server.clients
                await connection.publish(1, size=65536, reads=False)
            while connection.read_all():
                # what tornado does when the socket can be written to again
                client.stream._handle_write()
        assert client in connection.server.clients
        queue, _ = connection.server._writers[client]
        assert queue.qsize() <= 50
    finally:
        await connection.close()


async def test_slow_subscriber_is_dropped(master_opts):
    connection = Connection(master_opts)
    try:
        await connection.publish(EVENTS, size=65536, reads=False)
        assert not connection.server.clients
    finally:
        await connection.close()


async def test_closed_subscriber_is_dropped(master_opts):
    """
    Whose write fails at once, so that the drainer has to see it.
    """
    connection = Connection(master_opts)
    connection.stream.set_close_callback(None)
    try:
        connection.theirs.close()
        await connection.publish(1, reads=False)
        for _ in range(10):
            await asyncio.sleep(0)
        assert not connection.server.clients
    finally:
        await connection.close()
