"""What the transports tcp and ws do differently from zeromq when an answer or a connection is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import salt.payload

from evil_minions.network import tcp, ws
from evil_minions.network.link import Request

if TYPE_CHECKING:
    from collections.abc import Callable


class Owner:
    """A minion that signs in anew as the test says."""

    def __init__(self) -> None:
        """Begin with nothing noted."""
        self.id = "minion-1"
        self.asked: list[Callable[[bool], None]] = []
        self.returned = 0

    def reauthenticate(self, then: Callable[[bool], None]) -> None:
        """Keep the request; the test answers it."""
        self.asked.append(then)

    def introduction(self) -> bytes:
        """Return something to recognise."""
        return b"hello"

    def on_publication(self, frame: bytes) -> None:
        """Hear one publication."""

    def on_return(self) -> None:
        """Note it."""
        self.returned += 1


@pytest.fixture
def owner() -> Owner:
    """Return a minion."""
    return Owner()


def request(done: list[object], tries: int = 3) -> Request:
    """Return a request that notes its answer."""
    return Request({"cmd": "a"}, 5.0, tries, lambda sent, answer: done.append("failed" if sent.failed else answer))


def link(kind: Any, endpoint: Any, owner: Owner) -> Any:
    """Return a link whose connection is up."""
    made = kind(endpoint, owner)
    made.open()
    made.wire_ready(endpoint.wire)
    return made


def test_tcp_timeout_keeps_the_connection(endpoint: Any, clock: Any, owner: Owner) -> None:
    """After a timeout over tcp the request goes out again over the same connection."""
    link(tcp.RequestChannel, endpoint, owner).submit(request([]))
    clock.advance(5.0)
    assert (len(endpoint.wires), len(endpoint.wire.sent)) == (1, 2)
    assert (endpoint.counters.reconnects, endpoint.counters.requests_retried) == (0, 1)


def test_tcp_gives_up_after_the_last_try(endpoint: Any, clock: Any, owner: Owner) -> None:
    """Three timeouts end a request."""
    done: list[object] = []
    link(tcp.RequestChannel, endpoint, owner).submit(request(done))
    clock.advance(15.0)
    assert done == ["failed"]


def test_tcp_break_ends_the_try(endpoint: Any, clock: Any, owner: Owner) -> None:
    """A connection that breaks is opened again at once, then each second; time runs from when the request is sent."""
    done: list[object] = []
    channel = link(tcp.RequestChannel, endpoint, owner)
    channel.submit(request(done, tries=2))
    channel.wire_lost(endpoint.wire)
    assert len(endpoint.wires) == 2
    for _ in range(20):
        channel.wire_lost(endpoint.wire)
        clock.advance(1.0)
    assert (len(endpoint.wires), done) == (22, [])
    channel.wire_ready(endpoint.wire)
    channel.wire_message(salt.payload.dumps(7))
    assert done == [7]


class Wire(tcp.RequestWire):
    """A wire whose bytes the test sees."""

    __slots__ = ("written",)

    def write(self, data: bytes) -> None:
        """Keep them."""
        self.written = data


def test_tcp_late_answer_is_dropped(endpoint: Any) -> None:
    """An answer to anything but the latest request is dropped."""

    class Listener:
        heard: list[bytes] = []  # noqa: RUF012 - one listener only

        def wire_message(self, message: bytes) -> None:
            self.heard.append(message)

    wire = Wire(endpoint, Listener())  # type: ignore[arg-type]
    wire.send(b"\x01")
    first = wire.written
    wire.send(b"\x02")
    for frame in (first, wire.written, wire.written):
        wire.received(memoryview(frame))
    assert Listener.heard == [b"\x02"]
    assert endpoint.counters.bad_frames == 2


def test_tcp_subscriber_introduces_itself(endpoint: Any, clock: Any, owner: Owner) -> None:
    """The first connection begins with an introduction, a later one with signing in and all of a start."""
    subscription = link(tcp.Subscription, endpoint, owner)
    assert (endpoint.wire.sent, owner.asked, owner.returned) == ([b"hello"], [], 0)
    subscription.wire_lost(endpoint.wire)
    clock.advance(0.0)
    subscription.wire_ready(endpoint.wire)
    assert endpoint.wire.sent == []
    owner.asked.pop()(False)
    owner.asked.pop()(True)
    assert (endpoint.wire.sent, owner.asked, owner.returned) == ([b"hello"], [], 1)


def test_tcp_subscriber_gives_up_signing_in(endpoint: Any, owner: Owner) -> None:
    """After five more attempts the introduction goes out with the old keys, as a real minion's does."""
    subscription = link(tcp.Subscription, endpoint, owner)
    subscription.wire_lost(endpoint.wire)
    subscription.open()
    subscription.wire_ready(endpoint.wire)
    for _ in range(6):
        owner.asked.pop()(False)
    assert (endpoint.wire.sent, owner.asked, owner.returned) == ([b"hello"], [], 0)


def test_ws_connection_for_each_request(endpoint: Any, owner: Owner) -> None:
    """Each request over ws opens a connection of its own, and the one before goes."""
    done: list[object] = []
    channel = link(ws.RequestChannel, endpoint, owner)
    for number in range(2):
        channel.submit(request(done))
        channel.wire_ready(endpoint.wire)
        channel.wire_message(salt.payload.dumps(number))
    assert done == [0, 1]
    assert [wire.closed for wire in endpoint.wires] == [True, True, False]


def test_ws_has_no_timeout(endpoint: Any, clock: Any, owner: Owner) -> None:
    """A request over ws waits for its answer as long as its connection lasts."""
    done: list[object] = []
    channel = link(ws.RequestChannel, endpoint, owner)
    channel.submit(request(done))
    channel.wire_ready(endpoint.wire)
    clock.advance(10_000.0)
    assert (done, endpoint.counters.requests_retried) == ([], 0)
    for _ in range(3):
        channel.wire_lost(endpoint.wire)
    assert done == ["failed"]


def test_ws_subscription_comes_back(endpoint: Any, clock: Any, owner: Owner) -> None:
    """A subscription over ws is opened again, and says nothing."""
    subscription = link(ws.Subscription, endpoint, owner)
    subscription.wire_lost(endpoint.wire)
    clock.advance(0.0)
    subscription.wire_lost(endpoint.wire)
    clock.advance(1.0)
    subscription.wire_ready(endpoint.wire)
    assert (len(endpoint.wires), endpoint.wire.sent, owner.asked) == (3, [], [])
