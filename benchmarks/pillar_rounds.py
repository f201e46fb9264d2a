"""Rounds of the RFC's experiment, kept beside its measurement: hours of work may be stopped, and gone on with."""

from __future__ import annotations

import fcntl
import json
import shutil
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from benchmarks.errors import DamagedFile, OtherRun

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
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
class Sitting:
    """The rounds of one bed, when it was begun (UTC, ISO 8601), and the most connections PostgreSQL had at once."""

    begun: str
    connections: int
    rounds: list[Round]


@dataclass(frozen=True)
class Run:
    """All rounds of one method, tree and number of workers."""

    sittings: list[Sitting] = field(default_factory=list)

    @property
    def rounds(self) -> list[Round]:
        """Return the rounds of all beds, in their order."""
        return [one for sitting in self.sittings for one in sitting.rounds]

    @property
    def connections(self) -> int:
        """Return the most connections that PostgreSQL had at once."""
        return max((sitting.connections for sitting in self.sittings), default=0)

    def first(self, rounds: int) -> Run:
        """Return it with so many rounds, and with the beds that these are of."""
        found = []
        for sitting in self.sittings:
            if rounds > 0:
                found.append(replace(sitting, rounds=sitting.rounds[:rounds]))
            rounds -= len(sitting.rounds)
        return Run(found)


def now() -> str:
    """Return the time, as a sitting has it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Let nobody else use the folder of rounds meanwhile; raises OtherRun if somebody does."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise OtherRun(f"Another run keeps its rounds in {folder} now: wait for its end.") from error
        yield


def old(folder: Path) -> Path:
    """Return where the rounds of a folder are put by `set_aside`."""
    return folder.with_name(f"{folder.name}.old")


def set_aside(folder: Path) -> None:
    """Begin anew: put the rounds that a folder has beside it, in place of those that were there."""
    if folder.exists():
        shutil.rmtree(old(folder), ignore_errors=True)
        folder.rename(old(folder))


class Kept:
    """A folder with a file for each method and number of workers: the runs of both trees, made with the same facts."""

    def __init__(self, folder: Path, facts: Mapping[str, Any]) -> None:
        """Take the folder, and what has to be the same in all sittings, as JSON has it."""
        self._folder = folder
        self._facts = {"format": FORMAT, **facts}

    def read(self, name: str) -> dict[str, Run]:
        """Return the runs that are kept under a name by their trees, none if there is no file.

        Raises DamagedFile for a file that can't be read, OtherRun for rounds with other facts.
        """
        path = self._path(name)
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            other = [key for key, value in self._facts.items() if found.get(key) != value]
            runs = {} if other else {tree: _run(sittings) for tree, sittings in found["runs"].items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise DamagedFile(f"{path} can't be read ({error!r}): delete it, and its rounds are run again.") from error
        if other:
            raise OtherRun(
                f"The rounds in {path} were made with another {', '.join(other)}: go back to what it was, or begin "
                f"anew without --resume, which puts them into {old(self._folder)}."
            )
        return runs

    def write(self, name: str, runs: Mapping[str, Run]) -> None:
        """Keep runs (tree: run) under a name; a reader never sees half a file."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._path(name)
        draft = path.with_suffix(".json.part")
        sittings = {tree: asdict(run)["sittings"] for tree, run in runs.items()}
        draft.write_text(json.dumps({**self._facts, "runs": sittings}, indent=1) + "\n", encoding="utf-8")
        draft.replace(path)

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"


def _run(sittings: list[dict[str, Any]]) -> Run:
    """Return a run that was written; raises KeyError, TypeError or ValueError if it is damaged."""
    return Run(
        [
            Sitting(str(one["begun"]), int(one["connections"]), [Round(**found) for found in one["rounds"]])
            for one in sittings
        ]
    )
