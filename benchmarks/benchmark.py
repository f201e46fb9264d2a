"""A benchmark: its name, its figures, and the function that takes the samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks.figure import Figure, Samples
    from benchmarks.options import Options


@dataclass(frozen=True)
class Benchmark:
    """One row of the registry."""

    # what is typed
    name: str
    # one line for the list
    about: str
    # returns the samples of every figure in `figures`, no more and no fewer
    run: Callable[[Options], Mapping[Figure, Samples]]
    figures: tuple[Figure, ...]
    # the usual size of the fleet or of the data
    minions: int
    # the usual number of turns
    rounds: int
    # what it takes with these on a quiet machine of two cores
    minutes: float
    # whether it keeps its rounds, and goes on with them when it is run again with `Options.resume`
    resumes: bool = False

    def command(self, minions: int, rounds: int, *, resume: bool = False) -> str:
        """Return what a person types to run it with so many minions and rounds, or to go on with such a run."""
        wanted = {"minions": (minions, self.minions), "rounds": (rounds, self.rounds)}
        asked = "".join(f" --{name} {value}" for name, (value, usual) in wanted.items() if value != usual)
        return f"nox -s bench -- {self.name}{asked}{' --resume' if resume else ''}"
