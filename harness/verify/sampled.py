"""What was sampled every second: CPU time and memory of processes, how busy the machine was, and where samples lack."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import TYPE_CHECKING

from harness.verify.silence import APART

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from harness.verify.store import Store


# a gap is a time without samples of at least so many seconds, and so many times the usual distance of two samples
GAP_S, GAP_TIMES = 5.0, 3.0


def kb_per_minion(store: Store) -> float | None:
    """Return the KB of a minion when all were ready for the first time, or else at the end."""
    full = store.rows("SELECT rss_kb - base_rss_kb, minions FROM fleet WHERE ready >= minions ORDER BY rowid LIMIT 1")
    rows = full or store.rows("SELECT rss_kb - base_rss_kb, minions FROM fleet ORDER BY rowid DESC LIMIT 1")
    return rows[0][0] / rows[0][1] if rows else None


def others(store: Store, bed_s: float, start: float, end: float) -> Iterator[tuple[str, float]]:
    """Yield how many cores were busy with something else than the bed, or taken away, if the machine was sampled."""
    rows = store.rows("SELECT time, busy_s + stolen_s - harness_s FROM machine ORDER BY time")
    if rows and end > start:
        yield "others_cores", max(0.0, risen(rows, start, end) - bed_s) / (end - start)


def gaps(store: Store, table: str, start: float, end: float) -> tuple[int, bool]:
    """Return how many gaps there are in the samples of the load, and whether one is at its start or its end.

    Those of processes are taken in each container apart.
    """
    number = f"pid / {APART}" if table == "processes" else "0"
    taken: dict[int, list[float]] = {}
    for one, time in store.rows(f"SELECT DISTINCT {number}, time FROM {table} ORDER BY time"):  # noqa: S608 - names of ours
        taken.setdefault(one, []).append(time)
    found = [_holes(times, start, end) for times in taken.values()] or [(1, True)]
    return sum(count for count, _ in found), any(edge for _, edge in found)


def _holes(times: list[float], start: float, end: float) -> tuple[int, bool]:
    usual = sorted(after - before for before, after in itertools.pairwise(times)) or [0.0]
    half = len(usual) // 2
    limit = max(GAP_S, GAP_TIMES * (usual[half] + usual[~half]) / 2)
    first = max((time for time in times if time <= start), default=start)
    last = min((time for time in times if time >= end), default=end)
    series = [first, *(time for time in times if start < time < end), last]
    found = [(one, two) for one, two in itertools.pairwise(series) if two - one > limit]
    return len(found), any(one <= start or two >= end for one, two in found)


def cpu_s(store: Store, start: float, end: float) -> dict[str, float]:
    """Return the CPU seconds of each role between two moments.

    A counter that falls is another process with the number of one that ended; a process has the last role it had.
    """
    lives: list[tuple[str, list[tuple[float, float]]]] = []
    before: tuple[int, float] | None = None
    for pid, time, cpu_s, role in store.each("SELECT pid, time, cpu_s, role FROM processes ORDER BY pid, rowid"):
        if before is None or before[0] != pid or cpu_s < before[1]:
            lives.append((role, []))
        lives[-1] = (role, lives[-1][1])
        lives[-1][1].append((time, cpu_s))
        before = (pid, cpu_s)
    used: dict[str, float] = defaultdict(float)
    for role, samples in lives:
        used[role] += risen(samples, start, end)
    return dict(used)


def risen(samples: Iterable[tuple[float, float]], start: float, end: float) -> float:
    """Return by how much a counter rose between two moments, in a straight line from each sample to the next.

    Before its first sample it was at zero, after its last one it stays.
    """
    total = 0.0
    before: tuple[float, float] | None = None
    for time, value in samples:
        if before is None:
            # what was used before the first sample counts at the moment of that sample
            total += value if start < time <= end else 0.0
        elif time > before[0]:
            inside = min(time, end) - max(before[0], start)
            total += max(0.0, inside) / (time - before[0]) * (value - before[1])
        before = (time, value)
    return total


def peaks(store: Store) -> Iterator[tuple[str, float]]:
    """Yield the highest sum of the memory of each role's processes, in MB."""
    for role, peak in store.rows(
        "SELECT role, max(kb) FROM (SELECT role, sum(rss_kb) AS kb FROM processes GROUP BY role, time) GROUP BY role"
    ):
        yield f"peak_memory_mb.{role}", peak / 1024
