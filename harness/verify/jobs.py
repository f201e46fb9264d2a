"""Jobs and returns: what clients, the job cache and the fleet know of the same ones, and by which clock.

The fleet's rows of returns are compared with its counters and its tallies as well.
"""

from __future__ import annotations

import csv
import math
from bisect import bisect_left
from collections import Counter
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from harness.samples import some
from harness.scenarios.clients import requests_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.scenarios.scenario import Scenario
    from harness.verify.store import Finding, Store


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
            yield store.wrong(f"{len(names):,} requests {what}: {some(names)}.")


def _timed(store: Store) -> Iterator[Finding]:
    """Yield requests that were sent before they were due, or answered before they were sent."""
    for condition, what in (
        ("started < scheduled - :early", "were sent before they were due"),
        ("finished < started", "were answered before they were sent"),
    ):
        query = f"SELECT clients || ' ' || number FROM requests WHERE {condition} AND :early IS NOT NULL"  # noqa: S608 - names of ours
        if names := [name for (name,) in store.rows(query, early=EARLY_S)]:
            yield store.wrong(f"{len(names):,} requests {what}: {some(names)}.")
    both = store.rows("SELECT jids FROM requests WHERE jids <> '' GROUP BY jids HAVING count(*) > 1")
    if both:
        yield store.wrong(f"several requests name the same job: {some(jids for (jids,) in both)}.")


def _counted(store: Store) -> Iterator[Finding]:
    """Yield where locust counted other requests, failures or times than the rows have."""
    by_locust: dict[str, tuple[int, int, float]] = {}
    try:
        with (store.folder / STATISTICS).open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if row["Type"]:
                    counts = (int(row["Request Count"]), int(row["Failure Count"]))
                    by_locust[row["Name"]] = (*counts, float(row["Average Response Time"]))
    except (OSError, KeyError, TypeError, ValueError):
        yield store.wrong(f"{STATISTICS} is missing or broken.")
        return
    found = {
        name: (count, failures, mean)
        for name, count, failures, mean in store.rows(
            "SELECT clients, count(*), sum(error <> ''), avg(finished - scheduled) * 1000 FROM requests GROUP BY 1"
        )
    }
    for name in sorted(by_locust.keys() | found.keys()):
        theirs, ours = by_locust.get(name, (0, 0, 0.0)), found.get(name, (0, 0, 0.0))
        for what, one, other in zip(("requests", "failures"), theirs, ours, strict=False):
            if one != other:
                yield store.wrong(f"locust counted {one:,.0f} {what} of `{name}`, its rows are {other:,.0f}.")
        if theirs[0] == ours[0] and abs(theirs[2] - ours[2]) > MEAN_MS + MEAN * abs(theirs[2]):
            text = f"locust's mean time of `{name}` is {theirs[2]:,.1f} ms, that of its rows {ours[2]:,.1f} ms."
            yield store.wrong(text)


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
        yield store.wrong(f"accepted.csv has {doubled:,} jobs more than once.")
    # a master that was still busy when the run gave up publishes jobs after its cache was read
    line = store.timeline
    until = line["settled"] if line.get("settled_in_time") is False else float("inf")
    published = store.rows("SELECT DISTINCT jid, fun FROM jobs WHERE time <= :until", until=until)
    seen = {jid for jid, fun in published if fun in scenario.asked}
    known = {
        jid
        for (jids,) in store.rows("SELECT jids FROM requests WHERE kind IN ('api', 'cli') AND jids <> ''")
        for jid in jids.split()
    }
    for jids, who in ((seen, "minions saw"), (known, "clients were told of")):
        if missing := sorted(jids - accepted):
            text = f"{who} {len(missing):,} jobs that the master's job cache does not have: {some(missing)}."
            yield store.wrong(text)


def _known(store: Store) -> Iterator[Finding]:
    """Yield jobs that one source knows and another does not."""
    unseen = "SELECT DISTINCT jid FROM {} WHERE jid NOT IN (SELECT jid FROM jobs)"
    for table, what in (("returns", "minions returned"), ("kept", "the job cache holds returns of")):
        if jids := [jid for (jid,) in store.rows(unseen.format(table))]:
            yield store.wrong(f"{what} {len(jids):,} jobs that no minion saw: {some(jids)}.")
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
        yield store.wrong(f"{len(ghosts):,} requests were answered by jobs that no minion saw: {some(ghosts)}.")
    if late:
        yield store.note(f"{len(late):,} jobs that clients were told of reached no minion: {some(late)}.")


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
        yield store.wrong(f"{len(few):,} requests got more answers than minions sent: {some(few)}.")


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
            yield store.wrong(text)
    for file, seconds in spread.items():
        if seconds > SPREAD_S:
            text = (
                f"{store.names[file]} has a job {seconds:.0f} s after another worker's: its clock is off, or it hung."
            )
            yield store.wrong(text)
    early = store.value(
        """SELECT count(*) FROM returns JOIN (SELECT jid, min(time) AS seen FROM jobs GROUP BY jid) USING (jid)
           WHERE returns.time - seconds < seen - :round AND attempts > 0""",
        round=ROUND_S,
    )
    if early:
        yield store.wrong(f"{early:,} returns were sent before their job was seen by any minion.")


def _born(jid: str) -> float | None:
    """Return the time in a job's id, in seconds of an unknown time zone."""
    try:
        return datetime.strptime(jid[:20], JID).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


COUNTERS = ("cpu_s", "publications", "heard", "heard_bytes", "executions", "find_jobs", "returns", "return_sends",
            "returns_acked", "returns_given_up")  # fmt: skip


def of_returns(store: Store, scenario: Scenario) -> Iterator[Finding]:
    """Yield where the sources disagree."""
    yield from _doubled(store)
    yield from _counters(store)
    yield from _cache(store, scenario)
    yield from _tallied(store)
    yield from _settled(store)


def _doubled(store: Store) -> Iterator[Finding]:
    """Yield rows that are there twice though there is one of each by nature."""
    for table, key, condition in (
        ("returns", "jid, minion", "attempts > 0"),
        ("kept", "jid, minion", "1"),
        ("starts", "minion, ready_s", "1"),
        ("jobs", "jid, time, file", "1"),
    ):
        first, _, second = key.partition(", ")
        query = f"""SELECT {first} || ' ' || {second.partition(",")[0]} FROM {table} WHERE {condition}
                    GROUP BY {key} HAVING count(*) > 1"""  # noqa: S608 - names of ours
        if names := [name for (name,) in store.rows(query)]:
            yield store.wrong(f"{len(names):,} rows of {table} are there more than once: {some(names)}.")


def _counters(store: Store) -> Iterator[Finding]:
    """Yield counters that fall, and those that the rows of the same moment contradict.

    A counter of a sample has at least what rows written by then say, and at most what those written by the next sample
    do: each is counted and written in one step.
    """
    columns = ", ".join(COUNTERS)
    samples = store.rows(f"SELECT time, {columns} FROM fleet ORDER BY rowid")  # noqa: S608 - names of ours
    if not samples:
        return
    times = [row[0] for row in samples]
    for place, name in enumerate(COUNTERS, start=1):
        values = [row[place] for row in samples]
        if falls := sum(after < before for before, after in pairwise(values)):
            yield store.wrong(f"the fleet's counter `{name}` falls {falls:,} times.")
    acked, sends, seen = Counter[int](), Counter[int](), dict[int, Counter[int]]()
    for time, attempts, acknowledged in store.each("SELECT time, attempts, acknowledged FROM returns"):
        bucket = bisect_left(times, time)
        acked[bucket] += acknowledged
        sends[bucket] += attempts
    for file, time in store.each("SELECT file, min(time) FROM jobs GROUP BY file, jid"):
        seen.setdefault(file, Counter())[bisect_left(times, time)] += 1
    buckets = range(len(times) + 1)
    workers = [list(accumulate(counts[bucket] for bucket in buckets)) for counts in seen.values()]
    rows = {
        "returns_acked": list(accumulate(acked[bucket] for bucket in buckets)),
        "return_sends": list(accumulate(sends[bucket] for bucket in buckets)),
        "publications": [max((counts[bucket] for counts in workers), default=0) for bucket in buckets],
    }
    for name, counts in rows.items():
        counter = [row[COUNTERS.index(name) + 1] for row in samples]
        # sends of returns that are not over yet have no row so far
        high = counts[1:] if name != "return_sends" else [counts[-1]] * len(counter)
        off = [number for number, value in enumerate(counter) if not counts[number] <= value <= high[number]]
        if off:
            at = off[-1]
            yield store.wrong(
                f"in {len(off):,} samples the fleet's counter `{name}` is not what its rows add up to: "
                f"{counter[at]:,} at {times[at] - times[0]:.0f} s, the rows say {counts[at]:,} to {high[at]:,}.",
            )


def _cache(store: Store, scenario: Scenario) -> Iterator[Finding]:
    """Yield what the job cache has and no minion sent, and the other way round."""
    count, first = store.row(
        """SELECT count(*), min(jid || ' ' || minion) FROM kept WHERE NOT EXISTS (SELECT 1 FROM returns
           WHERE returns.jid = kept.jid AND returns.minion = kept.minion AND attempts > 0)"""
    )
    if count:
        yield store.wrong(f"the job cache has {count:,} returns that no minion sent: {first}.")
    lost = [
        (jid, gone, kept)
        for jid, fun, gone, kept in store.rows(
            """SELECT jid, max(returns.fun), sum(kept.minion IS NULL), count(kept.minion)
               FROM returns LEFT JOIN kept USING (jid, minion) WHERE acknowledged GROUP BY jid"""
        )
        if gone and fun in scenario.asked
    ]
    whole = [(jid, gone) for jid, gone, kept in lost if not kept]
    if whole:
        text = f"of {len(whole):,} jobs the job cache has nothing, though the master acknowledged returns"
        yield store.wrong(f"{text}: {some(f'{jid} ({gone:,})' for jid, gone in whole)}.")
    if part := [(jid, gone) for jid, gone, kept in lost if kept]:
        count = sum(gone for _, gone in part)
        text = f"{count:,} returns were acknowledged by the master and are not in its job cache"
        yield store.note(f"{text}: {some(f'{gone:,} of {jid}' for jid, gone in part)}.")


def _tallied(store: Store) -> Iterator[Finding]:
    """Yield jobs whose tallies contradict themselves, the fleet's rows or the job cache."""
    last = "SELECT * FROM tallies WHERE rowid IN (SELECT max(rowid) FROM tallies GROUP BY file, number)"
    odd = store.rows(
        f"""SELECT jid FROM ({last}) WHERE reached > targeted OR returns + ended > reached
            OR acknowledged + given_up > returns"""  # noqa: S608 - a query of ours
    )
    if odd:
        text = f"the fleet's tallies of {len(odd):,} jobs contradict themselves: {some(jid for (jid,) in odd)}."
        yield store.wrong(text)
    settled = store.timeline.get("settled", 0.0)
    rows = {
        jid: (before, every)
        for jid, before, every in store.rows(
            """SELECT jid, sum(acknowledged AND time <= :settled), sum(acknowledged) FROM returns GROUP BY jid""",
            settled=settled,
        )
    }
    off, tallied = [], set()
    for jid, acknowledged in store.rows(f"SELECT jid, sum(acknowledged) FROM ({last}) GROUP BY jid"):  # noqa: S608 - names of ours
        tallied.add(jid)
        low, high = rows.get(jid, (0, 0))
        if not low <= acknowledged <= high:
            off.append(f"{acknowledged:,} and {high:,} of {jid}")
    off += [f"0 and {high:,} of {jid}" for jid, (low, high) in rows.items() if low and jid not in tallied]
    if off:
        yield store.wrong(f"the fleet's tallies and rows have other numbers of acknowledged returns: {some(off)}.")
    # a worker begins to count a job when it first sees it
    uncounted = """SELECT DISTINCT jid FROM {one} AS one WHERE time <= :until AND NOT EXISTS
                   (SELECT 1 FROM {other} AS other WHERE other.jid = one.jid AND other.worker = one.worker)"""
    # a process that is being stopped is not looked after any more
    for one, other, until in (("jobs", "tallies", settled), ("tallies", "jobs", math.inf)):
        jids = [jid for (jid,) in store.rows(uncounted.format(one=one, other=other), until=until)]
        if jids:
            text = f"workers of the fleet have {len(jids):,} jobs in their {one} that their {other} lack: {some(jids)}."
            yield store.wrong(text)
    more = store.rows(
        f"""SELECT jid, sum(reached), (SELECT count(DISTINCT minion) FROM kept WHERE kept.jid = last.jid) AS held
            FROM ({last}) AS last GROUP BY jid HAVING held > sum(reached)"""  # noqa: S608 - names of ours
    )
    if more:
        examples = some(f"{held:,} and {reached:,} of {jid}" for jid, reached, held in more)
        yield store.wrong(f"the job cache holds more returns than minions were reached: {examples}.")


def _settled(store: Store) -> Iterator[Finding]:
    """Yield a fleet that was still at work when it is said to have settled."""
    at_work = store.rows(
        "SELECT executing, returns - returns_acked - returns_given_up FROM fleet ORDER BY rowid DESC LIMIT 1"
    )
    if store.timeline.get("settled_in_time") and at_work and max(at_work[0]) > 0:
        executing, under_way = at_work[0]
        text = f"the run has settled, it says, with {executing:,} jobs at work and {under_way:,} returns on their way."
        yield store.wrong(text)
