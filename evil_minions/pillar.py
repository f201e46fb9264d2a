"""The pillars of all minions of a worker, with every equal part held once.

A thousand pillars are mostly the same text: hash-consing keeps one copy of each subtree, so that a real pillar costs
a minion little more than what is its own.
"""

from __future__ import annotations

from array import array
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_SWEEP_AT_LEAST: Final = 4096


class PillarStore:
    """Holds one pillar for each minion index of a worker.

    `version` grows with every change, so that match results can be cached.
    """

    def __init__(self, size: int) -> None:
        """Start with empty pillars for `size` minions."""
        self._empty: dict[str, Any] = {}
        self._pillars: list[dict[str, Any]] = [self._empty] * size
        self._canon: dict[bytes, Any] = {}
        # one table for each type: keys that name the type would take as much again as the values
        self._scalars: dict[type, dict[Any, Any]] = {}
        self._sweep_at = _SWEEP_AT_LEAST
        self.version = 0

    def get(self, index: int) -> dict[str, Any]:
        """Return the pillar of a minion; it is shared, so don't change it."""
        return self._pillars[index]

    def put(self, index: int, pillar: dict[str, Any]) -> None:
        """Keep a minion's new pillar."""
        canonical = self._intern(pillar)
        if canonical is not self._pillars[index]:
            self._pillars[index] = canonical
            self.version += 1
        if self.parts() > self._sweep_at:
            self._sweep()

    def parts(self) -> int:
        """Return how many distinct parts are held."""
        return len(self._canon) + sum(map(len, self._scalars.values()))

    def _sweep(self) -> None:
        """Drop parts that no pillar has any longer, by interning the living ones anew."""
        self._canon = {}
        self._scalars = {}
        self._pillars = [self._intern(pillar) for pillar in self._pillars]
        self._sweep_at = max(_SWEEP_AT_LEAST, 2 * self.parts())

    def _intern(self, value: Any) -> Any:  # noqa: ANN401 - whatever a pillar holds
        """Return the one copy of `value`; equal parts of different types (1, True, 1.0) stay apart."""
        if isinstance(value, dict):
            children = {self._intern(name): self._intern(child) for name, child in value.items()}
            mark = _mark(b"dict", (id(part) for pair in children.items() for part in pair))
            return self._canon.setdefault(mark, children)
        if isinstance(value, list | tuple):
            items = [self._intern(child) for child in value]
            return self._canon.setdefault(_mark(b"list", map(id, items)), items)
        if isinstance(value, bool) or value is None:
            return value
        # by its text, as 0.0 equals -0.0
        same = repr(value) if isinstance(value, float) else value
        return self._scalars.setdefault(type(value), {}).setdefault(same, value)


def _mark(kind: bytes, ids: Iterable[int]) -> bytes:
    """Return 16 bytes that stand for a container with these children; the ids themselves would take ten times that."""
    return blake2b(array("Q", ids).tobytes(), digest_size=16, key=kind).digest()
