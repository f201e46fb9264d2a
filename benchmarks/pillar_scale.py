"""The pillar storage at a hundred thousand minions: the improved function against the RFC's, and against 1,000 minions.

The rows of 1,000 minions are copied inside the server a hundred times: making them out here would take minutes.
In the end the runner shows earlier pillars, out of a history with one change of each minion, and previews edits of
everyone's rows and of a group's.
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
from harness.saltprocess.process import SaltProcess

if TYPE_CHECKING:
    from benchmarks.benchmark import Options
    from harness.database.postgres import Postgres

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
SHOW = Figure("show", "an earlier pillar, {minions} minions", "ms", aim=at_most(50))
PREVIEW = Figure("preview", "preview of everyone's row, {minions} minions", "s", aim=at_most(5))
PREVIEW_GROUP = Figure("preview-group", "preview of a group's row, {minions} minions", "s", aim=at_most(5))
PREVIEWS = 5
EDIT = {"category": "motd", "pillar": {"motd": "Closed on Friday"}}
CHANGE = """
UPDATE suseSaltPillars SET pillar = pillar || '{"changed": true}' WHERE server_id IS NOT NULL AND category = 'general'
"""
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
        samples.update(_past(improved, minions, options))
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


def _past(database: sources.Database, minions: list[str], options: Options) -> dict[Figure, Samples]:
    """Show pillars before a change of every minion, and preview edits; raises BenchmarkError for a wrong answer."""
    database.run(schema.read("pillar_changes.sql"))
    ((at,),) = database.run("SELECT clock_timestamp()::TEXT")
    ((groups, members),) = database.run(
        "SELECT max(server_group_id)::INT, count(*) FILTER (WHERE server_group_id = 1) FROM rhnServerGroupMembers"
    )
    database.run(CHANGE)
    # as autovacuum does after a while
    database.alone("VACUUM ANALYZE")
    chosen = Random(3).choices(minions, k=options.rounds)  # noqa: S311 - nothing secret
    with _runner(database.server) as runner:
        shown = [runner.run("pillar_sql.show", {"minion": minion, "at": at}) for minion in chosen]
        later = runner.run("pillar_sql.show", {"minion": chosen[0]})[1]
        everyone = [runner.run("pillar_sql.preview", EDIT) for _ in range(PREVIEWS)]
        group = [runner.run("pillar_sql.preview", {**EDIT, "group": 1 + turn % groups}) for turn in range(PREVIEWS)]
    if "changed" not in later or any("changed" in pillar for _, pillar in shown):
        raise BenchmarkError("The pillars shown are not those of before the change.")
    if [len(answer["changes"][0]["minions"]) for _, answer in everyone] != [options.minions] * PREVIEWS:
        raise BenchmarkError("An edit of everyone's row does not change the pillar of each minion.")
    if group[0][1]["minions"] != members:
        raise BenchmarkError("An edit of a group's row does not change the pillar of each of its minions.")
    return {
        SHOW: Samples([1000 * seconds for seconds, _ in shown[1:] or shown]),
        PREVIEW: Samples([seconds for seconds, _ in everyone]),
        PREVIEW_GROUP: Samples([seconds for seconds, _ in group]),
    }


def _runner(postgres: Postgres) -> SaltProcess:
    """Start a Salt that calls runners."""
    settings = {"postgres": postgres.salt_options(), "ext_pillar": [{"uyuni": {"lenient": True}}]}
    return SaltProcess("patched", "benchmarks.tasks.runner", settings)


PILLAR_SCALE = Benchmark(
    name="pillar-scale",
    about="the same at 100,000 minions: stock with the RFC's function, ours with sql/pillar.sql",
    run=run,
    figures=(FETCH, INSIDE, INSIDE_P95, SCANS, GROWTH, SHOW, PREVIEW, PREVIEW_GROUP, ROWS, UPGRADE),
    minions=100_000,
    rounds=20,
    minutes=5,
)
