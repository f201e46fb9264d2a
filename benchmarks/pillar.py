"""Pillar fetch from PostgreSQL, stock against patched: time, round trips, and connections.

Both ask the same database, once with the RFC's function and once with the improved one, so that what the patch gains
and what the schema gains are told apart.
"""

from __future__ import annotations

import random
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.contender import Contender
from benchmarks.errors import BenchmarkError
from benchmarks.outcome import Outcome, ratio
from benchmarks.relay import Relay
from harness.database import scratch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.options import Options
    from harness.database.postgres import Postgres

QUERY = "SELECT suse_minion_pillars(%s)"
SESSIONS = "SELECT sessions FROM pg_stat_database WHERE datname = current_database()"
WORKERS, COMPILES = 4, 10_000


def settings(tree: str, postgres: Postgres, port: int | None = None) -> dict[str, object]:
    """Return what a contender of `benchmarks.tasks.pillar` needs; stock needs its flag."""
    connection = {**postgres.salt_options(), **({} if port is None else {"port": port})}
    return {"postgres": connection, "queries": [{"query": QUERY, "as_json": tree == "stock"}]}


def run(options: Options) -> Outcome:
    """Fetch pillars through both trees in turn; raises BenchmarkError when they differ."""
    minions = scratch.ids(options.minions)
    ratios, figures, samples = {}, {}, {}
    with TemporaryDirectory(prefix="saltbed-") as folder, scratch.served(Path(folder)) as server:
        for form in ("rfc", "improved"):
            database = scratch.filled(server, form, form, minions)
            with ExitStack() as stack:
                pair = {
                    tree: stack.enter_context(Contender(tree, "pillar", settings(tree, database.server)))
                    for tree in ("stock", "patched")
                }
                found = duel(pair, minions, options)
            ratios[f"fetch_{form}"] = ratio(found["patched"], found["stock"])
            for tree, series in found.items():
                figures[f"{form}_{tree}_median_ms"] = median(series) * 1000
                samples[f"{form}_{tree}"] = series
            figures[f"{form}_times_faster"] = figures[f"{form}_stock_median_ms"] / figures[f"{form}_patched_median_ms"]
        for tree in ("stock", "patched"):
            figures[f"{tree}_round_trips"] = _round_trips(tree, database.server, minions[:20])
        figures["patched_compiles"] = COMPILES
        figures["patched_workers"] = WORKERS
        figures["patched_connections"] = _connections(database, minions)
    return Outcome("pillar", "One fetch of a minion's pillar from PostgreSQL", ratios, figures, samples)


def duel(pair: dict[str, Contender], minions: Sequence[str], options: Options) -> dict[str, list[float]]:
    """Return the seconds of the fetches of both, in turn; raises BenchmarkError when their pillars differ."""
    samples: dict[str, list[float]] = {name: [] for name in pair}
    order = list(pair)
    # the same minions each time, far apart in the tables
    chosen = random.Random(1).choices(minions, k=options.rounds)  # noqa: S311 - nothing secret
    for turn, minion in enumerate(chosen):
        answers = {}
        # the order changes with each turn, or the second would always find the database's cache warm
        for name in order if turn % 2 else reversed(order):
            seconds, answers[name] = pair[name].run(minion)
            samples[name].append(seconds)
        if len(set(answers.values())) > 1:
            raise BenchmarkError(f"{' and '.join(order)} give {minion} different pillars; compare them before timing.")
        options.progress(turn + 1, options.rounds)
    return samples


def _round_trips(tree: str, postgres: Postgres, minions: Sequence[str]) -> float:
    """Return the round trips of one fetch, the first left out."""
    with Relay(postgres.port) as relay, Contender(tree, "pillar", settings(tree, postgres, relay.port)) as contender:
        contender.run(minions[0])
        before = relay.trips
        for minion in minions[1:]:
            contender.run(minion)
        return (relay.trips - before) / (len(minions) - 1)


def _connections(database: scratch.Database, minions: Sequence[str]) -> int:
    """Return the connections that four workers opened for ten thousand fetches."""
    with ExitStack() as stack, Relay(database.server.port) as relay:
        wanted = settings("patched", database.server, relay.port)
        pool = [stack.enter_context(Contender("patched", "pillar", wanted)) for _ in range(WORKERS)]
        for number in range(COMPILES):
            pool[number % WORKERS].run(minions[number % len(minions)])
        return relay.connections
