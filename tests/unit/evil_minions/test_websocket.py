"""WebSocket as bytes, against another implementation of the protocol, and against peers that misbehave."""

from __future__ import annotations

import pytest
import wsproto
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Ping, Pong, RejectConnection, Request

from evil_minions.errors import WireError
from evil_minions.protocol.websocket import Decoder, Opcode, Other, Upgrade, accept, frame, new_key, upgrade

KEY = b"dGhlIHNhbXBsZSBub25jZQ=="


class Peer:
    """A server that has agreed to speak WebSocket, and the decoder of its client."""

    def __init__(self) -> None:
        """Shake hands."""
        key = new_key()
        self.decoder = Decoder(key)
        self.server = wsproto.WSConnection(wsproto.ConnectionType.SERVER)
        self.server.receive_data(upgrade("127.0.0.1", 4506, "/ws", key))
        (asked,) = self.server.events()
        assert isinstance(asked, Request)
        assert asked.target == "/ws"
        self.handshake = self.server.send(AcceptConnection())


@pytest.fixture
def peer() -> Peer:
    """Return a server after the handshake."""
    peer = Peer()
    assert peer.decoder.feed(peer.handshake) == [Upgrade.SEEN]
    return peer


def test_accept_of_the_specification() -> None:
    """The example of RFC 6455, section 1.3."""
    assert accept(KEY) == b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 200_000])
def test_messages_both_ways(peer: Peer, size: int) -> None:
    """Messages of every form of length arrive whole, masked one way and plain the other."""
    body = bytes(number % 251 for number in range(size))
    peer.server.receive_data(frame(body))
    assert b"".join(bytes(event.data) for event in peer.server.events() if isinstance(event, BytesMessage)) == body
    assert peer.decoder.feed(peer.server.send(BytesMessage(body))) == [body]


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_pieces(size: int) -> None:
    """Handshake, fragments and control frames between them come out whole and in order, however they are cut."""
    peer = Peer()
    data = (
        peer.handshake + peer.server.send(BytesMessage(b"one", message_finished=False)) + peer.server.send(Ping(b"p"))
    )
    data += peer.server.send(BytesMessage(b"two")) + peer.server.send(CloseConnection(1000))
    found = [event for start in range(0, len(data), size) for event in peer.decoder.feed(data[start : start + size])]
    assert found == [Upgrade.SEEN, Other(Opcode.PING, b"p"), b"onetwo", Other(Opcode.CLOSE, b"\x03\xe8")]


def test_pong(peer: Peer) -> None:
    """A pong is one for the other implementation too."""
    peer.server.receive_data(frame(b"p", Opcode.PONG))
    assert list(peer.server.events()) == [Pong(b"p")]


def test_refused_handshake() -> None:
    """A server that doesn't speak WebSocket is refused."""
    decoder = Decoder(KEY)
    server = wsproto.WSConnection(wsproto.ConnectionType.SERVER)
    server.receive_data(upgrade("127.0.0.1", 4506, "/", KEY))
    with pytest.raises(WireError):
        decoder.feed(server.send(RejectConnection(status_code=403)))


HEAD = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
SOUND = HEAD + b"Sec-WebSocket-Accept: " + accept(KEY) + b"\r\n\r\n"


@pytest.mark.parametrize(
    "data",
    [
        b"\xff" * 9000,
        b"HTTP/1.1 200 OK\r\n\r\n",
        HEAD + b"\r\n",
        HEAD.replace(b"websocket", b"h2c") + b"Sec-WebSocket-Accept: " + accept(KEY) + b"\r\n\r\n",
        HEAD + b"Sec-WebSocket-Accept: " + accept(b"x") + b"\r\n\r\n",
        SOUND[:-2] + b"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n",
        SOUND + b"\xc2\x00",
        SOUND + b"\x83\x00",
        SOUND + b"\x82\x80\x00\x00\x00\x00",
        SOUND + b"\x80\x00",
        SOUND + b"\x02\x00\x82\x00",
        SOUND + b"\x09\x00",
        SOUND + b"\x89\x7e\x00\xff",
        SOUND + b"\x82\x7f" + b"\xff" * 8,
        SOUND + b"\x02\x01a\x80\x7f" + (2**26).to_bytes(8, "big"),
    ],
)
def test_nonsense(data: bytes) -> None:
    """What the specification forbids, and what is longer than allowed, is refused."""
    with pytest.raises(WireError):
        Decoder(KEY).feed(data)
