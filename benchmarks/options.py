"""The options of a benchmark."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def _silent(done: int, total: int) -> None:
    """Show nothing."""


@dataclass(frozen=True)
class Options:
    """What a benchmark may be asked for."""

    # the size of the fleet or of the data
    minions: int
    # how many turns there are
    rounds: int
    # told after each turn: how many are done, and how many there are
    progress: Callable[[int, int], None] = _silent
    # the folder for what a benchmark writes beside its file
    output: Path = Path("build/bench")
    # whether profiles of the processes are wanted too, from those benchmarks that can write them
    profile: bool = False
