"""The orders that change a fleet while it runs: the one table of command line, control socket, workers, timeline.

An order to the whole fleet takes no selection; `heal` and `scale` are the only ones.

Which ones make up a share depends on the seed and on how many shares were chosen before. So the same orders to the same
fleet choose the same minions, and the next order chooses others.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from evil_minions.errors import ControlError, UsageError
from evil_minions.minion.runtime import Phase
from evil_minions.network.path import KEYS, NetworkPath, Region
from evil_minions.rng import portion, ranked, stream

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from evil_minions.minion.minion import Minion


@dataclass(frozen=True, slots=True)
class Selection:
    """A share from 0 to 1, or a target of Salt; neither means all."""

    share: float | None = None
    tgt: str | list[str] | None = None
    tgt_type: str = "glob"

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> Selection:
        """Return the selection in a request.

        Raises:
            ControlError: if there is something else.
        """
        share, tgt, kind = request.get("share"), request.get("tgt"), request.get("tgt_type", "glob")
        if share is not None and tgt is not None:
            raise ControlError("A request has either `share` or `tgt`: leave one out.")
        if share is not None and (isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1):
            raise ControlError(f"`share` is {share!r}, but has to be a number from 0 to 1.")
        if tgt is not None and not isinstance(tgt, str | list):
            raise ControlError(f"`tgt` is {tgt!r}, but has to be a text or a list of ids.")
        if not isinstance(kind, str):
            raise ControlError(f"`tgt_type` is {kind!r}, but has to be a text.")
        return cls(None if share is None else float(share), tgt, kind)

    def to_dict(self) -> dict[str, Any]:
        """Return the keys that stand for it in a request."""
        if self.share is not None:
            return {"share": self.share}
        return {} if self.tgt is None else {"tgt": self.tgt, "tgt_type": self.tgt_type}

    def pick(self, candidates: Sequence[int], seed: int, turn: int) -> list[int]:
        """Return the chosen ones of the minions' numbers that an order could be for; a target was matched before."""
        if self.share is None:
            return list(candidates)
        return ranked(candidates, stream(seed, "order", turn))[: portion(self.share, len(candidates))]


@dataclass(frozen=True, slots=True)
class Order:
    """One order.

    Args:
        name: of the request, its key `do`.
        text: what it does, for the help.
        done: what is said afterwards, with the number of minions that it changed.
        do: carries it out for some minions of a worker; None for an order to the whole fleet.
        argument: the key that a request and a moment of a timeline need, and the word of the command line; "" for none.
        hint: what the argument is, for the help.
        read: returns the argument as workers get it, from a request or as text of the command line; it raises a
            ControlError or UsageError for what can't be meant.
        able: whether it would change a minion.
        command: the word of the command line, where it is not the name.
    """

    # `do` and `able` get a MinionSet, which imports this module, and minions of it
    name: str
    text: str
    done: str
    do: Callable[[Any, Sequence[Minion], Mapping[str, Any]], None] | None = None
    argument: str = ""
    hint: str = ""
    read: Callable[[Any], Any] = lambda value: value
    able: Callable[[Any, Any], bool] = lambda _here, _minion: True
    command: str = ""

    @property
    def word(self) -> str:
        """Return the word of the command line."""
        return self.command or self.name

    @property
    def selects(self) -> bool:
        """Return whether it may be for some minions only."""
        return self.do is not None


def _minions(value: object) -> int:
    """Read a number of minions."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ControlError(f"`minions` is {value!r}, but has to be a whole number, 0 or more.")
    return value


def _path(value: object) -> dict[str, Any]:
    """Read a network: an object, or words such as `rtt_ms=250 loss=1%`."""
    if isinstance(value, str):
        region = Region.parse(value)
        if region.share != 1.0 or region.tgt is not None:
            raise UsageError("Say whose network it is by --share or --tgt.")
        return region.path.to_dict()
    if not isinstance(value, dict):
        raise ControlError(f"`path` is {value!r}, but has to be an object with {', '.join(KEYS)}.")
    return NetworkPath.of(value).to_dict()


def _behaviour(value: object) -> str:
    """Read a behaviour, a preset's name or a file: its path is absolute, as the fleet runs in another folder."""
    # behaviours need Salt's functions, which whoever reads a timeline does not wait for
    from evil_minions import behaviour  # noqa: PLC0415 - as said above

    found = behaviour.find(str(value), Path.cwd())
    behaviour.load(found)
    return str(found)


ORDERS: Final = {
    order.name: order
    for order in (
        Order(
            "scale",
            "change the number of minions",
            "{} minions came or went.",
            argument="minions",
            hint="how many in all",
            read=_minions,
        ),
        Order(
            "kill",
            "kill minions as processes",
            "{} minions are dead.",
            lambda here, minions, _: here.kill(minions),
            able=lambda _, minion: minion.phase != Phase.DEAD,
        ),
        Order(
            "revive",
            "start killed minions again",
            "{} minions start again.",
            lambda here, minions, _: here.revive(minions),
            able=lambda _, minion: minion.phase == Phase.DEAD,
        ),
        Order(
            "partition",
            "cut minions off from the master",
            "{} minions are cut off.",
            lambda here, minions, _: here.partition(minions),
            able=lambda here, minion: minion.index not in here.shared.ports.partition.cut,
        ),
        Order("heal", "let all minions reach the master again", "{} minions can reach the master again."),
        Order(
            "network",
            "simulate a network for minions; rtt_ms=0 ends it",
            "{} minions are behind it.",
            lambda here, minions, request: here.network(minions, NetworkPath.of(request["path"])),
            argument="path",
            hint="rtt_ms=MS jitter_ms=MS loss=SHARE bandwidth_mbit=MBIT, some of these",
            read=_path,
        ),
        Order(
            "behaviour",
            "have minions behave as a preset or a file says",
            "{} minions behave so.",
            lambda here, minions, request: here.shared.lifecycle.assign(minions, request["behaviour"]),
            argument="behaviour",
            hint="name of a preset, or a TOML file",
            read=_behaviour,
            command="behave",
        ),
    )
}
"""The orders by their names."""
