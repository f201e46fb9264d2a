"""A member of the fleet: what a minion is before it has a connection, and what its functions may look at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from evil_minions.functions.tree import State
    from evil_minions.inventory.inventory import Target
    from evil_minions.minion.publication import Publication
    from evil_minions.minion.shared import Shared
    from evil_minions.recording.replay import Replay
    from evil_minions.rng import SeededRandom
    from evil_minions.states.planner import Planner


class Member:
    """A minion with an id and a number, and its random numbers; `index` is its place in its worker."""

    __slots__ = ("_draws", "id", "index", "shared")

    def __init__(self, shared: Shared, index: int) -> None:
        """Take what all minions of the worker share."""
        self.shared = shared
        self.index = index
        self.id = shared.inventory.ids[index]
        self._draws = 0

    @property
    def number(self) -> int:
        """The number of the minion in its fleet, of all workers."""
        return self.shared.inventory.first + self.index

    @property
    def rng(self) -> SeededRandom:
        """The random numbers that belong to no job; shared by all minions of the worker, so use them at once."""
        self._draws += 1
        draws = self.shared.draws
        return draws.rng.at(self.number, draws.own + self._draws)

    def random(self) -> float:
        """Return a number from 0 up to 1 that belongs to no job."""
        return self.rng.random()

    def rng_of(self, publication: Publication, what: int) -> SeededRandom:
        """Return the random numbers for one decision about one job; shared, so use them at once."""
        return self.shared.draws.rng.at(self.number, publication.stream + what)

    @property
    def replay(self) -> Replay | None:
        """What was recorded, if the fleet replays something."""
        return self.shared.answers.replay

    @property
    def states(self) -> Sequence[State] | None:
        """The made-up states, None where the master's own are run."""
        return self.shared.answers.states

    @property
    def planner(self) -> Planner:
        """What runs the master's own states."""
        return self.shared.answers.planner

    def pillar(self) -> dict[str, Any]:
        """Return the pillar that is kept; don't change it."""
        return self.shared.inventory.pillars.get(self.index)

    def pillar_item(self, name: str) -> Any:
        """Return one value of the top level of the pillar that is kept, or None; don't change it."""
        return self.shared.inventory.pillars.item(self.index, name)

    def grains(self) -> dict[str, Any]:
        """Return the grains."""
        return self.shared.inventory.factory.build(self.id, self.number)

    def change_grains(self, changes: Mapping[str, Any], removed: Sequence[str] = ()) -> None:
        """Set grains, and remove others, as a minion's grains file does."""
        self.shared.inventory.factory.change(self.id, changes, removed)

    def is_meant(self, target: Target) -> bool:
        """Return whether a target matches this minion."""
        return bool(self.shared.inventory.targets.select(target)[self.index])
