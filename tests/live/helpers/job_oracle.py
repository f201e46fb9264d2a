"""What became of the jobs of a load, from the files of a master's job cache, its log, and what the fleet wrote.

The files are read as they lie on disk, without Salt and without any code of the bed.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgpack

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

PUBLISHED = re.compile(r"Published command (\S+) with jid (\d{20})")


@dataclass(frozen=True)
class Oracle:
    """The counts of all jobs of some functions together; see docs/load-figures.md for what each means."""

    jobs_accepted: int
    returns_expected: int
    returns_kept: int
    never_reached: int
    returns_lost: int
    settled_in_time: bool


def of_run(cache: Path, log: Path, fleet: Path, functions: Collection[str], settled: float) -> Oracle:
    """Return the counts from a copy of the job cache, the master's log and the fleet's files.

    `settled` is when the run ended, in seconds since the epoch.
    """
    targeted, kept = dict[str, int](), set[tuple[str, str]]()
    for jid, folder in _jobs(cache):
        # a master that is stopped between the files of a job has published nothing, and told nobody the id
        if not (folder / ".load.p").exists():
            continue
        load = msgpack.unpackb((folder / ".load.p").read_bytes(), strict_map_key=False)
        files = [*folder.glob(".minions*.p")]
        if load["fun"] in functions and files:
            named = {name for path in files for name in msgpack.unpackb(path.read_bytes(), strict_map_key=False)}
            targeted[jid] = len(named)
            kept |= {(jid, path.parent.name) for path in folder.glob("*/return.p")}
    published = {jid for fun, jid in PUBLISHED.findall(log.read_text(errors="replace")) if fun in functions}
    assert published == targeted.keys(), "the master's log and its job cache have other jobs"
    over = {
        (row["jid"], row["minion"])
        for row in _rows(fleet, "returns")
        # one without an attempt was never sent: its minion died before
        if row["jid"] in targeted and float(row["time"]) <= settled and int(row["attempts"])
    }
    return Oracle(
        jobs_accepted=len(targeted),
        returns_expected=sum(targeted.values()),
        returns_kept=len(kept),
        never_reached=sum(targeted.values()) - _reached(fleet, targeted.keys()),
        returns_lost=len(over - kept),
        # a job that no minion has heard of may wait in the master, for all that anybody outside of it can tell
        settled_in_time=targeted.keys() <= {row["jid"] for row in _rows(fleet, "jobs")} and _idle(fleet),
    )


def _idle(fleet: Path) -> bool:
    """Return whether the fleet's last sample has nothing to do and nothing to send."""
    with (fleet.parent / "fleet.csv").open(newline="") as file:
        *_, last = csv.DictReader(file)
    over = int(last["returns_acked"]) + int(last["returns_given_up"])
    return last["executing"] == "0" and int(last["returns"]) == over


def _jobs(cache: Path) -> Iterator[tuple[str, Path]]:
    """Yield (job id, folder) of each job in a local job cache."""
    for path in sorted(cache.glob("*/*/jid")):
        yield path.read_text().strip(), path.parent


def _reached(fleet: Path, jids: Collection[str]) -> int:
    """Return how many minions took jobs, as the workers of the fleet counted them: the last row of each tally."""
    last: dict[tuple[str, str], int] = {}
    for row in _rows(fleet, "tallies"):
        if row["jid"] in jids:
            last[row["file"], row["number"]] = int(row["reached"])
    return sum(last.values())


def _rows(fleet: Path, kind: str) -> Iterator[dict[str, str]]:
    for path in sorted(fleet.glob(f"{kind}.*.csv")):
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                yield {**row, "file": path.name}
