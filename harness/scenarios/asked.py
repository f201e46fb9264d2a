"""Which functions clients asked for, among those of all jobs: `Asked`.

For most clients the scenario names the function. What the steps of an orchestration publish only the master knows: with
such clients, all jobs count as asked for, except those that master and waiting clients publish by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# polling, not work
OVERHEAD = frozenset({"saltutil.find_job"})
# of the master's own jobs, which no minion hears of
_OF_MASTER = ("runner.", "wheel.")
_ANY = "*"


@dataclass(frozen=True)
class Asked:
    """The functions `names`, and all but the overhead if `any` is true."""

    names: frozenset[str]
    any: bool = False

    def __contains__(self, function: object) -> bool:
        """Return whether a publication of `function` is what clients asked for."""
        if function in self.names:
            return True
        return self.any and function not in OVERHEAD and not str(function).startswith(_OF_MASTER)

    def lines(self) -> list[str]:
        """Return this as lines of text, for `read`."""
        return [*sorted(self.names), *([_ANY] if self.any else [])]

    @staticmethod
    def read(lines: Iterable[str]) -> Asked:
        """Return what `lines` wrote."""
        names = frozenset(lines)
        return Asked(names - {_ANY}, _ANY in names)
