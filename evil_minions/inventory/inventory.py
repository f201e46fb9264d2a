"""The inventory of a worker: ids, grains and pillars of its minions, and who is meant by a target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evil_minions.inventory.pillar import PillarStore
from evil_minions.inventory.target import Targets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evil_minions.inventory.grains import GrainsFactory


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
