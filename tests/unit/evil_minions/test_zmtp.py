"""ZMTP: framing, and what becomes of bytes that aren't."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evil_minions.errors import WireError
from evil_minions.protocol import zmtp

PEER = zmtp.GREETING + zmtp.ready(b"ROUTER")


def decode(data: bytes, sizes: list[int] | None = None, limit: int = zmtp.MAX_MESSAGE) -> list[zmtp.Event]:
    """Return the events of `data`, fed in pieces of these sizes and the rest at once."""
    decoder = zmtp.Decoder(limit)
    events: list[zmtp.Event] = []
    for size in sizes or []:
        events += decoder.feed(data[:size])
        data = data[size:]
    return events + decoder.feed(data)


def test_handshake() -> None:
    """A greeting and a READY become two events."""
    greeting, ready = decode(PEER)
    assert greeting is zmtp.Greeting.SEEN
    assert isinstance(ready, zmtp.Command)
    assert (ready.name, zmtp.properties(ready.body)) == (b"READY", {b"socket-type": b"ROUTER", b"identity": b""})


def test_greeting_is_the_specification() -> None:
    """The greeting has 64 bytes: signature, version 3.0, mechanism NULL, not a server."""
    assert len(zmtp.GREETING) == 64
    assert zmtp.GREETING[:12] == b"\xff\0\0\0\0\0\0\0\0\x7f\x03\x00"
    assert zmtp.GREETING[12:33] == b"NULL" + b"\0" * 17


@pytest.mark.parametrize("size", [0, 1, 255, 256, 70_000])
def test_message_of_any_size(size: int) -> None:
    """Short and long frames come out as they went in."""
    body = bytes(size)
    assert decode(PEER + zmtp.frame(body))[2:] == [[body]]


def test_request_has_an_empty_delimiter() -> None:
    """A request is two parts, as a REQ socket sends it."""
    assert decode(PEER + zmtp.request(b"load"))[2:] == [[b"", b"load"]]


def test_ping_and_pong() -> None:
    """A PING's context comes back in the PONG, its time to live doesn't."""
    ping = decode(PEER + zmtp.command(b"PING", b"\x00\x64context"))[2]
    assert isinstance(ping, zmtp.Command)
    assert decode(PEER + zmtp.pong(ping.body))[2:] == [zmtp.Command(b"PONG", b"context")]


def test_heartbeat_short_cut_is_a_ping() -> None:
    """The bytes that the short cut compares are those of a PING without context, and its answer is a PONG."""
    assert zmtp.command(b"PING", b"\x00\x64") == zmtp.HEARTBEAT + b"\x00\x64"
    assert zmtp.pong(b"\x00\x64") == zmtp.HEARTBEAT_ANSWER


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"GET / HTTP/1.1\r\n".ljust(64), "speak ZMTP"),
        (zmtp.GREETING[:10] + b"\x02" + zmtp.GREETING[11:], "version 3"),
        (zmtp.GREETING.replace(b"NULL\0", b"CURVE"), "NULL"),
        (PEER + b"\x08\x00", "flags"),
        (PEER + b"\x05\x00", "flags"),
        (PEER + b"\x02" + b"\xff" * 8, "more than"),
        (PEER + b"\x04\x00", "no name"),
        (PEER + b"\x04\x02\x09a", "no name"),
        (PEER + b"\x01\x00" + zmtp.command(b"PING"), "within a message"),
        (PEER + b"\x01\x00" * 9, "parts"),
    ],
)
def test_malformed_bytes(data: bytes, reason: str) -> None:
    """Everything that the specification forbids raises the one error."""
    with pytest.raises(WireError, match=reason):
        decode(data)


@pytest.mark.parametrize("body", [b"\x05ab", b"\x01a\x00\x00\x00\x05x"])
def test_malformed_properties(body: bytes) -> None:
    """Metadata that ends too early raises."""
    with pytest.raises(WireError, match="cut off"):
        zmtp.properties(body)


def test_limit_counts_all_parts() -> None:
    """Many small parts can't get past the limit of a message."""
    with pytest.raises(WireError, match="more than 10 bytes"):
        decode(zmtp.GREETING + zmtp.frame(b"123456", more=True) + zmtp.frame(b"789012"), limit=10)


@given(
    st.lists(st.lists(st.binary(max_size=300), min_size=1, max_size=zmtp.MAX_PARTS), max_size=5),
    st.lists(st.integers(0, 200), max_size=20),
)
def test_pieces_make_no_difference(messages: list[list[bytes]], sizes: list[int]) -> None:
    """Messages come out the same however the network cuts the bytes."""
    data = b"".join(
        zmtp.frame(part, more=number < len(parts) - 1) for parts in messages for number, part in enumerate(parts)
    )
    assert decode(PEER + data, sizes)[2:] == messages


@settings(max_examples=500)
@given(st.binary(max_size=300), st.lists(st.integers(0, 50), max_size=8), st.booleans())
def test_any_bytes_at_all(data: bytes, sizes: list[int], greeted: bool) -> None:  # noqa: FBT001 - hypothesis gives it
    """Whatever a peer sends, the decoder returns events or raises WireError, and holds no more than it was given."""
    try:
        events = decode((PEER if greeted else b"") + data, sizes, limit=200)
    except WireError:
        return
    assert sum(len(part) for event in events if isinstance(event, list) for part in event) <= len(data)


@given(st.binary(min_size=1, max_size=600), st.binary(max_size=20), st.integers(0, 30))
def test_short_cut_of_replies(body: bytes, more: bytes, cut: int) -> None:
    """The short cut finds the body of a whole reply, and leaves pieces and several at once to the decoder."""
    data = zmtp.request(body)
    assert zmtp.reply(data) == body
    assert decode(PEER + data)[2:] == [[b"", body]]
    assert zmtp.reply(data[: len(data) - 1 - cut]) == b""
    assert not more or zmtp.reply(data + more) == b""


@given(st.binary(max_size=40), st.booleans())
def test_short_cut_takes_nothing_else(data: bytes, delimited: bool) -> None:  # noqa: FBT001 - hypothesis gives it
    """Whatever comes, the short cut finds what the decoder would, or nothing."""
    data = b"\x01\x00" + data if delimited else data
    found = zmtp.reply(data)
    assert not found or decode(PEER + data)[2:] == [[b"", found]]
