"""What may happen to the samples of a run: rows are lost, doubled, shifted, a process is silent, a clock is off.

Every mutation is drawn from a seed, over all files and kinds, and changes one file of one tree.
"""

from __future__ import annotations

import csv
import json
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.samples import PATTERNS

if TYPE_CHECKING:
    from pathlib import Path

SKEW_S = 200.0
TIMES = ("time", "scheduled", "started", "finished")
PHASES = ("fleet_start", "ready", "load_start", "clients_done", "settled")


@dataclass(frozen=True)
class Mutation:
    """One change: its kind, and where it was made."""

    kind: str
    where: str

    def __str__(self) -> str:
        """Return both."""
        return f"{self.kind} {self.where}"


def mutate(samples: Path, seed: int) -> Mutation:
    """Change the samples in a folder in the way that `seed` says."""
    rng = random.Random(seed)  # noqa: S311 - a repeatable test is no secret
    kinds = {
        "removed": _removed, "doubled": _doubled, "shifted": _shifted, "silent": _silent, "skewed": _skewed,
        "cut": _cut, "moved": _moved,
    }  # fmt: skip
    kind = rng.choice(sorted(kinds))
    paths = sorted(path for pattern in PATTERNS for path in samples.glob(pattern) if _rows(path))
    if kind in ("shifted", "skewed"):
        paths = [path for path in paths if path.suffix != ".csv" or _timed(path)]
    path = rng.choice(paths) if kind != "silent" else samples / "processes.csv"
    if path.suffix != ".csv":
        return Mutation("phase", _phase(path, rng))
    return Mutation(kind, f"{path.relative_to(samples)} {kinds[kind](path, rng)}")


def _rows(path: Path) -> bool:
    return path.suffix != ".csv" or path.read_bytes().count(b"\n") > 1


def _timed(path: Path) -> bool:
    return bool(set(_lines(path)[0].strip().split(",")) & set(TIMES))


def _lines(path: Path) -> list[str]:
    with path.open(newline="", encoding="utf-8") as file:
        return file.readlines()


def _write(path: Path, lines: list[str]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write("".join(lines))


def _some(lines: list[str], rng: random.Random) -> range:
    """Return the numbers of one to five rows in a row."""
    first = rng.randrange(1, len(lines))
    return range(first, min(len(lines), first + rng.choice((1, 1, 1, 5))))


def _removed(path: Path, rng: random.Random) -> str:
    lines = _lines(path)
    gone = _some(lines, rng)
    _write(path, [line for number, line in enumerate(lines) if number not in gone])
    return f"rows {gone.start} to {gone.stop - 1}"


def _doubled(path: Path, rng: random.Random) -> str:
    lines = _lines(path)
    more = _some(lines, rng)
    _write(path, [*lines[: more.stop], *lines[more.start : more.stop], *lines[more.stop :]])
    return f"rows {more.start} to {more.stop - 1}"


def _moved(path: Path, rng: random.Random) -> str:
    lines = _lines(path)
    gone = _some(lines, rng)
    taken = [lines[number] for number in gone]
    rest = [line for number, line in enumerate(lines) if number not in gone]
    place = rng.randrange(1, len(rest) + 1)
    _write(path, [*rest[:place], *taken, *rest[place:]])
    return f"rows {gone.start} to {gone.stop - 1} behind {place - 1}"


def _shifted(path: Path, rng: random.Random) -> str:
    seconds = rng.choice((-1, 1)) * rng.uniform(3.0, 120.0)
    return _later(path, seconds, rng)


def _skewed(path: Path, rng: random.Random) -> str:
    return _later(path, rng.choice((-1, 1)) * SKEW_S, None)


def _later(path: Path, seconds: float, rng: random.Random | None) -> str:
    """Add seconds to the times of some rows, or of all without `rng`."""
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = list(csv.reader(file))
    places = [header.index(name) for name in TIMES if name in header]
    chosen = range(len(rows)) if rng is None else [number - 1 for number in _some([""] * (len(rows) + 1), rng)]
    for number in chosen:
        for place in places:
            rows[number][place] = f"{float(rows[number][place]) + seconds:.6f}"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return f"{len(chosen)} rows from {chosen[0]} by {seconds:.0f} s"


def _silent(path: Path, rng: random.Random) -> str:
    """Leave out the rows of one process from some time on, or of all of them for a while."""
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = list(csv.reader(file))
    time, pid = header.index("time"), header.index("pid")
    times = sorted({float(row[time]) for row in rows})
    since = rng.choice(times[: len(times) * 2 // 3])
    until = since + rng.uniform(6.0, 60.0)
    who = rng.choice([*sorted({row[pid] for row in rows}), *[""] * 5])
    kept = [row for row in rows if not (since <= float(row[time]) < until and who in ("", row[pid]))]
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *kept])
    return f"{who or 'all'} for {until - since:.0f} s from {since - times[0]:.0f} s"


def _cut(path: Path, rng: random.Random) -> str:
    content = path.read_bytes()
    start = content.index(b"\n") + 1
    length = rng.randrange(start, len(content))
    path.write_bytes(content[:length])
    return f"at byte {length} of {len(content)}"


def _phase(path: Path, rng: random.Random) -> str:
    """Shift one of the times that are no rows."""
    seconds = rng.choice((-1, 1)) * rng.uniform(1.0, SKEW_S)
    if path.name == "zero":
        path.write_text(f"{float(path.read_text()) + seconds:.6f}\n")
        return f"zero by {seconds:.0f} s"
    values = json.loads(path.read_text())
    name = rng.choice(PHASES)
    values[name] += seconds
    path.write_text(json.dumps(values))
    return f"{name} by {seconds:.0f} s"
