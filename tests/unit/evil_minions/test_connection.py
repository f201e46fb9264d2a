"""Connections and their epoll: peers that read slowly, hang up or fail, and what is left behind."""

from __future__ import annotations

import asyncio
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from evil_minions.network.connection import Connection, Poller

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

SECONDS = 10.0
RESET = struct.pack("ii", 1, 0)
LARGE = bytes(range(256)) * 40_000


class Note:
    """Notes what a connection tells; `then` is called when it has noted bytes."""

    def __init__(self, buffer: memoryview) -> None:
        """Begin with nothing noted."""
        self.buffer = buffer
        self.made = asyncio.Event()
        self.lost = asyncio.Event()
        self.heard = asyncio.Event()
        self.losses = 0
        self.bytes = b""
        self.then: Callable[[], None] = lambda: None

    def connection_made(self, connection: Connection) -> None:  # noqa: ARG002 - a reader's signature
        """Note it."""
        self.made.set()

    def received_bytes(self, count: int) -> None:
        """Note them."""
        self.bytes += bytes(self.buffer[:count])
        self.heard.set()
        self.then()

    def connection_lost(self) -> None:
        """Note it."""
        self.losses += 1
        self.lost.set()


class Place:
    """A listening socket, and connections to it."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        """Listen."""
        self.loop = asyncio.get_running_loop()
        self.listener = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        self.address: tuple[str, int] = self.listener.getsockname()[:2]
        self.poller = Poller(self.loop)
        self.buffer = memoryview(bytearray(65536))

    def open(self) -> tuple[Connection, Note]:
        """Begin to connect."""
        note = Note(self.buffer)
        connection = Connection(self.loop, self.poller, self.buffer, note)
        connection.connect(self.address)
        return connection, note

    async def pair(self) -> tuple[Connection, Note, socket.socket]:
        """Return a connection, what it notes, and the other end of it."""
        connection, note = self.open()
        peer, _ = self.listener.accept()
        await note.made.wait()
        return connection, note, peer


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    """Run a scenario, with an end."""

    async def bounded() -> None:
        await asyncio.wait_for(scenario(), SECONDS)

    asyncio.run(bounded())


@pytest.fixture(autouse=True)
def _descriptors() -> Iterator[None]:
    """See to it that no socket of the connections is left open."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    yield
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 2, "a descriptor was left behind"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_bytes_both_ways(host: str) -> None:
    """What either end writes arrives, over IPv4 and IPv6."""

    async def scenario() -> None:
        try:
            place = Place(host)
        except OSError:
            pytest.skip("no IPv6 here")
        connection, note, peer = await place.pair()
        with peer, place.listener:
            peer.sendall(b"hello")
            await note.heard.wait()
            connection.write(b"hello yourself")
            assert (note.bytes, peer.recv(100)) == (b"hello", b"hello yourself")
            connection.abort()
            assert peer.recv(100) == b""
        assert note.losses == 0

    run(scenario)


def test_peer_that_reads_slowly() -> None:
    """What the system doesn't take at once is kept, in order, and written when the peer reads."""

    async def scenario() -> None:
        place = Place()
        connection, note, peer = await place.pair()
        with peer, place.listener:
            for start in range(0, len(LARGE), 1_000_000):
                connection.write(LARGE[start : start + 1_000_000])
            assert connection.unwritten()
            peer.setblocking(False)
            received = b""
            while len(received) < len(LARGE):
                received += await place.loop.sock_recv(peer, 1_000_000)
            assert received == LARGE
            assert not connection.unwritten()
            peer.sendall(b"thanks")
            await note.heard.wait()
            connection.abort()

    run(scenario)


@pytest.mark.parametrize("reset", [False, True])
def test_peer_that_hangs_up(*, reset: bool) -> None:
    """The end is told once, also if there was something to write, and what is written after it is lost."""

    async def scenario() -> None:
        place = Place()
        connection, note, peer = await place.pair()
        with place.listener:
            connection.write(LARGE)
            if reset:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            peer.close()
            await note.lost.wait()
            connection.write(b"too late")
            connection.abort()
            await asyncio.sleep(0.05)
        assert (note.losses, connection.unwritten()) == (1, 0)

    run(scenario)


def test_writing_to_a_peer_that_has_gone() -> None:
    """An error at writing is told like any other end, but not before whoever writes is done."""

    async def scenario() -> None:
        place = Place()
        connection, note, peer = await place.pair()
        with place.listener:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            peer.close()
            connection.write(b"first")
            connection.write(b"second")
            assert note.losses == 0
            await note.lost.wait()
            await asyncio.sleep(0.05)
        assert note.losses == 1

    run(scenario)


def test_pause() -> None:
    """While paused nothing is heard, not even the end, and the process stays idle; afterwards all of it."""

    async def scenario() -> None:
        place = Place()
        connection, note, peer = await place.pair()
        with place.listener:
            connection.pause_reading()
            peer.sendall(b"unheard")
            peer.close()
            await asyncio.sleep(0.1)
            assert (note.bytes, note.losses) == (b"", 0)
            connection.resume_reading()
            await note.lost.wait()
        assert (note.bytes, note.losses) == (b"unheard", 1)

    run(scenario)


def test_nobody_listens() -> None:
    """A port that nobody listens on is a loss, told once."""

    async def scenario() -> None:
        place = Place()
        place.listener.close()
        _, note = place.open()
        await note.lost.wait()
        assert (note.losses, note.made.is_set()) == (1, False)

    run(scenario)


def test_no_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that gives no socket is a loss, not an exception."""

    async def scenario() -> None:
        place = Place()
        with place.listener:

            def none(*_arguments: object) -> socket.socket:
                raise OSError("no more")

            with monkeypatch.context() as patch:
                patch.setattr(socket, "socket", none)
                _, note = place.open()
            assert note.losses == 1

    run(scenario)


def test_no_way_there() -> None:
    """An address that the system knows no way to is a loss at once, not a connection."""

    async def scenario() -> None:
        place = Place()
        with place.listener:
            # a multicast address takes no TCP
            place.address = ("224.0.0.1", 9)
            _, note = place.open()
            await note.lost.wait()
        assert (note.losses, note.made.is_set()) == (1, False)

    run(scenario)


def test_failure_of_one_leaves_the_others() -> None:
    """An exception of one reader is reported to the loop, and ends its connection; the others hear what is theirs."""

    async def scenario() -> None:
        place = Place()
        reported: list[object] = []
        place.loop.set_exception_handler(lambda _loop, details: reported.append(details["exception"]))
        pairs = [await place.pair() for _ in range(5)]

        def fail() -> None:
            raise RuntimeError("told to")

        pairs[1][1].then = fail
        with place.listener:
            for _, _, peer in pairs:
                peer.sendall(b"hello")
            for _, note, _ in pairs:
                await note.heard.wait()
            for connection, _, peer in pairs:
                connection.abort()
                peer.close()
        assert [str(error) for error in reported] == ["told to"]
        assert [note.bytes for _, note, _ in pairs] == [b"hello"] * 5
        assert [note.losses for _, note, _ in pairs] == [0, 1, 0, 0, 0]

    run(scenario)


def test_one_closes_the_other() -> None:
    """A connection that another one closes while both have something to read hears nothing any more."""

    async def scenario() -> None:
        place = Place()
        first, second = await place.pair(), await place.pair()
        heard: list[int] = []

        def close_other(mine: int) -> Callable[[], None]:
            def close() -> None:
                heard.append(mine)
                (first, second)[1 - mine][0].abort()

            return close

        first[1].then, second[1].then = close_other(0), close_other(1)
        with place.listener, first[2], second[2]:
            first[2].sendall(b"x")
            second[2].sendall(b"x")
            await asyncio.sleep(0.1)
            assert len(heard) == 1
            first[0].abort()
            second[0].abort()

    run(scenario)
