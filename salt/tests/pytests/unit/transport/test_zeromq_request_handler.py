"""
Unit tests for what a worker does with a request that it cannot handle.
"""

# pylint: disable=protected-access

import pytest

import salt.payload
import salt.transport.zeromq
from tests.support.mock import AsyncMock, patch

zmq = pytest.importorskip("zmq")


class Socket:
    """
    A REP socket with so many requests in it
    """

    def __init__(self, server, waiting):
        self.server = server
        self.waiting = waiting
        self.sent = []

    async def poll(self, timeout):
        if not self.waiting:
            self.server._event.set()
        return self.waiting

    async def recv(self, flags=0):
        if not self.waiting:
            raise zmq.error.Again
        self.waiting -= 1
        return b"request"

    async def send(self, reply):
        self.sent.append(reply)


async def test_a_worker_goes_on_after_a_request_that_fails(master_opts):
    """
    A request that raises has an answer, as the socket takes no other one
    before
    """
    server = salt.transport.zeromq.RequestServer(master_opts)
    server._socket = Socket(server, 3)
    answers = AsyncMock(side_effect=["done", TypeError("version"), "done"])
    with patch.object(server, "handle_message", answers):
        await server.request_handler()
    sent = [salt.payload.loads(reply) for reply in server._socket.sent]
    assert sent == ["done", "Some exception handling minion payload", "done"]
