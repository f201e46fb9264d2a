"""The orders that change a fleet while it runs: the one table of command line, control socket, workers, timeline.

An order to the whole fleet takes no selection; `heal` and `scale` are the only ones.

Which ones make up a share depends on the seed and on how many shares were chosen before. So the same orders to the same
fleet choose the same minions, and the next order chooses others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from evil_minions.errors import ControlError
from evil_minions.minion.runtime import Phase
from evil_minions.network.path import NetworkPath
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
        argument: the key that a request needs; "" for none.
        able: whether it would change a minion.
        command: the word of the command line, where it is not the name.

    """

    # `do` and `able` get a MinionSet, which imports this module, and minions of it
    name: str
    text: str
    done: str
    do: Callable[[Any, Sequence[Minion], Mapping[str, Any]], None] | None = None
    argument: str = ""
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


ORDERS: Final = {
    order.name: order
    for order in (
        Order("scale", "change the number of minions", "{} minions came or went.", argument="minions"),
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
        ),
        Order(
            "behaviour",
            "have minions behave as a preset or a file says",
            "{} minions behave so.",
            lambda here, minions, request: here.shared.lifecycle.assign(minions, request["name"]),
            argument="name",
            command="behave",
        ),
    )
}
"""The orders by their names."""
