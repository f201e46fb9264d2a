"""Live control: which minions an order is for, and what it does to connections."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from evil_minions import __main__ as command
from evil_minions.errors import ControlError
from evil_minions.fleet.orders import Selection
from evil_minions.network.link import Link
from evil_minions.network.ports import Partition, SilentWire
from evil_minions.network.wire import Endpoint, Wire
from evil_minions.rng import SeededRandom, portion, ranked, share_of, stream

if TYPE_CHECKING:
    from pathlib import Path


def test_share_is_exact_and_seeded() -> None:
    """A share picks exactly so many, the same for the same seed and turn, others for another turn or seed."""
    tenth = Selection(0.1)
    picked = tenth.pick(range(1000), 1, 1)
    assert len(set(picked)) == 100
    assert picked == tenth.pick(range(1000), 1, 1)
    assert set(picked) != set(tenth.pick(range(1000), 1, 2))
    assert set(picked) != set(tenth.pick(range(1000), 2, 1))


def test_no_share_is_all() -> None:
    """Without a share all candidates are picked."""
    assert Selection().pick([3, 5], 1, 1) == [3, 5]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"share": 1.5}, "`share` is 1.5, but has to be a number from 0 to 1."),
        ({"share": True}, "`share` is True, but has to be a number from 0 to 1."),
        ({"share": 0.1, "tgt": "*"}, "A request has either `share` or `tgt`: leave one out."),
        ({"tgt": 3}, "`tgt` is 3, but has to be a text or a list of ids."),
        ({"tgt": "*", "tgt_type": 3}, "`tgt_type` is 3, but has to be a text."),
    ],
)
def test_selection_that_can_not_be(request_: dict[str, Any], message: str) -> None:
    """A selection that makes no sense is refused with one sentence."""
    with pytest.raises(ControlError) as caught:
        Selection.of(request_)
    assert str(caught.value) == message


def test_selection_travels() -> None:
    """The keys of a selection stand for the same selection."""
    for selection in (Selection(), Selection(0.25), Selection(None, "site:north", "grain")):
        assert Selection.of(selection.to_dict()) == selection


@pytest.mark.parametrize(("text", "share"), [("10%", 0.1), ("0.25", 0.25), ("100%", 1.0), ("0", 0.0)])
def test_share_of_a_person(text: str, share: float) -> None:
    """A share is written with a per cent sign or as a fraction."""
    assert share_of(text) == share


@pytest.mark.parametrize("text", ["110%", "ten", "-1", ""])
def test_share_of_nonsense(text: str) -> None:
    """Anything else is no share."""
    with pytest.raises(ValueError, match=r".+"):
        share_of(text)


def test_dice_is_where_it_was_put() -> None:
    """What a minion draws for a purpose doesn't depend on what was drawn before."""
    dice = SeededRandom()
    first = [dice.at(number, stream(1, "job", "test.ping", 1)).random() for number in range(50)]
    dice.at(7, 3).random()
    again = [dice.at(number, stream(1, "job", "test.ping", 1)).random() for number in reversed(range(50))]
    assert first == list(reversed(again))
    assert len(set(first)) == 50


def test_dice_is_fair() -> None:
    """Numbers of neighbouring minions and places are as even as chance is."""
    dice = SeededRandom()
    drawn = [dice.at(number, place).random() for number in range(200) for place in range(50)]
    assert abs(sum(drawn) / len(drawn) - 0.5) < 0.01
    tenths = [sum(tenth <= number * 10 < tenth + 1 for number in drawn) for tenth in range(10)]
    assert all(850 < count < 1150 for count in tenths)
    assert sorted(dice.at(1, 1).sample(range(10), 10)) == list(range(10))


def test_portion_and_rank() -> None:
    """A portion is the nearest whole number, and a ranking loses nobody."""
    assert [portion(share, 7) for share in (0.0, 0.1, 0.5, 1.0)] == [0, 1, 4, 7]
    assert sorted(ranked(range(20), 9)) == list(range(20))


class Telephone(Link):
    """A link that keeps what it hears."""

    __slots__ = ("heard",)

    def pause(self, *, established: bool) -> float:  # noqa: ARG002 - a link's signature
        """Wait for a second."""
        return 1.0

    def wire_message(self, message: bytes) -> None:
        """Keep a message."""
        self.heard = message


class Plain(Wire):
    """A wire without frames."""

    __slots__ = ()

    def send(self, message: bytes) -> None:
        """Write a message as it is."""
        self.write(message)


class Socket:
    """The transport beneath a wire."""

    def __init__(self) -> None:
        """Begin open."""
        self.written: list[bytes] = []
        self.reading = True
        self.ended = False

    def write(self, data: bytes) -> None:
        """Keep what is written."""
        self.written.append(data)

    def pause_reading(self) -> None:
        """Hear nothing."""
        self.reading = False

    def resume_reading(self) -> None:
        """Hear again."""
        self.reading = True

    def abort(self, *, linger: bytes | None = None) -> None:  # noqa: ARG002 - a connection's signature
        """End."""
        self.ended = True


class Road(Endpoint):
    """An endpoint whose wires connect at once to a socket of the test."""

    def _connect(self, wire: Any) -> None:
        """Connect to a socket of the test."""
        wire._connection = Socket()


@pytest.fixture
def road(clock: Any, endpoint: Any) -> Road:
    """Return an endpoint."""
    return Road(clock, ("127.0.0.1", 1), Plain, endpoint.counters)


@pytest.fixture
def link(road: Road) -> Telephone:
    """Return a link that is connected."""
    link = Telephone(road, mock.Mock(random=lambda: 0.5))
    link.open()
    assert link._wire is not None
    link.wire_ready(link._wire)
    return link


def test_partition_keeps_the_connection_silent(link: Telephone) -> None:
    """A connection that is cut off stays open, hears nothing, and what is written comes through once healed."""
    network = Partition()
    real: Any = link._wire
    network.cut.add(0)
    network.sever(0, link)
    link.transmit(b"hello")
    assert (real._connection.reading, real._connection.written, link.linked) == (False, [], True)
    network.heal()
    network.rejoin(link)
    assert (real._connection.reading, real._connection.written) == (True, [b"hello"])
    assert link._wire is real


def test_new_connections_hang_in_a_partition(link: Telephone, clock: Any) -> None:
    """A connection begun in the dark hangs; after healing it comes up when its next packet would be sent."""
    network = Partition()
    old: Any = link._wire
    socket = old._connection
    network.cut.add(0)
    network.sever(0, link)
    link.reconnect()
    assert isinstance(link._wire, SilentWire)
    assert not link.linked
    assert not socket.ended, "the master would hear of the end"
    clock.advance(4.0)
    network.heal()
    assert socket.ended
    network.rejoin(link)
    clock.advance(2.9)
    found: list[object] = [link._wire]
    clock.advance(0.2)
    found.append(link._wire)
    assert [type(wire).__name__ for wire in found] == ["NoneType", "Plain"]


def test_order_without_a_fleet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Orders where no fleet runs end with 1, and options that exclude each other with 2."""
    folder = ["--folder", str(tmp_path)]
    assert command.main(["kill", "--share", "10%", *folder]) == 1
    assert "No fleet answers" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["scale", "kill", "revive", "partition", "heal", "behave"])
def test_help_of_orders(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The help of each order has an example of it."""
    with pytest.raises(SystemExit) as caught:
        command.main([name, "--help"])
    assert caught.value.code == 0
    assert f"python -m evil_minions {name} " in capsys.readouterr().out


def test_orders_are_json() -> None:
    """What a selection puts into a request can be sent."""
    assert json.loads(json.dumps(Selection(0.5).to_dict())) == {"share": 0.5}
