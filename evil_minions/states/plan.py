"""A plan: what a state run asks the master for, what comes of it, and for which minions that holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MISSING: Final = "\0missing"
"""Stands for the value of a grain or a part of the pillar that isn't there."""

# what a minion has: ("cache", saltenv, path, hash), ("file", path on the minion, hash), ("state", tag, fingerprint)
Held = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One request: its load without the minion's own values, the seconds of work before it, and its answer.

    Without a load it is a file, which `held` identifies; a minion that does not have it fetches it.
    """

    load: Mapping[str, Any]
    pause: float
    answer: Any = None
    held: Held | None = None

    def like(self, other: Step) -> bool:
        """Return whether another run made the same request and heard the same."""
        return self.load == other.load and self.held == other.held and self.answer == other.answer


@dataclass(frozen=True, slots=True)
class StatePlan:
    """The steps of a run, its return, and all that the run looked at: the plan fits minions where that is the same.

    `grains` and `pillar` are values of the top level, `shapes` the shapes (see `shape`) of those that files only print.
    `targets` are those of the top file and whether they matched the minion, `calls` functions with what they returned,
    `effects` what states leave behind and whether the minion had it before. `leaves` is what it has afterwards.
    """

    steps: tuple[Step, ...]
    grains: Mapping[str, Any]
    pillar: Mapping[str, Any]
    shapes: tuple[Mapping[str, Any], Mapping[str, Any]]
    targets: tuple[tuple[Any, str, bool], ...]
    calls: tuple[tuple[str, Sequence[Any], Mapping[str, Any], Any], ...]
    effects: tuple[tuple[Held, bool], ...]
    leaves: frozenset[Held]
    value: Any
    retcode: int
    pause: float

    def continues(self, given: Sequence[Step]) -> bool:
        """Return whether a run that has made these steps may go on with the rest of this one's."""
        return len(given) <= len(self.steps) and all(
            mine.like(theirs) for mine, theirs in zip(self.steps, given, strict=False)
        )

    def suits(self, grains: Mapping[str, Any], pillar: Mapping[str, Any], held: frozenset[Held]) -> bool:
        """Return whether a minion with these grains, this pillar and what it has would have made the same run."""
        return (
            all(grains.get(name, MISSING) == value for name, value in self.grains.items())
            and all(pillar.get(name, MISSING) == value for name, value in self.pillar.items())
            and all(shape(grains.get(name, MISSING)) == form for name, form in self.shapes[0].items())
            and all(shape(pillar.get(name, MISSING)) == form for name, form in self.shapes[1].items())
            and all((key in held) == before for key, before in self.effects)
        )


def shape(value: Any) -> Any:
    """Return what matters of a value that a template only prints: its keys, and whether it is there."""
    if isinstance(value, dict):
        return {name: shape(child) for name, child in value.items()}
    if isinstance(value, list):
        return [shape(child) for child in value]
    return MISSING if value == MISSING else None
