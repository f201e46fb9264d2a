"""Returns: the fleet's rows, compared with its counters, its tallies and the job cache."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from harness.samples.files import some
from harness.verify.store import NOTE, WRONG, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.scenarios.scenario import Scenario
    from harness.verify.store import Store

COUNTERS = ("cpu_s", "publications", "heard", "heard_bytes", "executions", "find_jobs", "returns", "return_sends",
            "returns_acked", "returns_given_up")  # fmt: skip


def findings(store: Store, scenario: Scenario) -> Iterator[Finding]:
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
            text = f"{len(names):,} rows of {table} are there more than once: {some(names)}."
            yield Finding(store.tree, WRONG, text)


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
            yield Finding(store.tree, WRONG, f"the fleet's counter `{name}` falls {falls:,} times.")
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
            yield Finding(
                store.tree,
                WRONG,
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
        yield Finding(store.tree, WRONG, f"the job cache has {count:,} returns that no minion sent: {first}.")
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
        yield Finding(store.tree, WRONG, f"{text}: {some(f'{jid} ({gone:,})' for jid, gone in whole)}.")
    if part := [(jid, gone) for jid, gone, kept in lost if kept]:
        count = sum(gone for _, gone in part)
        text = f"{count:,} returns were acknowledged by the master and are not in its job cache"
        yield Finding(store.tree, NOTE, f"{text}: {some(f'{gone:,} of {jid}' for jid, gone in part)}.")


def _tallied(store: Store) -> Iterator[Finding]:
    """Yield jobs whose tallies contradict themselves, the fleet's rows or the job cache."""
    last = "SELECT * FROM tallies WHERE rowid IN (SELECT max(rowid) FROM tallies GROUP BY file, number)"
    odd = store.rows(
        f"""SELECT jid FROM ({last}) WHERE reached > targeted OR returns + ended > reached
            OR acknowledged + given_up > returns"""  # noqa: S608 - a query of ours
    )
    if odd:
        text = f"the fleet's tallies of {len(odd):,} jobs contradict themselves: {some(jid for (jid,) in odd)}."
        yield Finding(store.tree, WRONG, text)
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
        text = f"the fleet's tallies and rows have other numbers of acknowledged returns: {some(off)}."
        yield Finding(store.tree, WRONG, text)
    # a worker begins to count a job when it first sees it
    uncounted = """SELECT DISTINCT jid FROM {one} AS one WHERE time <= :until AND NOT EXISTS
                   (SELECT 1 FROM {other} AS other WHERE other.jid = one.jid AND other.worker = one.worker)"""
    # a process that is being stopped is not looked after any more
    for one, other, until in (("jobs", "tallies", settled), ("tallies", "jobs", math.inf)):
        jids = [jid for (jid,) in store.rows(uncounted.format(one=one, other=other), until=until)]
        if jids:
            text = f"workers of the fleet have {len(jids):,} jobs in their {one} that their {other} lack: {some(jids)}."
            yield Finding(store.tree, WRONG, text)
    more = store.rows(
        f"""SELECT jid, sum(reached), (SELECT count(DISTINCT minion) FROM kept WHERE kept.jid = last.jid) AS held
            FROM ({last}) AS last GROUP BY jid HAVING held > sum(reached)"""  # noqa: S608 - names of ours
    )
    if more:
        told = some(f"{held:,} and {reached:,} of {jid}" for jid, reached, held in more)
        yield Finding(store.tree, WRONG, f"the job cache holds more returns than minions were reached: {told}.")


def _settled(store: Store) -> Iterator[Finding]:
    """Yield a fleet that was still at work when it is said to have settled."""
    at_work = store.rows(
        "SELECT executing, returns - returns_acked - returns_given_up FROM fleet ORDER BY rowid DESC LIMIT 1"
    )
    if store.timeline.get("settled_in_time") and at_work and max(at_work[0]) > 0:
        executing, under_way = at_work[0]
        text = f"the run has settled, it says, with {executing:,} jobs at work and {under_way:,} returns on their way."
        yield Finding(store.tree, WRONG, text)
