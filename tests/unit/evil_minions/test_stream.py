"""The frames of the transport tcp: as Salt makes them, in any pieces, and nonsense."""

from __future__ import annotations

from unittest import mock

import pytest
import salt.payload
import salt.transport.frame

from evil_minions.errors import WireError
from evil_minions.network.tcp import take_publication
from evil_minions.network.wire import Wire
from evil_minions.protocol.frames import Decoder, Frame, frame

LOAD = {"enc": "clear", "load": {"cmd": "ping"}, "version": 3}
BODY = salt.payload.dumps(LOAD)
FRAMES = [frame(BODY, {"mid": "a"}), frame(b"\xc4\x80" + b"x" * 128, {}), frame(b"\xc0", {"mid": "b"})]
DECODED = [Frame(b"a", BODY), Frame(b"", b"\xc4\x80" + b"x" * 128), Frame(b"b", b"\xc0")]


def test_frame_is_salts_own() -> None:
    """A frame is what Salt makes of the same message."""
    assert frame(salt.payload.dumps(LOAD), {"mid": "a"}) == salt.transport.frame.frame_msg(LOAD, header={"mid": "a"})


@pytest.mark.parametrize("size", [1, 2, 7, 100, 10_000])
def test_pieces(size: int) -> None:
    """Frames come out whole and in order, however they are cut."""
    decoder, data = Decoder(), b"".join(FRAMES)
    found = [one for start in range(0, len(data), size) for one in decoder.feed(data[start : start + size])]
    assert found == DECODED


def test_at_rest_nothing_is_kept() -> None:
    """Between frames a connection holds no buffer."""
    decoder = Decoder()
    decoder.feed(FRAMES[0])
    assert decoder._partial is None


@pytest.mark.parametrize(
    "data",
    [
        b"\xc1",
        b"\x01",
        b"\x80",
        b"\x93\x01\x02\x03",
        b"\x81\xa4head\x80",
        b"\x82\xa4head\x07\xa4body\x01",
        b"\x82\xa4head\x81\xa3mid\x01\xa4body\x01",
        b"\x91" * 2000,
        b"\x81\x81\x01\x02\x03",
        b"\x82\xa4head\xc7\x05\xff12345\xa4body\x01",
    ],
)
def test_nonsense(data: bytes) -> None:
    """What is no map of a head and a body is refused."""
    with pytest.raises(WireError):
        Decoder().feed(data)


def test_limit() -> None:
    """A frame that never ends is refused when it is longer than allowed."""
    decoder = Decoder(limit=1000)
    decoder.feed(b"\x82\xa4head\x80\xa4body\xc6\xff\xff\xff\xff")
    decoder.feed(b"x" * 900)
    with pytest.raises(WireError):
        decoder.feed(b"x" * 900)


def test_publications_are_packed_twice() -> None:
    """The master packs a publication and then its bytes; a map is taken as it is, anything else is dropped."""
    for data, delivered in ((salt.payload.dumps(BODY, use_bin_type=True), [BODY]), (BODY, [BODY])):
        assert taken(data) == (delivered, 0)
    for data in (b"\x01", b"\xc1", b""):
        assert taken(data) == ([], 1)


def taken(data: bytes) -> tuple[list[bytes], int]:
    """Return what becomes of a body: the messages that it delivers, and how many are dropped."""
    wire = mock.Mock(spec=Wire)
    take_publication(wire, data)
    return [call.args[0] for call in wire.deliver.mock_calls], wire.drop.call_count
