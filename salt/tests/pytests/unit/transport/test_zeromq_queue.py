"""
Unit tests for the process that hands requests to the workers, and for how a
worker takes them.
"""

# pylint: disable=protected-access

import asyncio
import multiprocessing
import os
import shutil
import signal
import socket
import tempfile

import pytest

import salt.config
import salt.exceptions
import salt.payload
import salt.transport.zeromq
from tests.support.mock import AsyncMock, MagicMock, patch

zmq = pytest.importorskip("zmq")

pytestmark = [
    pytest.mark.skip_on_windows(reason="Unix sockets"),
]

ONE = {"default": {"worker_count": 2, "commands": ["*"]}}
TWO = {
    "fast": {"worker_count": 1, "commands": ["test_fast"]},
    "default": {"worker_count": 1, "commands": ["*"]},
}
ANSWER_MS = 30000
# Kept, as their finalizer waits for peers that have gone
CONTEXTS = []


@pytest.fixture
def opts():
    # a Unix socket's path must be short
    sock_dir = tempfile.mkdtemp(dir="/tmp")
    opts = salt.config.master_config(None)
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    opts.update(sock_dir=sock_dir, interface="127.0.0.1", ret_port=port)
    yield opts
    shutil.rmtree(sock_dir)


def _serve(opts, pools, unpack):
    opts["worker_pools"] = pools
    if not unpack:
        salt.payload.loads = MagicMock(side_effect=AssertionError("unpacked"))
    salt.transport.zeromq.RequestServer(opts).zmq_device_pooled(pools)


class Queue:
    def __init__(self, opts, pools, unpack=True):
        self.opts = opts
        self.process = multiprocessing.get_context("fork").Process(
            target=_serve, args=(opts, pools, unpack)
        )
        self.process.start()
        # not before the fork: libzmq does not survive one
        self.context = zmq.Context()
        CONTEXTS.append(self.context)
        self.sockets = []

    def client(self):
        sock = self.context.socket(zmq.REQ)
        self.sockets.append(sock)
        sock.setsockopt(zmq.RCVTIMEO, ANSWER_MS)
        sock.connect("tcp://127.0.0.1:{ret_port}".format(**self.opts))
        return sock

    def worker(self, pool):
        sock = self.context.socket(zmq.REP)
        self.sockets.append(sock)
        sock.setsockopt(zmq.RCVTIMEO, ANSWER_MS)
        sock.connect("ipc://{}/workers-{}.ipc".format(self.opts["sock_dir"], pool))
        return sock

    def stop(self):
        if self.process.is_alive():
            os.kill(self.process.pid, signal.SIGTERM)
        self.process.join(30)
        code = self.process.exitcode
        if code is None:
            self.process.kill()
        return code


@pytest.fixture
def start(opts):
    queues = []

    def begin(pools, unpack=True):
        queues.append(Queue(opts, pools, unpack))
        return queues[-1]

    yield begin
    for queue in queues:
        queue.stop()
        for sock in queue.sockets:
            sock.close(linger=0)


@pytest.mark.parametrize(
    "request_", [salt.payload.dumps({"enc": "aes", "load": b"\xff" * 300}), b"\xc1junk"]
)
def test_one_pool_is_not_unpacked(start, request_):
    """
    Where there is one pool nothing depends on the content
    """
    queue = start(ONE, unpack=False)
    worker, client = queue.worker("default"), queue.client()
    client.send(request_)
    poller = zmq.Poller()
    poller.register(worker, zmq.POLLIN)
    poller.register(client, zmq.POLLIN)
    # a refusal would come to the client
    assert poller.poll(ANSWER_MS) == [(worker, zmq.POLLIN)]
    assert worker.recv() == request_
    worker.send(b"answer")
    assert client.recv() == b"answer"


def test_one_pool_answers_whom_it_should(start):
    """
    Many clients and two workers: everybody gets the answer to his own question
    """
    queue = start(ONE)
    workers = [queue.worker("default") for _ in range(2)]
    clients = [queue.client() for _ in range(20)]
    poller = zmq.Poller()
    for worker in workers:
        poller.register(worker, zmq.POLLIN)
    for turn in range(5):
        for number, client in enumerate(clients):
            client.send(salt.payload.dumps({"load": {"cmd": "x", "n": number + turn}}))
        for _ in clients:
            worker = poller.poll(ANSWER_MS)[0][0]
            worker.send(worker.recv())
        for number, client in enumerate(clients):
            answer = salt.payload.loads(client.recv())
            assert answer["load"]["n"] == number + turn


def test_several_pools_are_routed(start):
    queue = start(TWO)
    client = queue.client()
    workers = {pool: queue.worker(pool) for pool in TWO}
    for cmd, pool in (("test_fast", "fast"), ("other", "default")):
        request = salt.payload.dumps({"enc": "clear", "load": {"cmd": cmd}})
        client.send(request)
        assert workers[pool].recv() == request
        workers[pool].send(b"answer")
        assert client.recv() == b"answer"


def test_several_pools_refuse_what_cant_be_unpacked(start):
    client = start(TWO).client()
    client.send(b"\xc1junk")
    assert salt.payload.loads(client.recv()) == {"error": "Routing error"}


@pytest.mark.parametrize("pools", [ONE, TWO])
def test_the_queue_ends(start, pools):
    """
    A signal ends the process whichever loop it is in
    """
    queue = start(pools)
    worker, client = queue.worker("default"), queue.client()
    client.send(salt.payload.dumps({"enc": "clear", "load": {"cmd": "other"}}))
    # a signal that comes while the queue works must not be lost either
    worker.recv()
    assert queue.stop() == 0


def test_the_queue_ends_under_load(start):
    """
    So it is with requests that don't stop coming
    """
    queue = start(ONE)
    worker, clients = queue.worker("default"), [queue.client() for _ in range(50)]
    request = salt.payload.dumps({"enc": "clear", "load": {"cmd": "other"}})
    for client in clients:
        client.send(request)
    answered = 0
    while answered < 200:
        if worker.poll(10):
            worker.send(worker.recv())
            answered += 1
        for client in clients:
            if client.poll(0):
                client.recv()
                client.send(request)
    assert queue.stop() == 0


@pytest.mark.parametrize(
    "pool, wanted", [("default", {"error": "Routing error"}), ("", {"msg": "bad load"})]
)
async def test_a_worker_refuses_what_cant_be_unpacked(opts, pool, wanted):
    """
    The worker of a pool gives the answer that the queue gave
    """
    opts["pool_name"] = pool
    server = salt.transport.zeromq.RequestServer(opts)
    server.message_handler = MagicMock(side_effect=AssertionError)
    assert await server.handle_message(None, b"\xc1junk") == wanted


class Socket:
    """
    A REP socket with so many requests in it
    """

    def __init__(self, server, waiting):
        self.server = server
        self.waiting = waiting
        self.polls = 0
        self.sent = []

    async def poll(self, timeout):
        self.polls += 1
        self.server._event.set()
        return 0

    async def recv(self, flags=0):
        if not self.waiting:
            if flags & zmq.NOBLOCK:
                raise zmq.error.Again
            raise AssertionError("would wait for ever")
        self.waiting -= 1
        return b"request"

    async def send(self, reply):
        self.sent.append(reply)


async def test_a_worker_takes_what_waits(opts):
    """
    As long as requests are there it does not poll for them, and other tasks
    have their turn in between
    """
    server = salt.transport.zeromq.RequestServer(opts)
    server._socket = Socket(server, 10)
    turns = []

    async def other():
        while not server._event.is_set():
            turns.append(len(server._socket.sent))
            await asyncio.sleep(0)

    task = asyncio.ensure_future(other())
    with patch.object(server, "handle_message", AsyncMock(return_value="done")):
        await server.request_handler()
    await task
    assert len(server._socket.sent) == 10
    assert server._socket.polls == 1
    assert set(range(1, 10)) <= set(turns)


async def test_a_worker_whose_socket_takes_nothing_waits(opts):
    """
    A socket in a wrong state is asked again after a pause, not at once
    """
    server = salt.transport.zeromq.RequestServer(opts)
    server._socket = Socket(server, 0)
    error = zmq.error.ZMQError(zmq.EFSM)
    with patch.object(server._socket, "recv", AsyncMock(side_effect=error)) as recv:
        await server.request_handler()
    assert server._socket.polls == 1
    assert recv.await_count == 1
