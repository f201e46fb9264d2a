"""Simulated networks: what is said of one, what it does to bytes, and which minions are behind it."""

from __future__ import annotations

import asyncio
import random
import socket
import time
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pytest

from evil_minions.errors import UsageError
from evil_minions.fleet.ramp import placed
from evil_minions.network.connection import Connection, Poller
from evil_minions.network.path import Lane, NetworkPath, Region
from evil_minions.network.ports import TRANSPORTS, NetworkMap, Partition
from evil_minions.network.wire import Endpoint
from evil_minions.rng import Assignment
from evil_minions.samples import Counters
from tests.unit.evil_minions import fleets

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Awaitable, Callable

    from tests.unit.evil_minions.conftest import Clock

SECONDS = 20.0
Chance = random.Random


def test_words_of_a_network() -> None:
    """Words name a path and whose it is."""
    assert Region.parse("rtt_ms=80 jitter_ms=5 loss=1% bandwidth_mbit=10 share=30%") == Region(
        NetworkPath(80.0, 5.0, 0.01, 10.0), 0.3
    )
    assert Region.parse("rtt_ms=5") == Region(NetworkPath(5.0), 1.0)
    assert Region.parse("loss=0.5 tgt='G@os:Debian and web*' tgt_type=compound") == Region(
        NetworkPath(loss=0.5), None, "G@os:Debian and web*", "compound"
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "says nothing of a network"),
        ("share=30%", "says nothing of a network"),
        ("rtt=5", "A network has no 'rtt': it has rtt_ms"),
        ("rtt_ms", "'rtt_ms' is not one NAME=VALUE"),
        ("rtt_ms=5 rtt_ms=6", "'rtt_ms=6' is not one NAME=VALUE"),
        ("rtt_ms=-1", "rtt_ms of a network is '-1', but has to be a number from 0 to 60000"),
        ("rtt_ms=nan", "rtt_ms of a network is 'nan'"),
        ("bandwidth_mbit=x", "bandwidth_mbit of a network is 'x', but has to be a number from 0."),
        ("loss=60%", "loss of a network is '60%', but has to be a number from 0 to 0.5"),
        ("rtt_ms=5 jitter_ms=6", "can't be more than its rtt_ms"),
        ("rtt_ms=5 share=0.1 tgt=a", "leave one out"),
        ("rtt_ms=5 share=2", "can't be read"),
        ("rtt_ms='5", "can't be read"),
    ],
)
def test_words_that_make_no_network(text: str, problem: str) -> None:
    """What can't be understood is one sentence."""
    with pytest.raises(UsageError, match=r"(?i)network") as error:
        Region.parse(text)
    assert problem in str(error.value)


def test_order_and_delay(clock: Clock) -> None:
    """Bytes come after their time, in their order, whatever chance says of each."""
    lane, path, rng = Lane(cast("asyncio.AbstractEventLoop", clock)), NetworkPath(100.0, 100.0), Chance(3)
    heard: list[tuple[int, float]] = []
    sent: list[float] = []

    def note(number: int) -> None:
        heard.append((number, clock.now))

    for number in range(50):
        sent.append(clock.now)
        lane.put(path, rng, 10, partial(note, number))
        clock.advance(0.002)
    assert lane.size
    clock.advance(1.0)
    assert [number for number, _ in heard] == list(range(50))
    delays = [at - begun for (_, at), begun in zip(heard, sent, strict=True)]
    assert min(delays) >= 0.0
    assert max(delays) <= 0.1 + 1e-9
    assert len({round(at, 9) for _, at in heard}) > 1
    assert lane.size == 0


def test_bandwidth(clock: Clock) -> None:
    """A line takes its time for each byte, one after the other."""
    lane, path, rng = Lane(cast("asyncio.AbstractEventLoop", clock)), NetworkPath(100.0, bandwidth_mbit=8.0), Chance(1)
    heard: list[float] = []
    for _ in range(3):
        lane.put(path, rng, 1_000_000, lambda: heard.append(clock.now))
    clock.advance(10.0)
    assert heard == pytest.approx([1.05, 2.05, 3.05])


def test_losses_stall_what_comes_later(clock: Clock) -> None:
    """A lost packet comes after the retransmission timer, and what was sent later not before it."""

    class Unlucky(random.Random):
        """Loses the first packet once."""

        draws = iter([0.0, 0.9, 0.9])

        def random(self) -> float:
            """Return what decides on the next packet."""
            return next(self.draws, 0.0001)

    path = NetworkPath(100.0, loss=0.5)
    lane, rng = Lane(cast("asyncio.AbstractEventLoop", clock)), Unlucky()
    heard: list[float] = []
    lane.put(path, rng, 100, lambda: heard.append(clock.now))
    clock.advance(0.01)
    lane.put(NetworkPath(100.0), rng, 100, lambda: heard.append(clock.now))
    clock.advance(5.0)
    assert heard == pytest.approx([0.05 + 0.3, 0.05 + 0.3])


def test_share_of_stalls() -> None:
    """One packet in a hundred is lost; the last ones of a message cost a timer, others a round trip."""
    path, rng = NetworkPath(80.0, loss=0.01), Chance(5)
    small = [path.stall(500, rng) for _ in range(20_000)]
    assert sum(map(bool, small)) / len(small) == pytest.approx(0.01, abs=0.003)
    assert min(filter(None, small)) == pytest.approx(0.08 + 0.2)
    large = [path.stall(100 * 1448, rng) for _ in range(5_000)]
    assert sum(map(bool, large)) / len(large) == pytest.approx(1 - 0.99**100, abs=0.03)
    assert min(filter(None, large)) == pytest.approx(0.08)
    assert NetworkPath(80.0).stall(10**9, rng) == 0.0


def test_start_of_a_connection() -> None:
    """Of the first packets some are lost, and come after 1, 3, 7 s and so on."""
    rng = Chance(5)
    waits = [NetworkPath(80.0, loss=0.1).opening(rng) for _ in range(5_000)]
    assert sum(map(bool, waits)) / len(waits) == pytest.approx(1 - 0.9**2, abs=0.03)
    assert set(waits) <= {0.0, 1.0, 3.0, 7.0, 15.0, 31.0, 63.0}


def test_shares_are_exact(tmp_path: pathlib.Path) -> None:
    """Each region has its share, for the same seed the same minions, in all workers together."""
    network = (Region(NetworkPath(5.0), 0.4), Region(NetworkPath(80.0), 0.4), Region(NetworkPath(250.0), None, "x"))
    settings = fleets.settings(tmp_path, 100, per_process=30, network=network)
    found: dict[int, NetworkPath] = {}
    for share in settings.workers():
        found |= placed(share, share.numbers)
    assert sorted(path.rtt_ms for path in found.values()) == [5.0] * 40 + [80.0] * 40
    twice = fleets.settings(tmp_path, 100, network=(network[0], Region(NetworkPath(9.0), 0.7)))
    with pytest.raises(UsageError, match="--network add up to more than 100 %"):
        twice.check()
    kind = fleets.settings(tmp_path, 100, network=(Region(NetworkPath(5.0), None, "x", "colour"),))
    with pytest.raises(UsageError, match="tgt_type of a network is 'colour'"):
        kind.check()
    assert Assignment("0", 0.4)


@pytest.mark.parametrize(
    ("tgt", "tgt_type", "refused"),
    [
        ("role:web", "pillar", True),
        ("role:w.*", "pillar_pcre", True),
        ("G@os:Debian and ( I@role:web or J@role:w.* )", "compound", True),
        ("I@role:web", "compound", True),
        ("G@os:Debian and minion-0001*", "compound", False),
        ("I@role", "glob", False),
    ],
)
def test_networks_by_pillar(tmp_path: pathlib.Path, tgt: str, tgt_type: str, refused: bool) -> None:  # noqa: FBT001
    """No minion has a pillar before it connects: such a network would be nobody's, and nobody would say so."""
    network = (Region(NetworkPath(5.0), None, tgt, tgt_type),)
    settings = fleets.settings(tmp_path, 100, network=network)
    if not refused:
        settings.check()
        return
    with pytest.raises(UsageError, match="of a network is one by pillar"):
        settings.check()


class Note:
    """A reader that counts what it hears."""

    def __init__(self, buffer: memoryview) -> None:
        """Begin with nothing heard."""
        self.buffer = buffer
        self.made = asyncio.Event()
        self.heard = asyncio.Event()
        self.lost = asyncio.Event()
        self.bytes = b""

    def connection_made(self, connection: Connection) -> None:  # noqa: ARG002 - a reader's signature
        """Note it."""
        self.made.set()

    def received_bytes(self, count: int) -> None:
        """Note them."""
        self.bytes += bytes(self.buffer[:count])
        self.heard.set()

    def connection_lost(self) -> None:
        """Note it."""
        self.lost.set()


def run(
    scenario: Callable[[socket.socket, Callable[[NetworkPath | None], tuple[Connection, Note]]], Awaitable[None]],
) -> None:
    """Run a scenario with a listening socket and what connects to it over a path."""

    async def bounded() -> None:
        loop = asyncio.get_running_loop()
        buffer, poller = memoryview(bytearray(65536)), Poller(loop)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)

            def connect(path: NetworkPath | None) -> tuple[Connection, Note]:
                note = Note(buffer)
                connection = Connection(loop, poller, buffer, note)
                connection.reroute(path, Chance(1))
                connection.connect(listener.getsockname())
                return connection, note

            await asyncio.wait_for(scenario(listener, connect), SECONDS)

    asyncio.run(bounded())


def test_round_trip_over_real_sockets() -> None:
    """A connection, and each answer, take a round trip; what was written before the end gets there."""

    async def scenario(listener: socket.socket, connect: Callable[[NetworkPath | None], Any]) -> None:
        loop = asyncio.get_running_loop()
        began = time.monotonic()
        connection, note = connect(NetworkPath(200.0))
        peer, _ = await loop.sock_accept(listener)
        with peer:
            await loop.sock_sendall(peer, b"greeting")
            await note.made.wait()
            assert time.monotonic() - began >= 0.2
            await note.heard.wait()
            assert note.bytes == b"greeting"
            for _ in range(3):
                note.heard.clear()
                began = time.monotonic()
                connection.write(b"question")
                assert connection.unwritten()
                assert await loop.sock_recv(peer, 100) == b"question"
                await loop.sock_sendall(peer, b"answer")
                await note.heard.wait()
                assert time.monotonic() - began >= 0.2
            connection.write(b"last words")
            connection.abort()
            assert await loop.sock_recv(peer, 100) == b"last words"
            assert await loop.sock_recv(peer, 100) == b""
            assert not note.lost.is_set()

    run(scenario)


@pytest.mark.slow
def test_end_by_the_peer_comes_after_its_bytes() -> None:
    """A peer that writes and hangs up is heard out, a port without listener refuses after a round trip."""

    async def scenario(listener: socket.socket, connect: Callable[[NetworkPath | None], Any]) -> None:
        loop = asyncio.get_running_loop()
        _, note = connect(NetworkPath(100.0, 50.0, 0.2))
        peer, _ = await loop.sock_accept(listener)
        await loop.sock_sendall(peer, b"x" * 300_000)
        peer.close()
        await note.lost.wait()
        assert len(note.bytes) == 300_000
        listener.close()

    run(scenario)


def test_network_that_changes() -> None:
    """A connection goes over another network without an end, and over none again."""

    async def scenario(listener: socket.socket, connect: Callable[[NetworkPath | None], Any]) -> None:
        loop = asyncio.get_running_loop()
        connection, note = connect(None)
        peer, _ = await loop.sock_accept(listener)
        with peer:
            await note.made.wait()
            assert connection.path is None
            connection.reroute(NetworkPath(150.0), Chance(1))
            began = time.monotonic()
            connection.write(b"far")
            assert await loop.sock_recv(peer, 100) == b"far"
            assert time.monotonic() - began >= 0.075
            connection.write(b"a")
            connection.reroute(None, Chance(1))
            connection.write(b"b")
            found = b""
            while len(found) < 2:
                found += await loop.sock_recv(peer, 100)
            assert found == b"ab"
            connection.abort()

    run(scenario)


def test_cut_off_and_far_away(clock: Clock) -> None:
    """A minion behind a network has it before, during and after a partition."""
    kind = TRANSPORTS["tcp"].request_wire
    near = Endpoint(cast("asyncio.AbstractEventLoop", clock), ("127.0.0.1", 1), kind, Counters())
    networks, partition = NetworkMap(), Partition()
    path = NetworkPath(80.0)
    networks.place(3, path)
    far = networks.side(3, near)
    assert networks.side(4, near) is near
    assert far is networks.side(3, near)
    assert (far.path, far.base, far.buffer) == (path, near, near.buffer)
    partition.cut.add(3)
    assert partition.side(3, far).base is near
    networks.place(3, None)
    assert networks.side(3, near) is near
