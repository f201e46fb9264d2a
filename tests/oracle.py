"""Every figure of a tree's result, computed a second time: from the rows, in SQL, as `harness.figures` defines it.

Tests compare it with the code that makes results. It shares no line with that code, so a slip would have to be made
twice.
"""

from __future__ import annotations

import itertools
import math
from array import array
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from harness.results import result, runs
from harness.samples import APART, Samples, some
from harness.scenarios.clients import RUNNERS
from harness.verify import flattened
from harness.verify.store import NOTE, WRONG, Finding, Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from harness.scenarios.clients import Asked
    from harness.scenarios.scenario import Scenario

FIND_JOB = "saltutil.find_job"
# for one function: how many requests there were, and how many of its jobs were published
_SINGLE = """
SELECT (SELECT count(*) FROM requests WHERE function = :fun),
       (SELECT count(*) FROM followed JOIN reached USING (jid) WHERE fun = :fun)
"""
# roles of the bed's processes that are not the master's
BESIDE = frozenset({"api", "postgres", "fleet", "locust", "minion", "cli", "warden", "harness", "monitor", "orphan"})
# results are rounded to three places, ratios to four
ROUNDED = 0.00101
# percentile: the least number of values that it is given for
PERCENTILES = {50: 2, 95: 20, 99: 100}
# seconds after which a request counts as sent late
LATE_S = 0.1
# a gap is a time without samples of at least so many seconds, and so many times the usual distance of two samples
GAP_S, GAP_TIMES = 5.0, 3.0


def look(folder: Path) -> Iterator[Finding]:
    """Yield where `result.json` of the run in `folder` differs from what its samples give."""
    run = runs.read(folder)
    told = result.load(folder)["repeats"]
    for number, places in enumerate(run.places(folder)):
        for tree, place in places.items():
            with Store(tree, Samples(place / "samples")) as store:
                if store.timeline:
                    yield from differences(tree, told[number][tree], of_tree(store, run.scenario(folder)))


def differences(tree: str, told: Mapping[str, Any], found: Mapping[str, float | None]) -> Iterator[Finding]:
    """Yield where the figures `told` by a result are not those that were `found`, and which nobody can check."""
    flat = dict(flattened(told))
    for name in sorted(flat.keys() & found.keys()):
        if not _same(flat[name], found[name]):
            yield Finding(tree, WRONG, f"{name} is {flat[name]} in the result; its samples give {_short(found[name])}.")
    if lacking := sorted(name for name in found.keys() - flat.keys() if found[name]):
        yield Finding(tree, WRONG, f"the result lacks {some(lacking)}, which its samples have.")
    if unknown := sorted(flat.keys() - found.keys()):
        yield Finding(tree, NOTE, f"{some(unknown)} of the result can't be worked out a second time.")


def of_tree(store: Store, scenario: Scenario) -> dict[str, float | None]:
    """Return the figures by dotted name, None where there is nothing to measure."""
    line = store.timeline
    start, settled, done = line["load_start"], line["settled"], line["clients_done"]
    _prepare(store, scenario.asked)
    sent, sends, acked = store.row("SELECT count(*), sum(attempts), sum(acknowledged) FROM sent")
    # CPU time needs samples at the start and the end of the load; a peak may be missed in any gap
    unseen, open_ended = _gaps(store, "processes", start, settled)
    of_fleet, fleet_ended = _gaps(store, "fleet", start, settled)
    cpu = {} if open_ended else _cpu_s(store, start, settled)
    fleet = store.rows("SELECT time, cpu_s FROM fleet ORDER BY time")
    fleet_ms = None if fleet_ended else _risen(fleet, start, settled) * 1000
    beside = sum(value for role, value in cpu.items() if role not in BESIDE)
    master_ms = None if open_ended else beside * 1000
    useful, last = store.row("SELECT count(*), max(CASE WHEN acknowledged THEN time END) FROM sent WHERE asked")
    polls = store.value("SELECT coalesce(sum(targeted), 0) FROM load_jobs WHERE fun = :fun", fun=FIND_JOB)
    requests = store.value("SELECT count(*) FROM requests")
    single = [store.row(_SINGLE, fun=fun) for fun in sorted(scenario.single_functions)]
    asked_for = sum(asked for asked, _ in single)
    kept, reached = store.row("SELECT coalesce(sum(kept), 0), coalesce(sum(reached), 0) FROM followed")
    return {
        "minions": store.value("SELECT minions FROM fleet ORDER BY rowid DESC LIMIT 1"),
        "ramp_up_s": line["ready"] - line["fleet_start"],
        "kb_per_minion": _kb_per_minion(store),
        "fleet_cpu_ms_per_return": None if fleet_ms is None else _share(fleet_ms, useful),
        "master_cpu_ms_per_return": None if master_ms is None else _share(master_ms, useful),
        "fleet_cpu_ms_per_any_return": None if fleet_ms is None else _share(fleet_ms, sent),
        "master_cpu_ms_per_any_return": None if master_ms is None else _share(master_ms, sent),
        "gaps": unseen + of_fleet,
        **({} if open_ended else dict(_others(store, sum(cpu.values()), start, settled))),
        "jobs_requested": asked_for,
        "publications_per_job": _share(sum(published for _, published in single), asked_for),
        **dict(_followed(store)),
        "returns_per_s": _share(kept, last - start) if last else None,
        "acknowledged_ratio": _share(acked, sends),
        "duplicate_ratio": _share((sends or 0) - sent, sent),
        **_heard(store, start, settled, None if fleet_ended else reached),
        "find_jobs": polls,
        "find_jobs_per_execution": _share(polls, reached),
        "client_requests": requests,
        "settle_s": settled - done,
        "settled_in_time": line.get("settled_in_time"),
        "time.ramp_up_s": line["ready"] - line["fleet_start"],
        "time.load_s": done - start,
        "time.settle_s": settled - done,
        "left_out.jobs": store.value("SELECT count(*) FROM jobs WHERE jid NOT IN (SELECT jid FROM load_jobs)"),
        "left_out.returns": store.value("SELECT count(*) FROM returns WHERE jid NOT IN (SELECT jid FROM load_jobs)"),
        **{f"cpu_s.{role}": value for role, value in cpu.items()},
        **({} if unseen else dict(_peaks(store))),
        **dict(_latencies(store)),
        "logins": store.value("SELECT count(*) FROM logins"),
        "login_errors": store.value("SELECT count(*) FROM logins WHERE error <> ''"),
        **dict(_percentiles("login_s", store, "SELECT seconds FROM logins ORDER BY 1")),
        **dict(_functions(store)),
        **dict(_clocks(store)),
    }


def _followed(store: Store) -> Iterator[tuple[str, float]]:
    """Yield the counts of the accepted jobs and of the minions that each was for."""
    jobs, published, targeted, reached, kept, lost = store.row(
        """SELECT count(*), coalesce(sum(published), 0), coalesce(sum(targeted), 0), coalesce(sum(reached), 0),
           coalesce(sum(kept), 0), coalesce(sum(lost), 0) FROM followed"""
    )
    yield "jobs_accepted", jobs
    yield "publications", published
    yield "jobs_unpublished", jobs - published
    yield "returns_expected", targeted
    yield "returns_kept", kept
    yield "never_reached", targeted - reached
    yield "returns_unfinished", reached - kept - lost
    yield "returns_lost", lost


def _latencies(store: Store) -> Iterator[tuple[str, float | None]]:
    """Yield what became of all requests, and how late they were sent."""
    yield "client_errors", store.value("SELECT coalesce(sum(failed), 0) FROM ends")
    yield "longest_wait_s", store.value("SELECT max(wait) FROM ends")
    yield from _percentiles("client_latency_s", store, "SELECT latency FROM ends ORDER BY 1")
    yield from _percentiles("complete_latency_s", store, "SELECT latency FROM ends WHERE NOT failed ORDER BY 1")
    yield from _percentiles("acknowledgement_s", store, "SELECT seconds FROM sent WHERE acknowledged ORDER BY 1")
    query = "SELECT max(0.0, started - scheduled) FROM requests ORDER BY 1"
    late = dict(_percentiles("sent_late_s", store, query))
    yield "sent_late_s.p95", late["sent_late_s.p95"]
    yield "sent_late_s.n", late["sent_late_s.n"]
    yield "sent_late_s.max", store.value("SELECT max(max(0.0, started - scheduled)) FROM requests")
    yield "sent_late_s.late", store.value("SELECT coalesce(sum(started - scheduled > :s), 0) FROM requests", s=LATE_S)


def _functions(store: Store) -> Iterator[tuple[str, float | None]]:
    """Yield what there is of each function."""
    for (fun,) in store.rows("SELECT function FROM requests UNION SELECT fun FROM load_jobs"):
        name = f"per_function.{fun}"
        sent, sends, acked = store.row(
            "SELECT count(*), coalesce(sum(attempts), 0), coalesce(sum(acknowledged), 0) FROM sent WHERE fun = :fun",
            fun=fun,
        )
        published, executions = store.row(
            "SELECT count(*), coalesce(sum(targeted), 0) FROM load_jobs WHERE fun = :fun", fun=fun
        )
        asked, errors = store.row("SELECT count(*), coalesce(sum(failed), 0) FROM ends WHERE function = :fun", fun=fun)
        yield f"{name}.jobs_requested", asked
        yield f"{name}.publications", published
        yield f"{name}.executions", executions
        yield f"{name}.returns", sent
        yield f"{name}.return_sends", sends
        yield f"{name}.returns_acknowledged", acked
        yield f"{name}.returns_unacknowledged", sent - acked
        yield f"{name}.client_errors", errors
        latency = "SELECT latency FROM ends WHERE function = :fun ORDER BY 1"
        yield from _percentiles(f"{name}.client_latency_s", store, latency, fun=fun)
        complete = "SELECT latency FROM ends WHERE NOT failed AND function = :fun ORDER BY 1"
        yield from _percentiles(f"{name}.complete_latency_s", store, complete, fun=fun)
        acknowledged = "SELECT seconds FROM sent WHERE acknowledged AND fun = :fun ORDER BY 1"
        yield from _percentiles(f"{name}.acknowledgement_s", store, acknowledged, fun=fun)


def _clocks(store: Store) -> Iterator[tuple[str, float]]:
    for name, offset, error, drift in store.rows("SELECT name, offset_s, error_s, drift_s FROM clocks"):
        yield f"clocks.{name}.offset_s", offset
        yield f"clocks.{name}.error_s", error
        yield f"clocks.{name}.drift_s", drift


def _percentiles(name: str, store: Store, query: str, **values: object) -> Iterator[tuple[str, float | None]]:
    """Yield the percentiles of a query's values, which are in order; between two of them by their distance."""
    # an array: a list of a million floats takes four times the memory
    ordered = array("d", (value for (value,) in store.each(query, **values)))
    yield f"{name}.n", len(ordered)
    for percent, least in PERCENTILES.items():
        if len(ordered) < least:
            yield f"{name}.p{percent}", None
            continue
        place = (len(ordered) - 1) * percent / 100
        low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
        yield f"{name}.p{percent}", low + (high - low) * (place - math.floor(place))


def _share(part: float | None, whole: float | None) -> float | None:
    return (part or 0) / whole if whole else None


def _same(told: object, found: float | None) -> bool:
    if told is None or found is None or isinstance(told, str):
        return told is found
    if not isinstance(told, int | float):
        return False
    return abs(float(told) - float(found)) <= ROUNDED * (0 if isinstance(told, int) and found == int(found) else 1)


def _short(value: float | None) -> str:
    return "nothing" if value is None else f"{value:.4f}".rstrip("0").rstrip(".")


def _prepare(store: Store, asked: Asked) -> None:
    """Make what the figures are made of: the load's jobs, the returns that were sent for them, the requests' ends."""
    start, settled = store.timeline["load_start"], store.timeline["settled"]
    store.rows("CREATE TABLE functions (fun TEXT)")
    tables = ("jobs", "tallies", "accepted", "returns")
    for (name,) in store.rows(" UNION ".join(f"SELECT fun FROM {table}" for table in tables)):  # noqa: S608 - our names
        if name in asked:
            store.rows("INSERT INTO functions VALUES (:name)", name=name)
    store.rows(
        """
        CREATE TABLE load_jobs AS
        SELECT jid, min(fun) AS fun, sum(targeted) AS targeted FROM jobs WHERE time >= :start GROUP BY jid
        """,
        start=start,
    )
    store.rows("CREATE UNIQUE INDEX load_jobs_index ON load_jobs (jid)")
    store.rows("CREATE TABLE told (jid TEXT, fun TEXT, expected INTEGER)")
    for kind, function, expected, jids in store.rows(
        "SELECT kind, function, expected, jids FROM requests ORDER BY rowid"
    ):
        # a runner's id is not the id of a job on minions; master and fleet know the functions of jobs that it published
        for jid in () if kind in RUNNERS else jids.split():
            store.rows("INSERT INTO told VALUES (:jid, :fun, :minions)", jid=jid, fun=function, minions=expected)
    # a worker writes a tally several times, with the same number; the last row counts
    store.rows(
        """
        CREATE TABLE reached AS
        SELECT jid, min(fun) AS fun, sum(targeted) AS targeted, sum(reached) AS reached FROM tallies
        WHERE rowid IN (SELECT max(rowid) FROM tallies GROUP BY file, number) AND fun IN (SELECT fun FROM functions)
        GROUP BY jid
        """
    )
    # jobs are known from the master, which accepted them, from clients, which were told their ids, and from minions
    store.rows(
        """
        CREATE TABLE followed AS
        WITH known AS (
            SELECT jid FROM accepted WHERE fun IN (SELECT fun FROM functions)
            UNION SELECT jid FROM told UNION SELECT jid FROM reached
            EXCEPT SELECT jid FROM jobs WHERE jid NOT IN (SELECT jid FROM load_jobs)
        ), asked AS (
            SELECT jid, coalesce(nullif((SELECT sum(targeted) FROM accepted WHERE accepted.jid = known.jid), 0),
                                 (SELECT expected FROM told WHERE told.jid = known.jid LIMIT 1), 0) AS targeted
            FROM known
        )
        SELECT jid, reached.jid IS NOT NULL AS published, coalesce(reached.reached, 0) AS reached,
               max(asked.targeted, coalesce(reached.targeted, 0)) AS targeted,
               (SELECT count(DISTINCT minion) FROM kept WHERE kept.jid = asked.jid) AS kept,
               (SELECT count(DISTINCT minion) FROM returns WHERE returns.jid = asked.jid AND time <= :settled
                AND attempts > 0 AND fun IN (SELECT fun FROM functions)
                AND NOT EXISTS (SELECT 1 FROM kept WHERE kept.jid = returns.jid AND kept.minion = returns.minion)
               ) AS lost
        FROM asked LEFT JOIN reached USING (jid)
        """,
        settled=settled,
    )
    store.rows(
        """
        CREATE VIEW sent AS
        SELECT returns.time, returns.fun, attempts, acknowledged, seconds,
               returns.jid IN (SELECT jid FROM followed) AS asked
        FROM returns JOIN load_jobs USING (jid) WHERE attempts > 0
        """
    )
    _end(store)


def _end(store: Store) -> None:
    """Make the table of what became of each request."""
    store.rows("CREATE TABLE ends (function TEXT, wait NUMERIC, latency NUMERIC, failed INTEGER)")
    for kind, function, mode, scheduled, finished, jids, expected, error in store.rows(
        "SELECT kind, function, mode, scheduled, finished, jids, expected, error FROM requests"
    ):
        over, failed = finished, bool(error)
        if mode == "async" and kind in RUNNERS:
            # the job cache has its answer, which names the jobs
            rows = store.rows("SELECT answered, jids, error FROM runners WHERE jid = :jid", jid=jids)
            last = max((_of_jobs(store, named.split())[1] for _, named, _ in rows), default=0.0)
            over = max(finished, last)
            failed = failed or not rows or any(wrong or seen < expected for seen, _, wrong in rows)
        elif mode == "async":
            # a client that only wanted the job's id would find the returns in the job cache
            seen, last = _of_jobs(store, jids.split())
            over, failed = max(finished, last), failed or seen < expected
        store.rows(
            "INSERT INTO ends VALUES (:function, :wait, :latency, :failed)",
            function=function,
            wait=over - scheduled,
            latency=finished - scheduled,
            failed=failed,
        )


def _of_jobs(store: Store, jids: list[str]) -> tuple[int, float]:
    """Return how many minions' returns of some jobs were kept, and when the last was acknowledged (0 if none was)."""
    minions: set[str] = set()
    last = 0.0
    for jid in jids:
        minions |= {name for (name,) in store.each("SELECT minion FROM kept WHERE jid = :jid", jid=jid)}
        last = max(last, store.value("SELECT max(time) FROM returns WHERE jid = :jid AND acknowledged", jid=jid) or 0.0)
    return len(minions), last


def _heard(store: Store, start: float, settled: float, executions: float | None) -> dict[str, float | None]:
    """Return the figures of what came to minions between the last samples up to two moments.

    executions: of the requested functions; None where a gap at an edge of the load hides what was heard
    """
    query = "SELECT max({}) FROM fleet WHERE time <= :until"
    many, much = (
        (store.value(query.format(name), until=settled) or 0) - (store.value(query.format(name), until=start) or 0)
        for name in ("heard", "heard_bytes")
    )
    if executions is None:
        return {"heard_mb": None, "heard_per_execution": None}
    return {"heard_mb": much / 1e6, "heard_per_execution": many / executions if executions else None}


def _kb_per_minion(store: Store) -> float | None:
    """Return the KB of a minion when all were ready for the first time, or else at the end."""
    full = store.rows("SELECT rss_kb - base_rss_kb, minions FROM fleet WHERE ready >= minions ORDER BY rowid LIMIT 1")
    rows = full or store.rows("SELECT rss_kb - base_rss_kb, minions FROM fleet ORDER BY rowid DESC LIMIT 1")
    return rows[0][0] / rows[0][1] if rows else None


def _others(store: Store, bed_s: float, start: float, end: float) -> Iterator[tuple[str, float]]:
    """Yield how many cores were busy with something else than the bed, or taken away, if the machine was sampled."""
    rows = store.rows("SELECT time, busy_s + stolen_s - harness_s FROM machine ORDER BY time")
    if rows and end > start:
        yield "others_cores", max(0.0, _risen(rows, start, end) - bed_s) / (end - start)


def _gaps(store: Store, table: str, start: float, end: float) -> tuple[int, bool]:
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


def _cpu_s(store: Store, start: float, end: float) -> dict[str, float]:
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
        used[role] += _risen(samples, start, end)
    return dict(used)


def _risen(samples: Iterable[tuple[float, float]], start: float, end: float) -> float:
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


def _peaks(store: Store) -> Iterator[tuple[str, float]]:
    """Yield the highest sum of the memory of each role's processes, in MB."""
    for role, peak in store.rows(
        "SELECT role, max(kb) FROM (SELECT role, sum(rss_kb) AS kb FROM processes GROUP BY role, time) GROUP BY role"
    ):
        yield f"peak_memory_mb.{role}", peak / 1024
