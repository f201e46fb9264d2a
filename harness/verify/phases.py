"""The phases of a run and the moments of its scenario, against the samples that were taken meanwhile."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from harness.verify.finding import WRONG, Finding, some

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.scenarios.scenario import Scenario
    from harness.verify.store import Store

ORDER = ("fleet_start", "ready", "load_start", "clients_done", "settled")
# times in samples have six places
EXACT_S = 0.0001
# between a sample of the fleet and the next action of the process that takes it, on a busy machine
NEXT_S = 10.0
# until a fleet answers, and until a container of it is there
STARTS_S = 60.0
# process numbers of a container, see harness.containers.files
APART = 10_000_000


def findings(store: Store, scenario: Scenario) -> Iterator[Finding]:
    """Yield where the phases are not what the samples say."""
    if not store.timeline:
        return
    for text in (*_phases(store), *_moments(store, scenario), *_within(store)):
        yield Finding(store.tree, WRONG, text)


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
