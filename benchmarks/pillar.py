"""Pillar fetch from PostgreSQL: stock's `as_json` against the patched `sql_base` without a flag.

The patch is about what can be asked, so the honest claim is that it costs nothing: the ratio is close to 1.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.contender import TREES, Contender
from benchmarks.errors import BenchmarkError
from benchmarks.outcome import Outcome, ratio
from harness.bed import Bed, BedSettings

if TYPE_CHECKING:
    from benchmarks.options import Options

QUERY = "SELECT suse_minion_pillars(%s)"


def run(options: Options) -> Outcome:
    """Fetch pillars through both trees in turn; raises BenchmarkError when they differ."""
    with TemporaryDirectory(prefix="saltbed-") as folder:
        settings = BedSettings(tree=TREES["stock"], folder=Path(folder), minions=options.minions, api=False)
        with Bed(settings) as bed:
            database = bed.postgres
            if database is None:
                raise BenchmarkError("The bed came up without PostgreSQL; this is a fault in benchmarks/pillar.py.")
            connection = {
                "host": database.host,
                "port": database.port,
                "user": database.user,
                "pass": database.password,
                "db": database.database,
            }
            flagged = {"postgres": connection, "queries": [{"query": QUERY, "as_json": True}]}
            bare = {"postgres": connection, "queries": [{"query": QUERY}]}
            with Contender("stock", "pillar", flagged) as stock, Contender("patched", "pillar", bare) as patched:
                return _duel(stock, patched, [settings.id_format.format(n) for n in range(options.minions)], options)


def _duel(stock: Contender, patched: Contender, ids: list[str], options: Options) -> Outcome:
    samples: dict[str, list[float]] = {"stock": [], "patched": []}
    for turn in range(options.rounds):
        minion = ids[turn % len(ids)]
        answers = {}
        # the order changes with each turn, or the second would always find the database's cache warm
        for contender in (stock, patched) if turn % 2 else (patched, stock):
            seconds, answers[contender.tree] = contender.run(minion)
            samples[contender.tree].append(seconds)
        if answers["stock"] != answers["patched"]:
            raise BenchmarkError(f"Stock and patched give {minion} different pillars; compare them before timing.")
        options.progress(turn + 1, options.rounds)
    medians = {f"{tree}_median_ms": sorted(series)[len(series) // 2] * 1000 for tree, series in samples.items()}
    description = "One fetch of a minion's pillar from PostgreSQL: patched without a flag / stock with as_json"
    return Outcome("pillar", description, {"fetch": ratio(samples["patched"], samples["stock"])}, medians, samples)
