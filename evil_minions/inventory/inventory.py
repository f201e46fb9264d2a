"""The inventory of a worker: ids, grains and pillars of its minions, and who is meant by a target.

A thousand pillars are mostly the same text: hash-consing keeps one copy of each subtree, and what holds nothing but
scalars is kept as the bytes it came in, a fifth of what the same costs as objects. So a real pillar costs a minion
little more than what is its own. It is put together again when a target or a person asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import salt.payload

from evil_minions.inventory.target import Targets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evil_minions.inventory.grains import GrainsFactory

_SWEEP_AT_LEAST: Final = 4096
_UNPACKED_AT_MOST: Final = 50_000

# what a series of reads has unpacked so far, by the identity of its part
Unpacked = dict[int, Any]

# a packed value, or the parts of a container: the packed names of a dictionary or None for a list, then the children
Part = bytes | tuple[Any, ...]


class PillarStore:
    """Holds one pillar for each minion index of a worker.

    `version` grows with every change, so that match results can be cached.
    """

    def __init__(self, size: int) -> None:
        """Start with empty pillars for `size` minions."""
        self._parts: dict[Part, Part] = {}
        self._pillars: list[Part] = [self._only(_pack({}))] * size
        self._sweep_at = _SWEEP_AT_LEAST
        self.version = 0

    def get(self, index: int, unpacked: Unpacked | None = None) -> dict[str, Any]:
        """Return the pillar of a minion; parts of it are shared, so don't change it.

        A series of reads without a change in between hands the same dictionary in as `unpacked`, empty at first: a
        part that many have is unpacked once then.
        """
        pillar: dict[str, Any] = _build(self._pillars[index], {} if unpacked is None else unpacked)
        return pillar

    def item(self, index: int, name: str) -> Any:
        """Return one value of the top level of a minion's pillar, or None: nothing else is unpacked for it."""
        part = self._pillars[index]
        if isinstance(part, bytes):
            return _loads(part).get(name)
        names, *values = part
        for known, value in zip(_loads(names), values, strict=True):
            if known == name:
                return _build(value, {})
        return None

    def put(self, index: int, pillar: dict[str, Any]) -> None:
        """Keep a minion's new pillar."""
        part = self._intern(pillar)
        if part != self._pillars[index]:
            self._pillars[index] = part
            self.version += 1
        if len(self._parts) > self._sweep_at:
            self._sweep()

    def grow(self, count: int) -> None:
        """Make room for more minions."""
        self._pillars += [self._only(_pack({}))] * count
        self.version += 1

    def parts(self) -> int:
        """Return how many distinct parts are held."""
        return len(self._parts)

    def _sweep(self) -> None:
        """Drop parts that no pillar has any longer, by collecting the living ones."""
        self._parts = {}
        for part in self._pillars:
            self._keep(part)
        self._sweep_at = max(_SWEEP_AT_LEAST, 2 * len(self._parts))

    def _keep(self, part: Part) -> None:
        """Take a part and all that it holds into the table again."""
        if part in self._parts:
            return
        self._parts[part] = part
        if isinstance(part, tuple):
            for child in part:
                if child is not None:
                    self._keep(child)

    def _intern(self, value: Any) -> Part:
        """Return the one copy of `value`; equal parts of different types (1, True, 1.0) differ as bytes."""
        if isinstance(value, dict) and any(isinstance(child, dict | list) for child in value.values()):
            names = self._only(_pack(list(value)))
            return self._only((names, *map(self._intern, value.values())))
        if isinstance(value, list) and any(isinstance(child, dict | list) for child in value):
            return self._only((None, *map(self._intern, value)))
        return self._only(_pack(value))

    def _only(self, part: Part) -> Part:
        """Return the copy of `part` that is held."""
        return self._parts.setdefault(part, part)


def _build(part: Part, unpacked: Unpacked) -> Any:
    """Return the value of a part."""
    if isinstance(part, tuple):
        names, *children = part
        values = [_build(child, unpacked) for child in children]
        return values if names is None else dict(zip(_build(names, unpacked), values, strict=True))
    known = unpacked.get(id(part), unpacked)
    if known is not unpacked:
        return known
    if len(unpacked) > _UNPACKED_AT_MOST:
        unpacked.clear()
    value = unpacked[id(part)] = _loads(part)
    return value


def _loads(part: bytes) -> Any:
    """Return what `_pack` packed."""
    return salt.payload.loads(part, encoding="utf-8")


def _pack(value: Any) -> bytes:
    """Return a value as bytes, text and bytes told apart."""
    return bytes(salt.payload.dumps(value, use_bin_type=True))


class Inventory:
    """What is known of each minion; `first` is the number in the fleet of the worker's first one."""

    def __init__(self, ids: Sequence[str], first: int, factory: GrainsFactory) -> None:
        """Take the ids, and what puts grains together."""
        self.ids = list(ids)
        self.first = first
        self.factory = factory
        self.pillars = PillarStore(len(self.ids))
        self.targets = Targets(self.ids, first, factory, self.pillars)

    def grow(self, ids: Sequence[str]) -> None:
        """Take more minions, whose numbers follow."""
        self.ids += ids
        self.targets.grow(list(ids))
        self.pillars.grow(len(ids))
