"""The pillar storage at a hundred thousand minions: the improved function against the RFC's, and against 1,000 minions.

The rows of 1,000 minions are copied inside the server a hundred times: making them out here would take minutes.
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import psycopg2

from benchmarks.benchmark import Benchmark, BenchmarkError, Figure, Samples, at_most, exactly, interleave
from benchmarks.pillar import duel, fetcher
from harness.database import schema, sources

if TYPE_CHECKING:
    from benchmarks.benchmark import Options
    from harness.saltprocess.process import SaltProcess

SMALL = 1000
GROW = """
INSERT INTO rhnServer SELECT s.id + c * {small}, s.org_id, s.name || '-' || c
    FROM rhnServer s, generate_series(1, {copies}) c;
INSERT INTO suseMinionInfo SELECT m.server_id + c * {small}, m.minion_id || '-' || c
    FROM suseMinionInfo m, generate_series(1, {copies}) c;
INSERT INTO rhnServerGroupMembers SELECT g.server_id + c * {small}, g.server_group_id
    FROM rhnServerGroupMembers g, generate_series(1, {copies}) c;
INSERT INTO suseSaltPillars (server_id, category, pillar) SELECT p.server_id + c * {small}, p.category, p.pillar
    FROM generate_series(1, {copies}) c, suseSaltPillars p WHERE p.server_id IS NOT NULL;
"""
UPGRADE = Figure("upgrade", "upgrade of the RFC's table, {minions} minions", "s")
ROWS = Figure("rows", "rows of pillars, {minions} minions")
SCANS = Figure("scans", "sequential scans of the pillars in the plan", aim=exactly(0))
INSIDE = Figure("inside", "inside the server, {minions} minions", "ms", aim=at_most(0.3))
INSIDE_P95 = Figure("inside-p95", "inside the server, {minions} minions, p95", "ms", "p95")
FETCH = Figure("fetch", "one fetch, {minions} minions", "ms")
GROWTH = Figure("growth", f"a fetch with {{minions}} minions / with {SMALL:,}", "x")
EXPLAIN = "EXPLAIN (ANALYZE, FORMAT JSON) SELECT suse_minion_pillars(%s)"


def run(options: Options) -> dict[Figure, Samples]:
    """Make the databases, look at plans and times inside the server, and fetch through both trees in turn."""
    if options.minions % SMALL or options.minions < 2 * SMALL:
        raise BenchmarkError(f"{options.minions} minions can't be made; ask for a multiple of {SMALL}, at least two.")
    copies = options.minions // SMALL - 1
    samples: dict[Figure, Samples] = {}
    with TemporaryDirectory(prefix="saltbed-") as folder, sources.served(Path(folder)) as server, ExitStack() as stack:
        small = sources.filled(server, "small", "improved", sources.ids(SMALL))
        rfc = sources.filled(server, "rfc", "rfc", sources.ids(SMALL))
        rfc.run(GROW.format(small=SMALL, copies=copies))
        rfc.alone("VACUUM ANALYZE")
        improved = sources.make(server, "improved", template="rfc")
        start = time.monotonic()
        schema.install_form(improved.server.dsn, schema.FORMS["improved"])
        samples[UPGRADE] = Samples([time.monotonic() - start])
        improved.alone("VACUUM ANALYZE")
        samples[ROWS] = Samples([improved.count()])
        minions = [f"{minion}-{copy}" for minion in sources.ids(SMALL) for copy in range(1, copies + 1)]
        samples[SCANS] = Samples([_sequential_scans(improved, minions[:: len(minions) // 20])])
        inside = {
            name: _inside(database, Random(1).choices(minions, k=count))  # noqa: S311 - nothing secret
            for name, database, count in (("rfc", rfc, 20), ("improved", improved, 200))
        }
        samples[INSIDE] = samples[INSIDE_P95] = Samples(inside["improved"], inside["rfc"])
        pair = {
            "stock": stack.enter_context(fetcher("stock", rfc.server)),
            "patched": stack.enter_context(fetcher("patched", improved.server)),
        }
        samples[FETCH] = duel(pair, minions, options)
        few = stack.enter_context(fetcher("patched", small.server))
        samples[GROWTH] = _growth(pair["patched"], few, minions, replace(options, rounds=options.rounds * 5))
    return samples


def _inside(database: sources.Database, minions: list[str]) -> list[float]:
    """Return the milliseconds of the function inside the server."""
    # one session, as the master keeps its own: the first query of a session reads the catalogues
    with closing(psycopg2.connect(database.server.dsn)) as connection, connection.cursor() as cursor:
        plans = []
        for minion in minions:
            cursor.execute(EXPLAIN, (minion,))
            (row,) = cursor.fetchone() or ([],)
            plans.append(row if isinstance(row, list) else json.loads(row))
    return [float(plan[0]["Planning Time"]) + float(plan[0]["Execution Time"]) for plan in plans]


def _sequential_scans(database: sources.Database, minions: list[str]) -> int:
    """Return how many sequential scans of the pillars the function makes for these minions, in one session."""
    return int(database.run(sources.CALL * len(minions) + sources.SCANS, *minions)[0][0])


def _growth(many: SaltProcess, few: SaltProcess, minions: list[str], options: Options) -> Samples:
    """Return how many times longer fetches take with many minions than with few, in turn."""
    chosen = Random(2).choices(minions, k=options.rounds)  # noqa: S311 - nothing secret
    found = interleave(
        {
            "many": lambda turn: many.run(chosen[turn])[0],
            "few": lambda turn: few.run(chosen[turn].rpartition("-")[0])[0],
        },
        options,
    )
    return Samples([large / small for large, small in zip(found["many"], found["few"], strict=True)])


PILLAR_SCALE = Benchmark(
    name="pillar-scale",
    about="the same at 100,000 minions: stock with the RFC's function, ours with sql/pillar.sql",
    run=run,
    figures=(FETCH, INSIDE, INSIDE_P95, SCANS, GROWTH, ROWS, UPGRADE),
    minions=100_000,
    rounds=20,
    minutes=4,
)
