"""Jobs: what clients, the job cache and the fleet know of the same ones, and by which clock."""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from harness.samples.files import some
from harness.scenarios.clients import requests_of
from harness.verify.store import NOTE, WRONG, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.scenarios.scenario import Scenario
    from harness.verify.store import Store

STATISTICS = "locust_stats.csv"
# times in samples have six places; a sleep may end a moment early
EXACT_S = 0.0001
EARLY_S = 0.05
# locust's mean is made of the same numbers, rounded to milliseconds
MEAN = 0.001
MEAN_MS = 1.0


def of_requests(store: Store, scenario: Scenario) -> Iterator[Finding]:
    """Yield where requests are missing, more than were due, or not as the others know them."""
    yield from _scheduled(store, scenario)
    yield from _timed(store)
    yield from _counted(store)


def _scheduled(store: Store, scenario: Scenario) -> Iterator[Finding]:
    """Yield where the rows are not the schedule's: each request of it has one, at its time."""
    due = {
        (request.clients, request.number): (request.due_s, clients)
        for clients in scenario.clients
        for request in requests_of(clients, scenario.seed)
    }
    seen: dict[tuple[str, int], int] = {}
    strange, shifted, other = [], [], []
    for name, number, function, mode, scheduled in store.each(
        "SELECT clients, number, function, mode, scheduled FROM requests"
    ):
        key = (name, number)
        seen[key] = seen.get(key, 0) + 1
        if key not in due:
            strange.append(f"{name} {number}")
            continue
        due_s, clients = due[key]
        if (function, mode) != (clients.function, clients.mode):
            other.append(f"{name} {number}")
        if store.zero is not None and abs(scheduled - store.zero - due_s) > EXACT_S:
            shifted.append(f"{name} {number}")
    missing = [f"{name} {number}" for name, number in due if (name, number) not in seen]
    doubled = [f"{name} {number}" for (name, number), count in seen.items() if count > 1]
    for names, what in (
        (missing, "of the schedule have no row"),
        (doubled, "have more than one row"),
        (strange, "are not in the schedule"),
        (shifted, "have another due time than the schedule"),
        (other, "have another function or mode than the scenario"),
    ):
        if names:
            yield Finding(store.tree, WRONG, f"{len(names):,} requests {what}: {some(names)}.")


def _timed(store: Store) -> Iterator[Finding]:
    """Yield requests that were sent before they were due, or answered before they were sent."""
    for condition, what in (
        ("started < scheduled - :early", "were sent before they were due"),
        ("finished < started", "were answered before they were sent"),
    ):
        query = f"SELECT clients || ' ' || number FROM requests WHERE {condition} AND :early IS NOT NULL"  # noqa: S608 - names of ours
        if names := [name for (name,) in store.rows(query, early=EARLY_S)]:
            yield Finding(store.tree, WRONG, f"{len(names):,} requests {what}: {some(names)}.")
    both = store.rows("SELECT jids FROM requests WHERE jids <> '' GROUP BY jids HAVING count(*) > 1")
    if both:
        yield Finding(store.tree, WRONG, f"several requests name the same job: {some(jids for (jids,) in both)}.")


def _counted(store: Store) -> Iterator[Finding]:
    """Yield where locust counted other requests, failures or times than the rows have."""
    told: dict[str, tuple[int, int, float]] = {}
    try:
        with (store.folder / STATISTICS).open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if row["Type"]:
                    counts = (int(row["Request Count"]), int(row["Failure Count"]))
                    told[row["Name"]] = (*counts, float(row["Average Response Time"]))
    except (OSError, KeyError, TypeError, ValueError):
        yield Finding(store.tree, WRONG, f"{STATISTICS} is missing or broken.")
        return
    found = {
        name: (count, failures, mean)
        for name, count, failures, mean in store.rows(
            "SELECT clients, count(*), sum(error <> ''), avg(finished - scheduled) * 1000 FROM requests GROUP BY 1"
        )
    }
    for name in sorted(told.keys() | found.keys()):
        theirs, ours = told.get(name, (0, 0, 0.0)), found.get(name, (0, 0, 0.0))
        for what, one, other in zip(("requests", "failures"), theirs, ours, strict=False):
            if one != other:
                text = f"locust counted {one:,.0f} {what} of `{name}`, its rows are {other:,.0f}."
                yield Finding(store.tree, WRONG, text)
        if theirs[0] == ours[0] and abs(theirs[2] - ours[2]) > MEAN_MS + MEAN * abs(theirs[2]):
            text = f"locust's mean time of `{name}` is {theirs[2]:,.1f} ms, that of its rows {ours[2]:,.1f} ms."
            yield Finding(store.tree, WRONG, text)


# a publication comes to all workers at the same time, but a busy one reads it later
SPREAD_S = 60.0
# a job's id is the time of the master in its own time zone, which is a multiple of 15 minutes away from UTC
ZONE_S = 900.0
JID = "%Y%m%d%H%M%S%f"
# between two looks at the same clock
ROUND_S = 0.01


def findings(store: Store, scenario: Scenario) -> Iterator[Finding]:
    """Yield where the sources disagree."""
    yield from _accepted(store, scenario)
    yield from _known(store)
    yield from _answered(store)
    yield from _clocks(store)


def _accepted(store: Store, scenario: Scenario) -> Iterator[Finding]:
    """Yield jobs that minions or clients know and the job cache does not: a master saves a job before all else."""
    accepted = {jid for (jid,) in store.rows("SELECT jid FROM accepted")}
    if not accepted:
        # a master may be told to keep no jobs
        return
    doubled = store.value("SELECT count(*) - count(DISTINCT jid) FROM accepted")
    if doubled:
        yield Finding(store.tree, WRONG, f"accepted.csv has {doubled:,} jobs more than once.")
    # a master that was still busy when the run gave up publishes jobs after its cache was read
    line = store.timeline
    until = line["settled"] if line.get("settled_in_time") is False else float("inf")
    published = store.rows("SELECT DISTINCT jid, fun FROM jobs WHERE time <= :until", until=until)
    seen = {jid for jid, fun in published if fun in scenario.asked}
    told = {
        jid
        for (jids,) in store.rows("SELECT jids FROM requests WHERE kind IN ('api', 'cli') AND jids <> ''")
        for jid in jids.split()
    }
    for jids, who in ((seen, "minions saw"), (told, "clients were told of")):
        if missing := sorted(jids - accepted):
            text = f"{who} {len(missing):,} jobs that the master's job cache does not have: {some(missing)}."
            yield Finding(store.tree, WRONG, text)


def _known(store: Store) -> Iterator[Finding]:
    """Yield jobs that one source knows and another does not."""
    unseen = "SELECT DISTINCT jid FROM {} WHERE jid NOT IN (SELECT jid FROM jobs)"
    for table, what in (("returns", "minions returned"), ("kept", "the job cache holds returns of")):
        if jids := [jid for (jid,) in store.rows(unseen.format(table))]:
            yield Finding(store.tree, WRONG, f"{what} {len(jids):,} jobs that no minion saw: {some(jids)}.")
    known = {jid for (jid,) in store.rows("SELECT DISTINCT jid FROM jobs")}
    ghosts, late = [], []
    for name, number, jids, answered, mode in store.rows(
        # no minion hears of a runner's own id
        "SELECT clients, number, jids, answered, mode FROM requests WHERE mode = 'sync' OR kind IN ('api', 'cli')"
    ):
        unknown = [jid for jid in jids.split() if jid not in known]
        if unknown and mode == "sync" and answered:
            ghosts.append(f"{name} {number}")
        late += unknown if mode != "sync" or not answered else []
    if ghosts:
        text = f"{len(ghosts):,} requests were answered by jobs that no minion saw: {some(ghosts)}."
        yield Finding(store.tree, WRONG, text)
    if late:
        text = f"{len(late):,} jobs that clients were told of reached no minion: {some(late)}."
        yield Finding(store.tree, NOTE, text)


def _answered(store: Store) -> Iterator[Finding]:
    """Yield requests with more answers than minions sent."""
    few = []
    for name, number, jids, answered in store.rows(
        "SELECT clients, number, jids, answered FROM requests WHERE mode = 'sync' AND jids <> ''"
    ):
        sent = sum(
            store.value("SELECT count(DISTINCT minion) FROM returns WHERE jid = :jid AND attempts > 0", jid=jid)
            for jid in jids.split()
        )
        if sent < answered:
            few.append(f"{name} {number}: {answered:,} answered, {sent:,} sent")
    if few:
        text = f"{len(few):,} requests got more answers than minions sent: {some(few)}."
        yield Finding(store.tree, WRONG, text)


def _clocks(store: Store) -> Iterator[Finding]:
    """Yield files whose times can't be of the same clock as the rest."""
    lag: dict[int, float] = {}
    first: dict[str, float] = {}
    spread: dict[int, float] = {}
    for file, jid, time in store.rows("SELECT file, jid, min(time) FROM jobs GROUP BY file, jid ORDER BY 3"):
        first.setdefault(jid, time)
        spread[file] = max(spread.get(file, 0.0), time - first[jid])
        if (born := _born(jid)) is not None:
            lag[file] = min(lag.get(file, ZONE_S), (time - born + ROUND_S) % ZONE_S)
    for file, seconds in lag.items():
        if seconds > SPREAD_S:
            off = seconds - ZONE_S if seconds > ZONE_S / 2 else seconds
            text = f"the clock of {store.names[file]} is {off:.0f} s off that of the master, which the jobs' ids tell."
            yield Finding(store.tree, WRONG, text)
    for file, seconds in spread.items():
        if seconds > SPREAD_S:
            text = (
                f"{store.names[file]} has a job {seconds:.0f} s after another worker's: its clock is off, or it hung."
            )
            yield Finding(store.tree, WRONG, text)
    early = store.value(
        """SELECT count(*) FROM returns JOIN (SELECT jid, min(time) AS seen FROM jobs GROUP BY jid) USING (jid)
           WHERE returns.time - seconds < seen - :round AND attempts > 0""",
        round=ROUND_S,
    )
    if early:
        yield Finding(store.tree, WRONG, f"{early:,} returns were sent before their job was seen by any minion.")


def _born(jid: str) -> float | None:
    """Return the time in a job's id, in seconds of an unknown time zone."""
    try:
        return datetime.strptime(jid[:20], JID).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
