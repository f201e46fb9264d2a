"""A benchmark: its name, its figures, and the function that takes the samples."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
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

    def own(self) -> str:
        """Return the hash of the benchmark's own files: its module, and what that runs inside Salt."""
        # a partial is what its function is
        name = getattr(self.run, "func", self.run).__module__.rpartition(".")[2]
        here = Path(__file__).parent
        total = hashlib.sha256()
        for path in sorted([here / f"{name}.py", *here.glob(f"tasks/{name}.*")]):
            total.update(path.read_bytes())
        return total.hexdigest()

    def command(self, minions: int, rounds: int) -> str:
        """Return what a person types to run it with so many minions and rounds."""
        wanted = {"minions": (minions, self.minions), "rounds": (rounds, self.rounds)}
        asked = "".join(f" --{name} {value}" for name, (value, usual) in wanted.items() if value != usual)
        return f"nox -s bench -- {self.name}{asked}"
