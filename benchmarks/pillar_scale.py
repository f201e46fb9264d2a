"""The pillar storage at a hundred thousand minions: the improved function against the RFC's, and against 1,000 minions.

The rows of 1,000 minions are copied inside the server a hundred times: making them out here would take minutes.
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack, closing
from pathlib import Path
from random import Random
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import psycopg2

from benchmarks.contender import Contender
from benchmarks.errors import BenchmarkError
from benchmarks.outcome import Outcome, ratio
from benchmarks.pillar import duel, settings
from harness.database import forms, scratch

if TYPE_CHECKING:
    from benchmarks.options import Options

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
EXPLAIN = "EXPLAIN (ANALYZE, FORMAT JSON) SELECT suse_minion_pillars(%s)"


def run(options: Options) -> Outcome:
    """Make the databases, look at plans and times inside the server, and fetch through both trees in turn."""
    if options.minions % SMALL or options.minions < 2 * SMALL:
        raise BenchmarkError(f"{options.minions} minions can't be made; ask for a multiple of {SMALL}, at least two.")
    copies = options.minions // SMALL - 1
    figures: dict[str, float] = {}
    with TemporaryDirectory(prefix="saltbed-") as folder, scratch.served(Path(folder)) as server, ExitStack() as stack:
        small = scratch.filled(server, "small", "improved", scratch.ids(SMALL))
        rfc = scratch.filled(server, "rfc", "rfc", scratch.ids(SMALL))
        rfc.run(GROW.format(small=SMALL, copies=copies))
        rfc.alone("VACUUM ANALYZE")
        improved = scratch.make(server, "improved", template="rfc")
        start = time.monotonic()
        forms.install(improved.server.dsn, forms.FORMS["improved"])
        figures["upgrade_s"] = time.monotonic() - start
        improved.alone("VACUUM ANALYZE")
        figures["rows"] = improved.count()
        minions = [f"{minion}-{copy}" for minion in scratch.ids(SMALL) for copy in range(1, copies + 1)]
        figures["sequential_scans"] = _sequential_scans(improved, minions[:: len(minions) // 20])
        for name, database, among in (("rfc", rfc, minions), ("improved", improved, minions)):
            series = _inside(database, Random(1).choices(among, k=20 if name == "rfc" else 200))  # noqa: S311
            figures[f"{name}_server_p50_ms"] = median(series)
            figures[f"{name}_server_p95_ms"] = quantiles(series, n=20)[-1]
        pair = {
            "stock": stack.enter_context(Contender("stock", "pillar", settings("stock", rfc.server))),
            "patched": stack.enter_context(Contender("patched", "pillar", settings("patched", improved.server))),
        }
        found = duel(pair, minions, options)
        few = stack.enter_context(Contender("patched", "pillar", settings("patched", small.server)))
        growth = _growth(pair["patched"], few, minions, options.rounds * 5)
    figures["stock_rfc_median_ms"] = median(found["stock"]) * 1000
    figures["patched_improved_median_ms"] = median(found["patched"]) * 1000
    figures["times_faster"] = figures["stock_rfc_median_ms"] / figures["patched_improved_median_ms"]
    ratios = {
        "fetch_improved_to_stock_rfc": ratio(found["patched"], found["stock"]),
        "many_to_few_minions": ratio(growth["many"], growth["few"]),
    }
    return Outcome("pillar-scale", f"The pillar storage at {options.minions} minions", ratios, figures, found | growth)


def _inside(database: scratch.Database, minions: list[str]) -> list[float]:
    """Return the milliseconds of the function inside the server."""
    # one session, as the master keeps its own: the first query of a session reads the catalogues
    with closing(psycopg2.connect(database.server.dsn)) as connection, connection.cursor() as cursor:
        plans = []
        for minion in minions:
            cursor.execute(EXPLAIN, (minion,))
            (row,) = cursor.fetchone() or ([],)
            plans.append(row if isinstance(row, list) else json.loads(row))
    return [float(plan[0]["Planning Time"]) + float(plan[0]["Execution Time"]) for plan in plans]


def _sequential_scans(database: scratch.Database, minions: list[str]) -> int:
    """Return how many sequential scans of the pillars the function makes for these minions, in one session."""
    return int(database.run(scratch.CALL * len(minions) + scratch.SCANS, *minions)[0][0])


def _growth(many: Contender, few: Contender, minions: list[str], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of fetches with many minions and with few, in turn."""
    found: dict[str, list[float]] = {"many": [], "few": []}
    for minion in Random(2).choices(minions, k=rounds):  # noqa: S311 - nothing secret
        found["many"].append(many.run(minion)[0])
        found["few"].append(few.run(minion.rpartition("-")[0])[0])
    return found
