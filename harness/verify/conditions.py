"""What disturbs a measurement without making a row wrong: a late load generator, a busy machine, a fleet at its limit.

The limits are in this file and in docs/load-figures.md.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from harness.samples import APART, some

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.scenarios.scenario import Scenario
    from harness.verify.store import Finding, Store

ORDER = ("fleet_start", "ready", "load_start", "clients_done", "settled")
# times in samples have six places
EXACT_S = 0.0001
# between a sample of the fleet and the next action of the process that takes it, on a busy machine
NEXT_S = 10.0
# until a fleet answers, and until a container of it is there
STARTS_S = 60.0


def of_phases(store: Store, scenario: Scenario) -> Iterator[Finding]:
    """Yield where the phases are not what the samples say."""
    if not store.timeline:
        return
    for text in (*_phases(store), *_moments(store, scenario), *_within(store)):
        yield store.wrong(text)


def _phases(store: Store) -> Iterator[str]:
    line = store.timeline
    for before, after in itertools.pairwise(ORDER):
        if line[before] > line[after] + EXACT_S:
            yield f"by timeline.json {after} was before {before}."
    if store.zero is not None and abs(line["load_start"] - store.zero) > EXACT_S:
        off = line["load_start"] - store.zero
        yield f"by timeline.json the load began {off:+.1f} s from when the clients began it."
    done = store.value("SELECT max(finished) FROM requests")
    if done is not None and abs(line["clients_done"] - done) > EXACT_S:
        yield f"by timeline.json the last answer came {line['clients_done'] - done:+.1f} s from that of the requests."
    first, last = store.row("SELECT min(time), max(time) FROM fleet")
    full = store.value("SELECT min(time) FROM fleet WHERE ready >= minions")
    process, pid = store.row("SELECT min(time), max(pid) FROM processes WHERE role = 'fleet'")
    starts_s = NEXT_S if process is not None and pid < APART else STARTS_S
    for what, at, low, high in (
        ("the fleet's start", line["fleet_start"], None if first is None else first - STARTS_S, first),
        ("all being ready", line["ready"], full, None if full is None else full + NEXT_S),
        ("the end of settling", line["settled"], last, None if last is None else last + NEXT_S),
        ("the fleet's start", line["fleet_start"], None if process is None else process - starts_s, process),
    ):
        if low is None or high is None:
            yield f"nothing in the samples says when {what} was."
        elif not low - EXACT_S <= at <= high + EXACT_S:
            off = at - (high if at > high else low)
            yield f"by timeline.json {what} was {off:+.1f} s from what the samples allow."


def _moments(store: Store, scenario: Scenario) -> Iterator[str]:
    """Yield moments of the scenario that have no row, and rows that are no moment of it."""
    played = store.rows("SELECT name, do, at_s, time FROM moments ORDER BY at_s, time")
    asked = sorted((moment.name, moment.do, round(moment.at_s, 6)) for moment in scenario.timeline)
    found = sorted((name, do, round(at_s, 6)) for name, do, at_s, _ in played)
    if missing := [name for name, do, at_s in asked if asked.count((name, do, at_s)) > found.count((name, do, at_s))]:
        yield f"moments of the scenario's timeline have no row: {some(missing)}."
    if strange := [name for name, do, at_s in found if asked.count((name, do, at_s)) < found.count((name, do, at_s))]:
        yield f"timeline.csv has moments that the scenario has not: {some(strange)}."
    start = store.timeline["load_start"]
    if early := [name for name, _, at_s, time in played if time < start + at_s - EXACT_S]:
        yield f"moments came before they were due: {some(early)}."


def _within(store: Store) -> Iterator[str]:
    """Yield files with times outside of the run; the bed is watched from before the fleet's start to its own end."""
    begin, end = store.row("SELECT min(time), max(time) FROM processes")
    if begin is None:
        return
    for table, column in (
        ("requests", "scheduled"), ("requests", "started"), ("requests", "finished"), ("fleet", "time"),
        ("machine", "time"), ("moments", "time"), ("jobs", "time"), ("returns", "time"),
    ):  # fmt: skip
        query = f"""SELECT file, count(*) FROM {table} WHERE {column} NOT BETWEEN :begin AND :end
                    GROUP BY file"""  # noqa: S608 - names of ours
        for file, count in store.rows(query, begin=begin - NEXT_S, end=end + NEXT_S):
            yield f"{store.names[file]} has {count:,} times ({column}) outside of the run."
    late = store.value(
        "SELECT count(*) FROM requests WHERE finished > :end OR scheduled < :start",
        start=store.timeline["load_start"] - EXACT_S,
        end=store.timeline["settled"] + EXACT_S,
    )
    if late:
        yield f"{late:,} requests lie outside of the load and its settling."


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
        yield store.doubt(text)


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
