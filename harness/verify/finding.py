"""What a verification finds: a sentence, and how much it weighs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

WRONG, DOUBT, NOTE = "wrong", "doubt", "note"
# how many things are named before the rest is only counted
NAMED = 3


@dataclass(frozen=True)
class Finding:
    """One thing that was found in what a run left.

    `tree` is that of the samples, "" for the run as a whole. `weight` is `wrong` where two sources that know the same
    disagree, `doubt` where the figures are as measured but the measuring was disturbed, `note` for what a reader may
    want to know. `text` is a sentence.
    """

    tree: str
    weight: str
    text: str

    @property
    def told(self) -> str:
        """Return the sentence with its tree."""
        return f"{self.tree}: {self.text}" if self.tree else self.text


def some(names: Iterable[object], count: int = 0) -> str:
    """Return the first names of many, and that there are more: `count` in all, or as many as `names` has."""
    found = [str(name) for name in names]
    total = max(count, len(found))
    shown = ", ".join(found[:NAMED])
    return f"{shown} and {total - NAMED:,} more" if total > NAMED else shown
