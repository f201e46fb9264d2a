"""The minions of an example: without a master, and with the grains of a real fleet."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from evil_minions import defaults
from evil_minions.functions.tree import load_states
from evil_minions.inventory.grains import GrainsFactory, load_template
from evil_minions.inventory.pillar import PillarStore
from evil_minions.inventory.target import Targets
from evil_minions.rng import SeededRandom

if TYPE_CHECKING:
    import random
    from collections.abc import Generator, Mapping, Sequence

    from evil_minions.functions.call import Call, Recorded
    from evil_minions.inventory.target import Target

SEED: Final = 1


@dataclass(frozen=True, slots=True)
class ExampleFleet:
    """The fleet of an example."""

    targets: Targets
    factory: GrainsFactory

    @classmethod
    def of(cls, first: int, minions: int) -> ExampleFleet:
        """Return so many minions with the grains of a real fleet."""
        ids = [defaults.ID_FORMAT.format(first + index) for index in range(minions)]
        factory = GrainsFactory(load_template(), SEED, "127.0.0.1")
        return cls(Targets(ids, first, factory, PillarStore(minions)), factory)


class NoFiles:
    """What an example has in place of a master's files: none."""

    async def run(self, call: Call, host: Any, mods: Sequence[str] | None, options: Mapping[str, Any]) -> Any:  # noqa: ARG002 - a planner's signature
        """Run nothing: an example has made-up states."""
        return {}, 0

    async def synchronise(self, host: Any, kinds: Sequence[str], saltenvs: Sequence[str]) -> dict[str, list[str]]:  # noqa: ARG002 - a planner's signature
        """Find no modules of any kind."""
        return {kind: [] for kind in kinds}


class Offline:
    """The part of a minion that has no master and no other jobs."""

    def stop_job(self, jid: str) -> int | None:  # noqa: ARG002 - a minion's signature
        """Find no such job."""
        return None

    def fire(self, tag: str, data: object) -> None:
        """Send an event to nobody."""

    def register_resources(self) -> None:
        """Register nothing with nobody."""

    def running(self) -> list[dict[str, Any]]:
        """Return the jobs that run: none."""
        return []

    def queued(self) -> list[dict[str, Any]]:
        """Return the jobs that wait: none."""
        return []

    async def fetch_pillar(self, *, override: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what was given as the pillar."""
        return dict(override or {})

    def refresh_pillar(self, *, clean_cache: bool) -> asyncio.Task[None]:  # noqa: ARG002 - a minion's signature
        """Do nothing."""
        return asyncio.create_task(asyncio.sleep(0))

    async def ask_in_turn(self, questions: Generator[Mapping[str, Any], Any, Any]) -> Any:
        """Give empty answers."""
        try:
            next(questions)
            while True:
                questions.send("")
        except StopIteration as end:
            return end.value

    async def ask_all(self, loads: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Return empty answers."""
        return ["" for _ in loads]


class ExampleMinion(Offline):
    """A minion of an example: a subject for a behaviour, and a host for functions that need no master."""

    def __init__(self, fleet: ExampleFleet, number: int, index: int) -> None:
        """Stand for the minion with this number."""
        self.id = defaults.ID_FORMAT.format(number)
        self.number = number
        self.replay: Recorded | None = None
        self.states = load_states()
        self.planner = NoFiles()
        self._index = index
        self._fleet = fleet

    def is_meant(self, target: Target) -> bool:
        """Return whether a target matches it."""
        return bool(self._fleet.targets.select(target)[self._index])

    @property
    def rng(self) -> random.Random:
        """Random numbers that belong to no job."""
        return SeededRandom().at(self.number, SEED)

    def job_rng(self, pid: int) -> random.Random:
        """Return the random numbers of a job."""
        return SeededRandom().at(self.number, pid)

    def grains(self) -> dict[str, Any]:
        """Return the grains."""
        return self._fleet.factory.build(self.id, self.number)

    def pillar(self) -> dict[str, Any]:
        """Return the pillar that is kept: nothing."""
        return {}

    def pillar_item(self, name: str) -> None:
        """Return nothing of it."""

    def change_grains(self, changes: Mapping[str, Any], removed: Sequence[str] = ()) -> None:
        """Set grains, and remove others."""
        self._fleet.factory.change(self.id, changes, removed)
