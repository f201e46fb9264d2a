"""
Unit tests for the blocking sender of the event bus.
"""

# pylint: disable=protected-access

import asyncio
import multiprocessing
import os
import signal
import socket
import struct
import threading

import pytest
import tornado.iostream

import salt.config
import salt.transport.tcp
import salt.utils.event
import salt.utils.msgpack
from tests.support.mock import MagicMock, patch

pytestmark = [
    pytest.mark.skip_on_windows(reason="Unix sockets"),
]


class Bus:
    """
    The other side: takes connections, and returns the bodies of the frames of
    each in the order in which they came
    """

    def __init__(self, family, address):
        self.family = family
        self.address = address
        self.sock = socket.socket(family, socket.SOCK_STREAM)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.sock.bind(address)
        self.sock.listen(128)
        self.sock.settimeout(30)
        self.streams = []

    def accept(self):
        stream = self.sock.accept()[0]
        stream.settimeout(30)
        self.streams.append(stream)
        return stream.makefile("rb")

    @staticmethod
    def frame(stream):
        length = stream.read(4)
        if not length:
            return None
        size = struct.unpack(">I", length)[0]
        return salt.utils.msgpack.unpackb(stream.read(size), raw=True)[b"body"]

    def close(self):
        for sock in [self.sock, *self.streams]:
            sock.close()


@pytest.fixture
def path(tmp_path):
    # a Unix socket's path must be short
    where = os.path.join("/tmp", f"salt-{os.getpid()}-{os.urandom(4).hex()}.ipc")
    yield where
    if os.path.exists(where):
        os.unlink(where)


@pytest.fixture
def bus(path):
    found = Bus(socket.AF_UNIX, path)
    yield found
    found.close()


@pytest.fixture
def publisher(path):
    with salt.transport.tcp._SyncPubServerPublisher(None, None, path) as found:
        yield found


def test_frames_are_those_of_the_coroutine(bus, publisher, path):
    """
    The bytes are what the other publisher sends
    """
    publisher.send(b"tag\n\nbody")
    mine = bus.accept().read1()

    async def send():
        other = salt.transport.tcp._TCPPubServerPublisher(None, None, path)
        await other.send(b"tag\n\nbody")
        other.close()

    asyncio.run(send())
    assert bus.accept().read() == mine


def test_tcp():
    bus = Bus(socket.AF_INET, ("127.0.0.1", 0))
    port = bus.sock.getsockname()[1]
    try:
        with salt.transport.tcp._SyncPubServerPublisher(
            "127.0.0.1", port, None
        ) as publisher:
            publisher.send(b"one")
            assert bus.frame(bus.accept()) == b"one"
    finally:
        bus.close()


def test_connects_again(bus, publisher):
    """
    The event that finds its connection gone goes out over a new one
    """
    publisher.send(b"one")
    stream = bus.accept()
    assert bus.frame(stream) == b"one"
    stream.close()
    bus.streams.pop().close()
    publisher.send(b"two")
    assert bus.frame(bus.accept()) == b"two"


def test_the_bus_is_gone(bus, publisher, path):
    """
    Without a bus the event is lost, with the error of a stream; the next one
    that finds one gets through
    """
    publisher.send(b"one")
    bus.accept().close()
    bus.close()
    os.unlink(path)
    with pytest.raises(tornado.iostream.StreamClosedError) as error:
        publisher.send(b"two")
    assert isinstance(error.value.real_error, OSError)
    other = Bus(socket.AF_UNIX, path)
    publisher.send(b"three")
    assert other.frame(other.accept()) == b"three"
    other.close()


def test_a_bus_that_takes_nothing(publisher):
    """
    It is tried once more, not for ever
    """
    sock = MagicMock()
    sock.sendall.side_effect = BrokenPipeError
    with patch("socket.socket", return_value=sock):
        publisher.connect()
        with pytest.raises(tornado.iostream.StreamClosedError):
            publisher.send(b"one")
        assert sock.sendall.call_count == 2
        # this one has no connection of before
        with pytest.raises(tornado.iostream.StreamClosedError):
            publisher.send(b"two")
    assert sock.sendall.call_count == 3
    assert not publisher.connected()


def test_a_bus_that_does_not_read(bus, publisher):
    """
    Who sends is not held for good, and half a frame is not followed by another one
    """
    publisher.send_timeout = 0.2
    with pytest.raises(tornado.iostream.StreamClosedError) as caught:
        publisher.send(b"x" * 2**24)
    assert isinstance(caught.value.real_error, socket.timeout)
    assert not publisher.connected()
    bus.accept()
    publisher.send(b"next")
    assert bus.frame(bus.accept()) == b"next"


def test_nobody_there(publisher):
    with pytest.raises(tornado.iostream.StreamClosedError):
        publisher.send(b"one")
    with pytest.raises(tornado.iostream.StreamClosedError):
        publisher.connect(timeout=0.05)
    assert not publisher.connected()


def test_waits_for_the_bus(publisher, path):
    """
    Within its time connect tries again
    """
    buses = []

    def later(seconds):
        if not buses:
            buses.append(Bus(socket.AF_UNIX, path))

    with patch("time.sleep", later):
        assert publisher.connect(timeout=30)
    publisher.send(b"one")
    assert buses[0].frame(buses[0].accept()) == b"one"
    buses[0].close()


def test_a_bus_that_takes_no_connection(path):
    """
    A full backlog is no reason to wait for longer than was said
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as full:
        full.bind(path)
        full.listen(0)
        waiting = []
        while True:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            waiting.append(sock)
            sock.setblocking(False)
            try:
                sock.connect(path)
            except BlockingIOError:
                break
        publisher = salt.transport.tcp._SyncPubServerPublisher(None, None, path)
        with patch.object(publisher, "connect_timeout", 0.1):
            with pytest.raises(tornado.iostream.StreamClosedError):
                publisher.connect(timeout=0.1)
        assert not publisher.connected()
        for sock in waiting:
            sock.close()


def test_limit(bus, path):
    """
    A message above the limit is refused as a stream refuses it, the next sent
    """
    with salt.transport.tcp._SyncPubServerPublisher(
        None, None, path, max_write_buffer_size=1000
    ) as publisher:
        with pytest.raises(tornado.iostream.StreamBufferFullError):
            publisher.send(b"x" * 1000)
        publisher.send(b"one")
        assert bus.frame(bus.accept()) == b"one"


def test_threads(bus, publisher):
    """
    Frames of many threads are whole, and each thread's in order
    """
    sizes = (10, 70_000, 300_000)

    def send(thread):
        for number in range(30):
            head = b"%d %d " % (thread, number)
            publisher.send(head + b"x" * sizes[number % len(sizes)])

    publisher.connect()
    stream = bus.accept()
    threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
    for one in threads:
        one.start()
    seen = {number: [] for number in range(4)}
    for _ in range(4 * 30):
        thread, number, rest = bus.frame(stream).split(b" ")
        assert rest == b"x" * sizes[int(number) % len(sizes)]
        seen[int(thread)].append(int(number))
    for one in threads:
        one.join()
    assert all(numbers == list(range(30)) for numbers in seen.values())


def _send_in_child(publisher):
    publisher.send(b"child")


def test_fork(bus, publisher):
    """
    A forked child has a connection of its own, and the parent keeps its own,
    whoever held the lock meanwhile
    """
    publisher.send(b"parent")
    mine = bus.accept()
    assert bus.frame(mine) == b"parent"
    with publisher._lock:
        child = multiprocessing.get_context("fork").Process(
            target=_send_in_child, args=(publisher,)
        )
        child.start()
    theirs = bus.accept()
    assert bus.frame(theirs) == b"child"
    child.join(30)
    assert child.exitcode == 0
    publisher.send(b"parent again")
    assert bus.frame(mine) == b"parent again"


class _Interrupt(Exception):
    pass


def test_half_a_frame(bus, publisher):
    """
    What a signal handler raises in the middle of a frame ends the connection:
    the next frame would be taken for the rest of this one
    """

    def interrupt(number, frame):
        raise _Interrupt

    def when_it_is_in_the_middle():
        stream.read(1000)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGALRM)

    publisher.connect()
    stream = bus.accept()
    killer = threading.Thread(target=when_it_is_in_the_middle)
    old = signal.signal(signal.SIGALRM, interrupt)
    try:
        killer.start()
        with pytest.raises(_Interrupt):
            # much more than fits into the kernel's buffer
            publisher.send(b"x" * 20_000_000)
    finally:
        signal.signal(signal.SIGALRM, old)
        killer.join()
    publisher.send(b"whole")
    assert bus.frame(bus.accept()) == b"whole"
    assert len(stream.read()) < 20_000_000


@pytest.fixture
def event(tmp_path):
    sock_dir = os.path.dirname("/tmp/")
    opts = salt.config.master_config(None)
    opts["ipc_mode"] = "tcp"
    bus = Bus(socket.AF_INET, ("127.0.0.1", 0))
    opts["tcp_master_pull_port"] = bus.sock.getsockname()[1]
    with salt.utils.event.get_master_event(opts, sock_dir, listen=False) as found:
        found.bus = bus
        yield found
    bus.close()


def _unpacked(event, stream):
    return salt.utils.event.SaltEvent.unpack(event.bus.frame(stream))


@pytest.mark.parametrize("running", [True, False])
def test_fire_event_without_a_thread(event, running):
    """
    An event takes no thread and no turn of an event loop, whether one is
    running, as in a master worker, or not
    """

    async def fire():
        event.fire_event({"number": 1}, "one")

    event.connect_pull()
    stream = event.bus.accept()
    with patch("threading.Thread.start", side_effect=AssertionError), patch(
        "tornado.ioloop.IOLoop.run_sync", side_effect=AssertionError
    ):
        if running:
            asyncio.run(fire())
        else:
            event.fire_event({"number": 1}, "one")
    tag, data = _unpacked(event, stream)
    assert (tag, data["number"]) == ("one", 1)


def test_fire_event_when_the_bus_has_gone(event):
    """
    Another one gets the event; without any the error comes out, as it always did
    """
    assert event.fire_event({"number": 1}, "one")
    event.bus.accept().close()
    event.bus.streams.pop().close()
    assert event.fire_event({"number": 2}, "two")
    stream = event.bus.accept()
    assert _unpacked(event, stream)[0] == "two"
    stream.close()
    event.bus.close()
    with pytest.raises(tornado.iostream.StreamClosedError):
        # the first one may still fit into the kernel's buffer
        for _ in range(10):
            event.fire_event({"number": 3}, "three")


def test_fire_event_async(event):
    async def fire():
        await event.fire_event_async({"number": 1}, "one")

    asyncio.run(fire())
    assert _unpacked(event, event.bus.accept())[0] == "one"


def test_fire_event_with_master_async_mworker(event):
    """
    With the option on everything stays as it is
    """
    event.opts["master_async_mworker"] = True
    event.connect_pull()
    with patch.object(event.pusher.obj, "publish_sync", side_effect=AssertionError):
        assert event.fire_event({"number": 1}, "one")
    event.bus.accept()
    assert _unpacked(event, event.bus.accept())[0] == "one"
