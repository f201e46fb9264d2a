"""What a minion does next, after a rule."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from evil_minions.behaviour.delay import Delay, delay_of

if TYPE_CHECKING:
    from evil_minions.tables import Table

STAY, DIE, DISCONNECT, RESTART, SWITCH = "stay", "die", "disconnect", "restart", "behaviour"
_WITH_TIME: Final = (DISCONNECT, RESTART)


@dataclass(frozen=True, slots=True)
class Sequel:
    """One of the words above, with the seconds that it takes or the behaviour that follows."""

    kind: str = STAY
    seconds: Delay = field(default_factory=Delay)
    behaviour: str = ""

    def __str__(self) -> str:
        """Return it as a person reads it."""
        match self.kind:
            case "disconnect":
                return f"disconnects for {self.seconds}"
            case "restart":
                return f"ends and starts again after {self.seconds}"
            case "behaviour":
                return f"behaves as {self.behaviour} from then on"
            case "die":
                return "dies"
        return "stays"


def sequel_of(table: Table) -> Sequel:
    """Return what `next` of a rule describes: `stay` where it says nothing.

    Raises:
        UsageError: if it makes no sense.

    """
    if "next" not in table:
        return Sequel()
    if isinstance(table.values["next"], str):
        return Sequel(table.choice("next", (STAY, DIE)))
    inner = table.table("next").allow(*_WITH_TIME, SWITCH)
    kind = inner.one(*_WITH_TIME, SWITCH)
    if kind is None:
        raise table.error("next", "is empty: give `disconnect`, `restart` or `behaviour`, or the text `die`")
    if kind == SWITCH:
        return Sequel(kind, behaviour=inner.take(SWITCH, str))
    return Sequel(kind, delay_of(inner, kind) or Delay())
