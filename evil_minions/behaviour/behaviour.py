"""A behaviour: named stages, of which each job gets one, and what else is unusual about a minion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from evil_minions.behaviour.example import Example, example_of
from evil_minions.behaviour.rule import Stage, stage_of
from evil_minions.rng import Dice, lot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evil_minions.inventory.target import Target
    from evil_minions.tables import Table

FORMAT: Final = 1


class Subject(Protocol):
    """The minion that a behaviour decides for."""

    @property
    def number(self) -> int:
        """Its number in the fleet."""

    def is_meant(self, target: Target) -> bool:
        """Return whether a target means it."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What one file says; `source` is that file.

    `paced` is false for minions that start all at once; `process_count_max` bounds the jobs that a minion runs at a
    time, the others wait in its own queue (0: no bound).
    """

    name: str
    source: str
    description: str
    stages: tuple[Stage, ...]
    timers: tuple[Stage, ...]
    examples: tuple[Example, ...]
    paced: bool = True
    process_count_max: int = 0

    def decide(
        self, subject: Subject, functions: Sequence[str], args: Sequence[Any], seed: int, place: int
    ) -> Stage | None:
        """Return the stage for a job, or None if the minion does what it always does.

        `place` is the job's place in what the minion draws; `seed` the fleet's.
        """
        fits = [stage for stage in self.stages if stage.is_for(functions, args) and self.concerns(stage, subject, seed)]
        if len(fits) <= 1:
            return fits[0] if fits else None
        point = Dice().at(subject.number, place).random() * sum(stage.weight for stage in fits)
        for stage in fits:
            point -= stage.weight
            if point < 0:
                return stage
        return fits[-1]

    def concerns(self, stage: Stage, subject: Subject, seed: int) -> bool:
        """Return whether a stage is for a minion: by its share and by its target."""
        if stage.share < 1.0:
            place = lot(seed, "stage", self.name, stage.name)
            if Dice().at(subject.number, place).random() >= stage.share:
                return False
        return stage.target is None or subject.is_meant(stage.target)


def behaviour_of(table: Table, name: str) -> Behaviour:
    """Return the behaviour that a file describes.

    Raises:
        UsageError: if it makes no sense.

    """
    table.allow("format", "description", "stages", "examples", "start", "jobs")
    if table.count("format", FORMAT) != FORMAT:
        raise table.error("format", f"is {table.values['format']!r}, but has to be {FORMAT}")
    stages = [stage_of(inner) for inner in table.tables("stages")]
    names = [stage.name for stage in stages]
    for place, stage in enumerate(names):
        if stage in names[:place]:
            raise table.error(f"stages[{place + 1}].name", f"is {stage!r}, as another stage's: give it another one")
    start, jobs = table.table("start").allow("paced"), table.table("jobs").allow("process_count_max")
    return Behaviour(
        name,
        table.source,
        table.take("description", str),
        tuple(stage for stage in stages if stage.every is None),
        tuple(stage for stage in stages if stage.every is not None),
        tuple(example_of(inner, names) for inner in table.tables("examples")),
        start.take("paced", bool, default=True),
        jobs.count("process_count_max", 0, high=100_000),
    )
