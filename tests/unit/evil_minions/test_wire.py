"""Wires on real sockets: with libzmq on the other side, and with peers that misbehave."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING

import pytest
import zmq.asyncio
from zmq.constants import SocketOption, SocketType

from evil_minions.network import zeromq
from evil_minions.network.wire import Endpoint, Wire
from evil_minions.protocol import zmtp
from evil_minions.samples import Counters

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

SECONDS = 10.0


class Owner:
    """Notes what a wire tells."""

    def __init__(self) -> None:
        """Begin with nothing noted."""
        self.ready = asyncio.Event()
        self.lost = asyncio.Event()
        self.messages: asyncio.Queue[bytes] = asyncio.Queue()

    def wire_ready(self, wire: object) -> None:  # noqa: ARG002 - a wire owner's signature
        """Note it."""
        self.ready.set()

    def wire_message(self, message: bytes) -> None:
        """Keep it."""
        self.messages.put_nowait(message)

    def wire_lost(self, wire: object) -> None:  # noqa: ARG002 - a wire owner's signature
        """Note it."""
        self.lost.set()


class Subscriber:
    """Notes what a subscription tells its minion."""

    def __init__(self) -> None:
        """Begin with nothing noted."""
        self.id = "web1"
        self.messages: asyncio.Queue[bytes] = asyncio.Queue()

    def random(self) -> float:
        """Return no random number."""
        return 0.5

    def on_publication(self, frame: bytes) -> None:
        """Keep it."""
        self.messages.put_nowait(frame)

    def introduction(self) -> bytes:
        """Introduce nobody: zeromq does not ask."""
        raise NotImplementedError

    def reauthenticate(self, then: Callable[[bool], None]) -> None:
        """Sign in nowhere: zeromq does not ask."""
        raise NotImplementedError

    def on_return(self) -> None:
        """Do nothing."""


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    """Run a scenario, with an end."""

    async def bounded() -> None:
        await asyncio.wait_for(scenario(), SECONDS)

    asyncio.run(bounded())


def endpoint(port: int, kind: type[Wire] = zeromq.RequestWire) -> Endpoint:
    """Return an endpoint on a port of this machine."""
    return Endpoint(asyncio.get_running_loop(), ("127.0.0.1", port), kind, Counters())


def test_request_to_a_router() -> None:
    """Libzmq's ROUTER takes a request, however large, and its reply arrives; heartbeats are answered meanwhile."""

    async def scenario() -> None:
        with zmq.asyncio.Context() as context, context.socket(SocketType.ROUTER) as router:
            router.setsockopt(SocketOption.HEARTBEAT_IVL, 20)
            router.setsockopt(SocketOption.HEARTBEAT_TIMEOUT, 200)
            port = router.bind_to_random_port("tcp://127.0.0.1")
            owner = Owner()
            wire = endpoint(port).open(owner)
            await owner.ready.wait()
            body = bytes(range(256)) * 2000
            wire.send(body)
            identity, empty, received = await router.recv_multipart()
            assert (empty, received) == (b"", body)
            # longer than the heartbeat's timeout: a peer that doesn't answer is gone by then
            await asyncio.sleep(0.5)
            await router.send_multipart([identity, b"", body[::-1]])
            assert await owner.messages.get() == body[::-1]
            assert not owner.lost.is_set()
            wire.close()

    run(scenario)


def test_subscription_to_a_publisher() -> None:
    """Libzmq's PUB takes the subscription and publishes to it."""

    async def scenario() -> None:
        with zmq.asyncio.Context() as context, context.socket(SocketType.XPUB) as publisher:
            port = publisher.bind_to_random_port("tcp://127.0.0.1")
            owner = Owner()
            wire = endpoint(port, zeromq.PublishWire).open(owner)
            await owner.ready.wait()
            assert await publisher.recv() == b"\x01"
            await publisher.send(b"job")
            assert await owner.messages.get() == b"job"
            wire.close(reset=True)

    run(scenario)


def test_publication_to_many() -> None:
    """Each of several connections of one endpoint hears every publication, whole, once and in order."""
    jobs = [b"first" * 9, b"second" * 9, b"second" * 9, b"large" * 30_000, b"last" * 9]

    async def scenario() -> None:
        with zmq.asyncio.Context() as context, context.socket(SocketType.XPUB) as publisher:
            publisher.setsockopt(SocketOption.XPUB_VERBOSE, 1)
            shared = endpoint(publisher.bind_to_random_port("tcp://127.0.0.1"), zeromq.PublishWire)
            owners = [Owner() for _ in range(3)]
            wires = [shared.open(owner) for owner in owners]
            for _ in owners:
                assert await publisher.recv() == b"\x01"
            for topic, job in enumerate(jobs):
                await publisher.send_multipart([b"%d" % topic, job])
                # as it comes, or with the next ones in one piece
                if topic % 2:
                    await asyncio.sleep(0.05)
            for owner in owners:
                assert [await owner.messages.get() for _ in jobs] == jobs
                assert owner.messages.empty()
            for wire in wires:
                wire.close(reset=True)

    run(scenario)


def test_wrong_kind_of_socket() -> None:
    """A PUB where a ROUTER should be ends the connection."""

    async def scenario() -> None:
        with zmq.asyncio.Context() as context, context.socket(SocketType.PUB) as publisher:
            port = publisher.bind_to_random_port("tcp://127.0.0.1")
            owner = Owner()
            endpoint(port).open(owner)
            await owner.lost.wait()
            assert not owner.ready.is_set()

    run(scenario)


def test_nobody_listens() -> None:
    """A port without a listener is a lost connection, not an exception."""

    async def scenario() -> None:
        server = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        owner = Owner()
        endpoint(port).open(owner)
        await owner.lost.wait()

    run(scenario)


PEER = zmtp.GREETING + zmtp.ready(b"ROUTER")


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 400 Bad Request\r\n".ljust(80),
        zmtp.GREETING + zmtp.frame(b"too early"),
        zmtp.GREETING + zmtp.command(b"ERROR", b"\x03no!"),
        PEER + zmtp.ready(b"ROUTER"),
        PEER + b"\x02" + b"\xff" * 8,
        PEER + b"\x80\x00",
    ],
)
def test_malformed_peer(data: bytes) -> None:
    """Bytes that make no sense are counted and end the connection; the owner hears of it once."""

    async def scenario() -> None:
        async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(data)
            await reader.read()
            writer.close()

        server = await asyncio.start_server(peer, "127.0.0.1", 0)
        async with server:
            place = endpoint(server.sockets[0].getsockname()[1])
            owner = Owner()
            place.open(owner)
            await owner.lost.wait()
            assert place.counters.bad_frames == 1

    run(scenario)


def test_closed_before_connected() -> None:
    """A wire that is closed while it connects says nothing any more."""

    async def scenario() -> None:
        connected = asyncio.Event()

        async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            assert await reader.read() == b""
            writer.close()
            connected.set()

        server = await asyncio.start_server(peer, "127.0.0.1", 0)
        async with server:
            owner = Owner()
            endpoint(server.sockets[0].getsockname()[1]).open(owner).close()
            await connected.wait()
            assert not owner.ready.is_set()
            assert not owner.lost.is_set()

    run(scenario)


def test_filtered_subscription() -> None:
    """With `zmq_filtering` a minion hears what is for all and what is for it, as a real one's socket does."""

    async def scenario() -> None:
        with zmq.asyncio.Context() as context, context.socket(SocketType.XPUB) as publisher:
            port = publisher.bind_to_random_port("tcp://127.0.0.1")
            minion = Subscriber()
            link = zeromq.FilteredSubscription(endpoint(port, zeromq.FilteredWire), minion)  # type: ignore[arg-type] # needs no keys
            link.open()
            topics = {await publisher.recv() for _ in range(2)}
            own = hashlib.sha1(b"web1", usedforsecurity=False).hexdigest().encode()
            other = hashlib.sha1(b"web2", usedforsecurity=False).hexdigest().encode()
            assert topics == {b"\x01broadcast", b"\x01" + own}
            for topic in (other, own, other, b"broadcast"):
                await publisher.send_multipart([topic, b"for " + topic])
            assert await minion.messages.get() == b"for " + own
            assert await minion.messages.get() == b"for broadcast"
            link.close(reset=True)

    run(scenario)
