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
    """One row of the registry.

    `run` takes the options and returns the samples of every figure in `figures`, no more and no fewer. `minions` and
    `rounds` are the defaults of its options, `minutes` is what it takes with them on a quiet machine of two cores.
    """

    name: str
    about: str
    run: Callable[[Options], Mapping[Figure, Samples]]
    figures: tuple[Figure, ...]
    minions: int
    rounds: int
    minutes: float

    def command(self, minions: int, rounds: int) -> str:
        """Return what a person types to run it with so many minions and rounds."""
        wanted = {"minions": (minions, self.minions), "rounds": (rounds, self.rounds)}
        asked = "".join(f" --{name} {value}" for name, (value, usual) in wanted.items() if value != usual)
        return f"nox -s bench -- {self.name}{asked}"
