"""Every figure of a tree's result, computed a second time: from the rows, in SQL, as `harness.figures` defines it.

It shares no line with the code that made the result, so a slip would have to be made twice.
"""

from __future__ import annotations

import math
from array import array
from typing import TYPE_CHECKING, Any

from harness.verify import heard
from harness.verify.finding import NOTE, WRONG, Finding, some
from harness.verify.prepared import prepare
from harness.verify.sampled import cpu_s, gaps, kb_per_minion, others, peaks, risen

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.scenarios.scenario import Scenario
    from harness.verify.store import Store

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


def flattened(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted name of each value in nested tables; of a list how long it is."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from flattened(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", len(value) if isinstance(value, list | tuple) else value


def of_tree(store: Store, scenario: Scenario) -> dict[str, float | None]:
    """Return the figures by dotted name, None where there is nothing to measure."""
    line = store.timeline
    start, settled, done = line["load_start"], line["settled"], line["clients_done"]
    prepare(store, scenario.asked)
    sent, sends, acked = store.row("SELECT count(*), sum(attempts), sum(acknowledged) FROM sent")
    # CPU time needs samples at the start and the end of the load; a peak may be missed in any gap
    unseen, open_ended = gaps(store, "processes", start, settled)
    of_fleet, fleet_ended = gaps(store, "fleet", start, settled)
    cpu = {} if open_ended else cpu_s(store, start, settled)
    fleet = store.rows("SELECT time, cpu_s FROM fleet ORDER BY time")
    fleet_ms = None if fleet_ended else risen(fleet, start, settled) * 1000
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
        "kb_per_minion": kb_per_minion(store),
        "fleet_cpu_ms_per_return": None if fleet_ms is None else _share(fleet_ms, useful),
        "master_cpu_ms_per_return": None if master_ms is None else _share(master_ms, useful),
        "fleet_cpu_ms_per_any_return": None if fleet_ms is None else _share(fleet_ms, sent),
        "master_cpu_ms_per_any_return": None if master_ms is None else _share(master_ms, sent),
        "gaps": unseen + of_fleet,
        **({} if open_ended else dict(others(store, sum(cpu.values()), start, settled))),
        "jobs_requested": asked_for,
        "publications_per_job": _share(sum(published for _, published in single), asked_for),
        **dict(_followed(store)),
        "returns_per_s": _share(kept, last - start) if last else None,
        "acknowledged_ratio": _share(acked, sends),
        "duplicate_ratio": _share((sends or 0) - sent, sent),
        **heard.figures(store, start, settled, None if fleet_ended else reached),
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
        **({} if unseen else dict(peaks(store))),
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
