"""The request channel: one request in flight, three tries, a new connection after each timeout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import salt.payload

from evil_minions.errors import CryptoError
from evil_minions.network.link import Request
from evil_minions.network.zeromq import RequestChannel

if TYPE_CHECKING:
    from collections.abc import Callable


class Owner:
    """A minion that signs in anew as the test says."""

    def __init__(self) -> None:
        """Begin with nothing noted."""
        self.id = "minion-1"
        self.asked: list[Callable[[bool], None]] = []

    def random(self) -> float:
        """Return a number between 0 and 1."""
        return 0.5

    def reauthenticate(self, then: Callable[[bool], None]) -> None:
        """Keep the request; the test answers it."""
        self.asked.append(then)


class Refusable(Request):
    """A request that a reply "bad load" doesn't answer."""

    __slots__ = ()

    def unpack(self, sender: Any, data: bytes) -> Any:
        """Raise for "bad load"."""
        answer = super().unpack(sender, data)
        if answer == "bad load":
            raise CryptoError(answer)
        return answer


@pytest.fixture
def owner() -> Owner:
    """Return a minion."""
    return Owner()


@pytest.fixture
def channel(endpoint: Any, owner: Owner) -> RequestChannel:
    """Return a channel whose connection is up."""
    channel = RequestChannel(endpoint, owner)  # type: ignore[arg-type]
    channel.open()
    channel.wire_ready(endpoint.wire)
    return channel


def request(done: list[tuple[str, Any, bool]], name: str = "a", tries: int = 3) -> Request:
    """Return a request that notes its end."""
    return Refusable({"cmd": name}, 5.0, tries, lambda sent, answer: done.append((name, answer, sent.failed)))


def sent(endpoint: Any) -> list[str]:
    """Return the names of the requests on all wires, in order."""
    return [payload(data)["load"]["cmd"] for wire in endpoint.wires for data in wire.sent]


def payload(data: bytes) -> dict[str, Any]:
    """Return what the bytes of a request hold."""
    return dict(salt.payload.loads(data))


def answer(channel: RequestChannel, value: object) -> None:
    """Let the master answer."""
    channel.wire_message(salt.payload.dumps(value))


def test_one_request_in_flight(channel: RequestChannel, endpoint: Any) -> None:
    """The second request is sent when the first one is answered, not before."""
    done: list[tuple[str, Any, bool]] = []
    channel.submit(request(done, "a"))
    channel.submit(request(done, "b"))
    before = sent(endpoint)
    answer(channel, 1)
    assert (before, sent(endpoint), done) == (["a"], ["a", "b"], [("a", 1, False)])


def test_request_waits_for_the_connection(endpoint: Any, owner: Owner) -> None:
    """A request before the handshake is over is sent once it is."""
    channel = RequestChannel(endpoint, owner)  # type: ignore[arg-type]
    channel.submit(request([]))
    before = sent(endpoint)
    channel.wire_ready(endpoint.wire)
    assert (before, sent(endpoint)) == ([], ["a"])


def test_timeout_reconnects_and_sends_again(channel: RequestChannel, endpoint: Any, clock: Any) -> None:
    """After a timeout the connection is thrown away and the request goes out on a new one."""
    channel.submit(request([]))
    clock.advance(5.0)
    assert [wire.closed for wire in endpoint.wires] == [True, False]
    channel.wire_ready(endpoint.wire)
    assert sent(endpoint) == ["a", "a"]
    assert (endpoint.counters.reconnects, endpoint.counters.requests_retried) == (1, 1)


def test_gives_up_after_the_last_try(channel: RequestChannel, endpoint: Any, clock: Any) -> None:
    """Three timeouts end a request without an answer, and the next one begins."""
    done: list[tuple[str, Any, bool]] = []
    channel.submit(request(done, "a"))
    channel.submit(request(done, "b"))
    clock.advance(15.0)
    assert done == [("a", None, True)]
    channel.wire_ready(endpoint.wire)
    assert sent(endpoint)[-1] == "b"
    assert endpoint.counters.requests_given_up == 1


def test_late_reply_is_lost(channel: RequestChannel, endpoint: Any, clock: Any) -> None:
    """What the old connection would still have brought isn't taken for an answer."""
    done: list[tuple[str, Any, bool]] = []
    channel.submit(request(done))
    clock.advance(4.9)
    first = endpoint.wire
    clock.advance(0.2)
    assert first.closed
    assert done == []


def test_unasked_message(channel: RequestChannel, endpoint: Any) -> None:
    """A message that nobody asked for is counted and dropped."""
    answer(channel, 1)
    assert endpoint.counters.bad_frames == 1


def test_refusal_signs_in_anew(channel: RequestChannel, endpoint: Any, owner: Owner) -> None:
    """The reply "bad load" makes the minion sign in and send again, as the same try."""
    done: list[tuple[str, Any, bool]] = []
    channel.submit(request(done))
    answer(channel, "bad load")
    owner.asked.pop()(True)
    answer(channel, 2)
    assert (sent(endpoint), done) == (["a", "a"], [("a", 2, False)])
    assert endpoint.counters.requests_retried == 0


def test_second_refusal_costs_a_try(channel: RequestChannel, owner: Owner) -> None:
    """A request that is refused again and again ends after its tries."""
    done: list[tuple[str, Any, bool]] = []
    channel.submit(request(done, tries=2))
    for _ in range(2):
        answer(channel, "bad load")
        owner.asked.pop()(True)
        answer(channel, "bad load")
    assert done == [("a", None, True)]


def test_failed_sign_in_costs_a_try(channel: RequestChannel, owner: Owner) -> None:
    """If signing in fails, the request goes on with its next try."""
    done: list[tuple[str, Any, bool]] = []
    channel.submit(request(done, tries=1))
    answer(channel, "bad load")
    owner.asked.pop()(False)
    assert done == [("a", None, True)]


def test_lost_connection_comes_back_later(channel: RequestChannel, endpoint: Any, clock: Any) -> None:
    """A connection that the master closed is opened anew after a wait that doubles up to five seconds."""
    waits = []
    for _ in range(10):
        channel.wire_lost(endpoint.wire)
        count, began = len(endpoint.wires), clock.now
        while len(endpoint.wires) == count:
            clock.advance(0.05)
        waits.append(clock.now - began)
    assert 0.1 <= waits[0] <= 0.3
    assert 5.0 <= waits[-1] <= 5.2
    assert waits[:6] == sorted(waits[:6])


def test_close_fails_what_is_under_way(channel: RequestChannel, endpoint: Any, clock: Any) -> None:
    """Closing ends every request, and nothing happens afterwards."""
    done: list[tuple[str, Any, bool]] = []
    channel.submit(request(done, "a"))
    channel.submit(request(done, "b"))
    channel.close()
    channel.submit(request(done, "c"))
    clock.advance(100.0)
    assert done == [("a", None, True), ("b", None, True), ("c", None, True)]
    assert len(endpoint.wires) == 1
