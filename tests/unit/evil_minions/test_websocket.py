"""WebSocket as bytes: pieces, limits, and peers that misbehave."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest
import wsproto
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Ping, Pong, RejectConnection, Request

from evil_minions.errors import WireError
from evil_minions.protocol.websocket import Client


class Peer:
    """A server that has agreed to speak WebSocket, and its client."""

    def __init__(self) -> None:
        """Shake hands."""
        self.client = Client()
        self.server = wsproto.WSConnection(wsproto.ConnectionType.SERVER)
        self.server.receive_data(self.client.upgrade("127.0.0.1", 4506, "/ws"))
        (asked,) = self.server.events()
        assert isinstance(asked, Request)
        assert (asked.host, asked.target) == ("127.0.0.1:4506", "/ws")
        self.handshake = self.server.send(AcceptConnection())


@pytest.fixture
def peer() -> Peer:
    """Return a server after the handshake."""
    peer = Peer()
    (accepted,) = peer.client.feed(peer.handshake)
    assert isinstance(accepted, AcceptConnection)
    return peer


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 200_000])
def test_messages_both_ways(peer: Peer, size: int) -> None:
    """Messages of every form of length arrive whole, masked one way and plain the other."""
    body = bytes(number % 251 for number in range(size))
    peer.server.receive_data(peer.client.frame(body))
    assert b"".join(bytes(event.data) for event in peer.server.events() if isinstance(event, BytesMessage)) == body
    assert peer.client.feed(peer.server.send(BytesMessage(body))) == [body]


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_pieces(size: int) -> None:
    """Handshake, fragments and control frames between them come out whole and in order, however they are cut."""
    peer = Peer()
    data = (
        peer.handshake + peer.server.send(BytesMessage(b"one", message_finished=False)) + peer.server.send(Ping(b"p"))
    )
    data += peer.server.send(BytesMessage(b"two")) + peer.server.send(CloseConnection(1000))
    found = [event for start in range(0, len(data), size) for event in peer.client.feed(data[start : start + size])]
    assert isinstance(found.pop(0), AcceptConnection)
    assert found == [Ping(b"p"), b"onetwo", CloseConnection(1000, "")]


def test_answers(peer: Peer) -> None:
    """A ping and a close are answered as the peer expects it."""
    (ping,) = peer.client.feed(peer.server.send(Ping(b"p")))
    assert isinstance(ping, Ping)
    peer.server.receive_data(peer.client.frame(ping.response()))
    assert list(peer.server.events()) == [Pong(b"p")]


def test_refused_handshake() -> None:
    """A server that doesn't speak WebSocket is refused."""
    client = Client()
    server = wsproto.WSConnection(wsproto.ConnectionType.SERVER)
    server.receive_data(client.upgrade("127.0.0.1", 4506, "/"))
    list(server.events())
    with pytest.raises(WireError):
        client.feed(server.send(RejectConnection(status_code=403)))


HEAD = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"


@pytest.mark.parametrize(
    "data",
    [
        b"\xff" * 70_000,
        b"HTTP/1.1 200 OK\r\n\r\n",
        HEAD + b"\r\n",
        HEAD.replace(b"websocket", b"h2c") + b"Sec-WebSocket-Accept: KEY\r\n\r\n",
        HEAD + b"Sec-WebSocket-Accept: x\r\n\r\n",
        HEAD + b"Sec-WebSocket-Accept: KEY\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n",
    ],
)
def test_nonsense_before(data: bytes) -> None:
    """What is no end of the handshake is refused."""
    client = Client()
    (key,) = re.findall(rb"(?i)sec-websocket-key: (\S+)", client.upgrade("h", 1, "/"))
    guid = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    proof = base64.b64encode(hashlib.sha1(key + guid, usedforsecurity=False).digest())
    with pytest.raises(WireError):
        client.feed(data.replace(b"KEY", proof))


@pytest.mark.parametrize(
    "data",
    [
        b"\xc2\x00",
        b"\x83\x00",
        b"\x82\x80\x00\x00\x00\x00",
        b"\x80\x00",
        b"\x02\x00\x82\x00",
        b"\x09\x00",
        b"\x89\x7e\x00\xff",
        b"\x82\x7f" + b"\xff" * 8,
        b"\x81\x02\xff\xfe",
        b"\x88\x01x",
    ],
)
def test_nonsense(peer: Peer, data: bytes) -> None:
    """What the specification forbids is refused."""
    with pytest.raises(WireError):
        peer.client.feed(data)


@pytest.mark.parametrize("whole", [True, False])
def test_longer_than_allowed(peer: Peer, whole: bool) -> None:  # noqa: FBT001 - a parameter of a test
    """A message that grows beyond the limit is refused before its end, in one frame and in several."""
    peer.client.limit = 1000
    if whole:
        data = peer.server.send(BytesMessage(b"x" * 2000))[:-500]
    else:
        data = b"".join(peer.server.send(BytesMessage(b"x" * 300, message_finished=False)) for _ in range(4))
    assert peer.client.feed(peer.server.send(Ping(b""))) == [Ping(b"")]
    with pytest.raises(WireError, match="1000"):
        peer.client.feed(data)
