"""What the minions of a worker have of their master's files, and which states they have applied.

A thousand minions that ran the same states have the same: each such set is held once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from evil_minions.states.plan import Held

NOTHING: Final[frozenset[Held]] = frozenset()


class Caches:
    """What each minion has, by its index."""

    def __init__(self, *, keep: bool = True) -> None:
        """Begin with nothing; with `keep` false it stays so, and every run is a first one."""
        self._keep = keep
        self._sets: dict[frozenset[Held], frozenset[Held]] = {}
        self._of: dict[int, frozenset[Held]] = {}

    def of(self, index: int) -> frozenset[Held]:
        """Return what a minion has."""
        return self._of.get(index, NOTHING)

    def add(self, index: int, keys: Iterable[Held]) -> None:
        """Give a minion more; a newer version of a file or a state takes the place of the older one."""
        if not self._keep:
            return
        new = {key[:-1]: key for key in keys}
        if not new:
            return
        found = frozenset({**{key[:-1]: key for key in self.of(index)}, **new}.values())
        self._of[index] = self._sets.setdefault(found, found)
        if len(self._sets) > 2 * len(self._of) + 16:
            self._sets = {each: each for each in self._of.values()}

    def forget(self, index: int) -> None:
        """Take everything from a minion, as when its machine is reinstalled."""
        self._of.pop(index, None)
