"""The keys of a worker's minions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from evil_minions.protocol.keys import MasterKey, MinionKey


class KeyRing:
    """The keys of a worker's minions and of their master; minions with the numbers `denied` get a second key.

    `grains` are those by which the master accepts a key; minions with the numbers `unknown` do not have them.
    """

    def __init__(
        self,
        pool: Sequence[MinionKey],
        master: MasterKey,
        denied: frozenset[int] = frozenset(),
        grains: Mapping[str, str] | None = None,
        unknown: frozenset[int] = frozenset(),
    ) -> None:
        """Take the keys that minions share, and the master's."""
        self.master = master
        self.denied = denied
        self._grains = grains
        self._unknown = unknown
        self._pool = pool
        self._aes = ""

    def of(self, number: int) -> MinionKey:
        """Return the key of the minion with this number."""
        return self._pool[number % len(self._pool)]

    def grains_of(self, number: int) -> Mapping[str, str] | None:
        """Return the grains by which the master accepts the key of the minion with this number."""
        return None if number in self._unknown else self._grains

    def intern(self, aes: str) -> str:
        """Return the one copy of the key of publications, which all minions of a master share."""
        if aes != self._aes:
            self._aes = aes
        return self._aes
