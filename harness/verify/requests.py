"""Requests of clients, compared with their schedule and with locust's own statistics."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

from harness.scenarios import schedule
from harness.verify.finding import WRONG, Finding, some

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


def findings(store: Store, scenario: Scenario) -> Iterator[Finding]:
    """Yield where requests are missing, more than were due, or not as the others know them."""
    yield from _scheduled(store, scenario)
    yield from _timed(store)
    yield from _counted(store)


def _scheduled(store: Store, scenario: Scenario) -> Iterator[Finding]:
    """Yield where the rows are not the schedule's: each request of it has one, at its time."""
    due = {
        (request.clients, request.number): (request.due_s, clients)
        for clients in scenario.clients
        for request in schedule.requests_of(clients, scenario.seed)
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
