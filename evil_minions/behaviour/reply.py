"""What a rule returns to the master: the normal answer, another one, none, or several."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from evil_minions.behaviour.delay import Delay, delay_of
from evil_minions.functions.job import Result

if TYPE_CHECKING:
    from evil_minions.tables import Table

NORMAL, NOTHING, VALUE, ERROR, BYTES = "normal", "nothing", "value", "error", "bytes"
_MOST_BYTES: Final = 1 << 30
_MOST_COPIES: Final = 1000


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer: `kind` is one of those above, `value` belongs to it, `retcode` replaces the usual one.

    `copies` returns are sent in all, each `apart` after the one before.
    """

    kind: str = NORMAL
    value: Any = None
    retcode: int | None = None
    copies: int = 1
    apart: Delay = field(default_factory=Delay)

    def result(self, minion_id: str) -> Result | None:
        """Return what stands for the function's outcome; None if the function itself has to be run."""
        match self.kind:
            case "value":
                return Result(self.value, self.retcode or 0)
            case "error":
                return Result(f"ERROR: {self.value}", 1 if self.retcode is None else self.retcode, "nested")
            case "bytes":
                line = f"{minion_id} says nothing in many words.\n"
                return Result((line * (self.value // len(line) + 1))[: self.value], self.retcode or 0)
        return None

    def __str__(self) -> str:
        """Return it as a person reads it."""
        text = {
            NORMAL: "the normal answer",
            NOTHING: "nothing",
            VALUE: f"{self.value!r}",
            ERROR: f"the error {self.value!r}",
            BYTES: f"{self.value} bytes",
        }[self.kind]
        if self.retcode is not None:
            text += f" with exit code {self.retcode}"
        return f"{text}, {self.copies} times" if self.copies > 1 else text


def reply_of(table: Table) -> Reply:
    """Return the answer that `returns` of a rule describes, the normal one where it says nothing.

    Raises:
        UsageError: if it makes no sense.

    """
    if "returns" not in table:
        return Reply()
    if isinstance(table.values["returns"], str):
        return Reply(table.choice("returns", (NORMAL, NOTHING)))
    inner = table.table("returns").allow(VALUE, ERROR, BYTES, "retcode", "copies", "apart")
    kind = inner.one(VALUE, ERROR, BYTES) or NORMAL
    value: Any = None
    if kind == VALUE:
        value = inner.values[VALUE]
    elif kind == ERROR:
        value = inner.take(ERROR, str)
    elif kind == BYTES:
        value = inner.count(BYTES, high=_MOST_BYTES)
    retcode = inner.count("retcode", high=255) if "retcode" in inner else None
    copies = inner.count("copies", 1, low=1, high=_MOST_COPIES)
    return Reply(kind, value, retcode, copies, delay_of(inner, "apart") or Delay())
