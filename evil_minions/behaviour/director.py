"""The director: which minion has which behaviour, and the plan for each of its jobs.

It decides and does nothing else: `evil_minions.minion` runs what it has planned.

A plan is a value. It says when the job begins, what it returns and what comes next, so running it needs no director.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from evil_minions.behaviour import behaviour
from evil_minions.behaviour.rule import Reply, Sequel
from evil_minions.samples.rows import DecisionRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from evil_minions.behaviour.behaviour import Behaviour, Subject
    from evil_minions.behaviour.rule import Delay, Rule

_NORMAL: Final = Reply()
_STAY: Final = Sequel()


@dataclass(frozen=True, slots=True)
class Plan:
    """The rule that a job gets, None if the minion does what a healthy one does.

    `behaviour` is the name of the minion's behaviour, empty for a minion without one.
    """

    behaviour: str = ""
    rule: Rule | None = None

    @property
    def delay(self) -> Delay | None:
        """The time until the function begins; None means as long as on a real minion."""
        return self.rule.delay if self.rule else None

    @property
    def reply(self) -> Reply:
        """What is returned."""
        return self.rule.reply if self.rule else _NORMAL

    @property
    def sequel(self) -> Sequel:
        """What comes after the job."""
        return self.rule.sequel if self.rule else _STAY

    def decision(self, minion_id: str, what: str, seconds: float) -> DecisionRow:
        """Return the plan as it is written down; `what` is the job or the round of a timer, `seconds` the wait."""
        if self.rule is None:
            return DecisionRow(minion_id, what, self.behaviour, "", seconds, "", "")
        returns = str(self.rule.reply) if self.rule.every is None else ""
        return DecisionRow(minion_id, what, self.behaviour, self.rule.name, seconds, returns, str(self.rule.sequel))


HEALTHY: Final = Plan()
"""The plan of every job on a minion without a behaviour."""


# offset, in the random stream of a job, of the choice of its rule; `evil_minions.minion.jobs` has further offsets
_CHOICE: Final = 16


class Job(Protocol):
    """A published job; `stream` is where the random numbers for it begin."""

    load: dict[str, Any]
    stream: int


class Director:
    """Decides for the minions of a worker; those without a behaviour do what healthy minions do."""

    def __init__(self, seed: int) -> None:
        """Begin with healthy minions; `seed` is the fleet's."""
        self._seed = seed
        self._behaviours: dict[Path, Behaviour] = {}
        self._assignments: dict[int, Path] = {}

    def assign(self, indexes: Iterable[int], name: str | Path) -> None:
        """Give some minions the behaviour of a preset or a file, from now on.

        Raises:
            UsageError: if it can't be read.

        """
        family = behaviour.family(name)
        self._behaviours.update(family)
        self._assignments.update(dict.fromkeys(indexes, next(iter(family))))

    def switch(self, index: int, name: str) -> None:
        """Give a minion the behaviour that a rule of its present one names."""
        self._assignments[index] = behaviour.find(name, self._assignments[index].parent)

    def behaviour(self, index: int) -> Behaviour | None:
        """Return the behaviour of a minion."""
        path = self._assignments.get(index)
        return None if path is None else self._behaviours[path]

    def is_paced(self, index: int) -> bool:
        """Return whether a minion starts in its turn, rather than at once."""
        behaviour = self.behaviour(index)
        return behaviour is None or behaviour.paced

    def timers(self, minion: Subject) -> list[Rule]:
        """Return the rules that come by themselves on a minion."""
        behaviour = self.behaviour(minion.index)
        return [rule for rule in behaviour.timers if behaviour.concerns(rule, minion, self._seed)] if behaviour else []

    def plan(self, minion: Subject, job: Job) -> Plan:
        """Return what comes of a job on a minion."""
        path = self._assignments.get(minion.index)
        if path is None:
            return HEALTHY
        behaviour = self._behaviours[path]
        load: Mapping[str, Any] = job.load
        functions = [load["fun"]] if isinstance(load["fun"], str) else load["fun"]
        rule = behaviour.decide(minion, functions, load["arg"], self._seed, job.stream + _CHOICE)
        return Plan(behaviour.name, rule)
