"""What all minions of a worker share: a value for each part of the package that they use.

A minion holds one reference to all of them rather than one to each, as there are thousands of minions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import cycle
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from evil_minions.behaviour import Director
    from evil_minions.inventory.targets import Inventory
    from evil_minions.minion.lifecycle import Lifecycle, Traffic
    from evil_minions.minion.publication import Publications
    from evil_minions.minion.runtime import Runtime
    from evil_minions.network.ports import Ports
    from evil_minions.protocol.keys import MasterKey, MinionKey
    from evil_minions.recording.replay import Replay
    from evil_minions.rng import Draws
    from evil_minions.samples import Journal
    from evil_minions.states.planner import Planner


_FIRST_PID: Final = 2000
_PIDS: Final = 30000


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


@dataclass(frozen=True, slots=True)
class Shared:
    """The shared values; the docstring of each class says what it is for."""

    runtime: Runtime
    ports: Ports
    inventory: Inventory
    keys: KeyRing
    journal: Journal
    publications: Publications
    # what was recorded, None if the fleet replays nothing
    replay: Replay | None
    # runs the master's own states
    planner: Planner
    director: Director
    # Lifecycle[Minion], but Minion imports this module
    lifecycle: Lifecycle[Any]
    traffic: Traffic
    draws: Draws
    pids: Iterator[int] = field(default_factory=lambda: cycle(range(_FIRST_PID, _PIDS)))
