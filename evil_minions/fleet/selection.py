"""Which minions an order is for: a share of them, a target, or all.

Which ones make up a share depends on the seed and on how many shares were chosen before. So the same orders to the same
fleet choose the same minions, and the next order chooses others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evil_minions.errors import ControlError
from evil_minions.rng import portion, ranked, stream

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


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
