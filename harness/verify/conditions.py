"""What disturbs a measurement without making a row wrong: a late load generator, a busy machine, a fleet at its limit.

The limits are in this file and in docs/load-figures.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.verify.finding import DOUBT, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.verify.store import Store

# a request that is sent later than this was not sent when the schedule said
LATE_S = 1.0
# the share of all cores that other programs may use
OTHERS = 0.15
STOLEN = 0.05
# MB: below this the machine begins to write to its disks what it needs in memory
LEAST_MB = 256
SWAPPED_MB = 16
# the share of one core, in the busiest span of so many seconds: a process with one thread can't do more
FULL = 0.95
SPAN_S = 5.0
SINGLE = {"fleet": "a process of the fleet", "locust": "a process of the clients"}


def findings(store: Store, cores: int) -> Iterator[Finding]:
    """Yield what disturbed the load, on a machine of so many `cores`."""
    if not store.timeline:
        return
    start, end = store.timeline["load_start"], store.timeline["settled"]
    for text in (*_late(store), *_busy(store, cores, start, end), *_full(store, start, end)):
        yield Finding(store.tree, DOUBT, text)


def _late(store: Store) -> Iterator[str]:
    count, worst, total = store.row(
        "SELECT sum(started - scheduled > :late), max(started - scheduled), count(*) FROM requests", late=LATE_S
    )
    if count:
        yield f"{count:,} of {total:,} requests were sent more than {LATE_S:g} s late, the latest by {worst:.1f} s."


def _busy(store: Store, cores: int, start: float, end: float) -> Iterator[str]:
    rows = store.rows(
        """SELECT time, busy_s, stolen_s, harness_s, available_mb, swapped_mb FROM machine
           WHERE time BETWEEN :start AND :end ORDER BY time""",
        start=start,
        end=end,
    )
    if len(rows) < 2:  # noqa: PLR2004 - a span has two ends
        return
    first, last = rows[0], rows[-1]
    seconds = last[0] - first[0]
    bed = sum(_used(store, first[0], last[0]).values())
    others = (last[1] - first[1] - (last[3] - first[3]) - bed) / seconds
    if others > OTHERS * cores:
        yield f"other work used {others:.1f} of {cores} cores during the load."
    stolen = (last[2] - first[2]) / seconds
    if stolen > STOLEN * cores:
        yield f"the machine's host took {stolen:.1f} of {cores} cores away during the load."
    least = min(row[4] for row in rows)
    if least < LEAST_MB:
        yield f"only {least:,} MB of memory were left during the load."
    if last[5] - first[5] > SWAPPED_MB:
        yield f"{last[5] - first[5]:,} MB were swapped out during the load."


def _used(store: Store, start: float, end: float) -> dict[int, float]:
    """Return about what each process used between two moments: from its sample before the one to that before the other.

    What a process had used by its first sample counts.
    """
    used: dict[int, float] = {}
    before: dict[int, float] = {}
    for pid, time, cpu_s in store.each("SELECT pid, time, cpu_s FROM processes ORDER BY rowid"):
        rise = cpu_s - before.get(pid, 0.0)
        before[pid] = cpu_s
        if start < time <= end:
            used[pid] = used.get(pid, 0.0) + (rise if rise >= 0 else cpu_s)
    return used


def _full(store: Store, start: float, end: float) -> Iterator[str]:
    """Yield processes of the bed's own that could do no more: what waits for them is no figure of the master's."""
    worst: dict[str, float] = {}
    samples: dict[int, list[tuple[float, float]]] = {}
    for pid, role, time, cpu_s in store.each(
        "SELECT pid, role, time, cpu_s FROM processes WHERE time BETWEEN :start AND :end ORDER BY rowid",
        start=start,
        end=end,
    ):
        if role not in SINGLE:
            continue
        rows = samples.setdefault(pid, [])
        rows.append((time, cpu_s))
        early = next((row for row in reversed(rows) if time - row[0] >= SPAN_S), None)
        if early:
            worst[role] = max(worst.get(role, 0.0), (cpu_s - early[1]) / (time - early[0]))
    for role, share in worst.items():
        if share > FULL:
            yield f"{SINGLE[role]} used {share:.2f} of a core for {SPAN_S:g} s, all that a thread can."
