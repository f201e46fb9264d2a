"""What a benchmark may be asked for."""

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
    """What a benchmark may be asked for.

    `minions` is the size of the fleet or of the data, `rounds` the number of interleaved pairs, and `progress` is
    told after each of them; `output` is the folder for what a benchmark writes beside its outcome. `profile` asks for
    profiles of the processes as well, from those that can write them.
    """

    minions: int
    rounds: int
    progress: Callable[[int, int], None] = _silent
    output: Path = Path("build/bench")
    profile: bool = False
