"""Rounds of the RFC's experiment, kept beside its measurement: hours of work may be stopped, and gone on with."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from benchmarks.errors import BenchmarkError, DamagedFile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FORMAT = 1


@dataclass(frozen=True)
class Round:
    """One round: seconds of `pillar.items` and `test.ping`, CPU ms of the workers for each compile, short pillars."""

    items_s: float
    ping_s: float
    cpu_ms: float
    short: int


@dataclass(frozen=True)
class Run:
    """Rounds of one method, the most connections that PostgreSQL had at once, and when each bed was begun (UTC)."""

    rounds: list[Round] = field(default_factory=list)
    connections: int = 0
    begun: list[str] = field(default_factory=list)

    def joined(self, other: Run) -> Run:
        """Return this one followed by another of the same method."""
        most = max(self.connections, other.connections)
        return Run([*self.rounds, *other.rounds], most, [*self.begun, *other.begun])

    def first(self, rounds: int) -> Run:
        """Return it with its first rounds only."""
        return replace(self, rounds=self.rounds[:rounds])


def now() -> str:
    """Return the time, as `Run.begun` has it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Kept:
    """A folder with a file of rounds for each method, tree and number of workers; all of one Salt and one fleet."""

    def __init__(self, folder: Path, minions: int, trees: Mapping[str, Any]) -> None:
        """Take the folder, the size of the fleet and the facts of the trees; see `harness.results.trees.facts`."""
        self._folder = folder
        self._facts = {"format": FORMAT, "minions": minions, "trees": dict(trees)}

    def clear(self) -> None:
        """Forget all rounds."""
        for path in self._folder.glob("*.json"):
            path.unlink()

    def read(self, name: str) -> Run:
        """Return what is kept under a name, a run without rounds if that is nothing.

        Raises DamagedFile for a file that can't be read, BenchmarkError for rounds of another Salt or another fleet.
        """
        path = self._path(name)
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            run = Run([Round(**one) for one in found["rounds"]], found["connections"], found["begun"])
        except FileNotFoundError:
            return Run()
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise DamagedFile(f"{path} can't be read ({error!r}): delete it, and its rounds are run again.") from error
        other = [key for key, value in self._facts.items() if found.get(key) != value]
        if other:
            raise BenchmarkError(
                f"The rounds in {path} are of another run ({', '.join(other)}): begin anew, without --resume."
            )
        return run

    def write(self, name: str, run: Run) -> None:
        """Keep a run under a name; a reader never sees half a file."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._path(name)
        draft = path.with_suffix(".json.part")
        draft.write_text(json.dumps({**self._facts, **asdict(run)}, indent=1) + "\n", encoding="utf-8")
        draft.replace(path)

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"
