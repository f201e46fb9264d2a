"""The RFC's experiments: `pillar.items` and `test.ping` on a fleet by each access method, and connections by workers.

A bed for each method, as the method is the master's configuration. One of the minions is real. For each round the time
of Salt's own commands is taken, and the CPU time of the master's workers for each compile, which other work on the
machine disturbs less.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Self

import psutil

from benchmarks import pillar_page
from benchmarks.benchmark import Benchmark
from benchmarks.errors import BenchmarkError
from benchmarks.figure import Figure, Samples, exactly
from benchmarks.options import Options
from benchmarks.pillar_page import Round, Run
from benchmarks.turns import interleave
from harness.bed import Bed, BedSettings
from harness.database import forms, schema, scratch
from harness.paths import TREES
from harness.processes import monitor
from harness.processes.deadline import Deadline, until

if TYPE_CHECKING:
    from collections.abc import Sequence

REAL = "real"
RAMP_UP_S, ROUND_S, SAMPLE_S = 600, 600, 0.05
# a thousand compiles at once take longer than a minion waits for one: what it asks again would be measured too
WAVE = 100
WORKERS = (8, 28)
FEW = 200
CATEGORIES = ["custom-info", "group-memberships"]
# the target form gets a table of the same name, in a schema that PostgreSQL searches first
TARGET = """
CREATE SCHEMA target; SET search_path = target, public; {form}
INSERT INTO target.suseSaltPillars SELECT coalesce('org_id:' || org_id, 'group_id:' || group_id, minion_id, '*'),
    category, pillar FROM public.suseSaltPillars LEFT JOIN suseMinionInfo USING (server_id);
ANALYZE target.suseSaltPillars; ALTER DATABASE {database} SET search_path = target, public;
"""


@dataclass(frozen=True)
class Method:
    """One way to the pillars: the tree and the form, where "files" are the RFC's old files and "none" no pillar."""

    name: str
    tree: str
    form: str

    def options(self, files: Path) -> dict[str, Any]:
        """Return the master's options."""
        if self.form == "none":
            return {"ext_pillar": []}
        if self.form == "files":
            folders = {name: str(files / name) for name in ("pillar_data", "static_data", "formula_data")}
            return {"ext_pillar": [{"uyuni_files": {**folders, "categories": CATEGORIES}}]}
        source = forms.FORMS[self.form].options()
        if self.tree == "stock":
            for query in source[0]["postgres"]:
                query["as_json"] = True
        return {"ext_pillar": source}

    def prepare(self, bed: Bed, files: Path) -> None:
        """Bring the bed's database into the form, before anybody asks."""
        schema.add_minion(bed.postgres.dsn, REAL, bed.settings.seed, schema.Scale())
        database = scratch.Database(bed.postgres)
        if self.form == "improved":
            forms.install(bed.postgres.dsn, forms.FORMS["improved"])
        elif self.form == "target":
            text = schema.read("pillar_target.sql")
            body = text.replace("BEGIN;\n\n", "", 1).replace("\nCOMMIT;\n", "\n")
            database.run(TARGET.format(form=body, database=bed.postgres.database))
        elif self.form == "files":
            done = bed.salt_run(["pillar_sql.export", f"folder={files}"], timeout=ROUND_S)
            if done.returncode:
                raise BenchmarkError(f"The pillars could not be written to files: {done.stdout.strip()}")


METHODS = (
    Method("no pillar", "patched", "none"),
    Method("files", "patched", "files"),
    Method("stock, RFC's function", "stock", "rfc"),
    Method("RFC's function", "patched", "rfc"),
    Method("four queries", "patched", "four"),
    Method("target queries", "patched", "target"),
    Method("improved function", "patched", "improved"),
)
# the same method on stock stands beside ours, so it has no figures of its own
SHOWN = {method.form: method.name for method in METHODS if method.tree == "patched"}
ITEMS = {
    form: Figure(f"items-{form}", f"pillar.items, {{minions}} minions: {name}", "s") for form, name in SHOWN.items()
}
CPU = {form: Figure(f"cpu-{form}", f"workers' CPU for each compile: {name}", "ms") for form, name in SHOWN.items()}
SHORT = Figure("short", "minions without their pillar, all methods", "", "max", exactly(0))
CONNECTIONS = {
    workers: Figure(f"connections-{workers}", f"connections, {workers} worker threads, {FEW} minions", "", "max")
    for workers in WORKERS
}
TITLE = "The RFC's experiments with {minions:,} minions"


def run(options: Options) -> dict[Figure, Samples]:
    """Run both experiments; a page with plots is written after each method, as an hour's work may be stopped."""
    # progress is told for each bed, not for each round
    quiet = Options(options.minions, options.rounds, output=options.output)
    found: dict[str, Run] = {}
    threads: dict[str, Run] = {}
    total = len(METHODS) + len(TREES) * len(WORKERS)
    for method in METHODS:
        found[method.name] = _bed(method, quiet, {})
        _page(options, found, threads)
        options.progress(len(found), total)
    for tree in TREES:
        for workers in WORKERS:
            # connections need a fleet that keeps all workers busy, not a large one
            few = replace(quiet, minions=min(options.minions, FEW), rounds=2)
            settings = {"worker_threads": workers}
            threads[f"{tree}, {workers} workers"] = _bed(Method("", tree, "rfc"), few, settings)
            _page(options, found, threads)
            options.progress(len(found) + len(threads), total)
    samples = {}
    for form, name in SHOWN.items():
        ours, stock = found[name].rounds, found[f"stock, {name}"].rounds if f"stock, {name}" in found else []
        samples[ITEMS[form]] = Samples([one.items_s for one in ours], [one.items_s for one in stock])
        samples[CPU[form]] = Samples([one.cpu_ms for one in ours], [one.cpu_ms for one in stock])
    samples[SHORT] = Samples([one.short for run in found.values() for one in run.rounds])
    for workers, figure in CONNECTIONS.items():
        most = {tree: threads[f"{tree}, {workers} workers"].connections for tree in TREES}
        samples[figure] = Samples([most["patched"]], [most["stock"]])
    return samples


def _page(options: Options, found: dict[str, Run], threads: dict[str, Run]) -> None:
    """Write what there is so far."""
    title = TITLE.format(minions=options.minions)
    pillar_page.write(options.output, title, found, threads, options.minions)


def _bed(method: Method, options: Options, master: dict[str, Any]) -> Run:
    """Run the rounds of one method in a bed of its own."""
    with TemporaryDirectory(prefix="saltbed-") as name:
        folder, files = Path(name), Path(name) / "files"
        settings = BedSettings(
            tree=TREES[method.tree],
            folder=folder / "bed",
            minions=options.minions,
            api=None,
            master_options={"worker_threads": 8, "timeout": 300, **method.options(files), **master},
        )
        with Bed(settings) as bed:
            method.prepare(bed, files)
            with _Connections(scratch.Database(bed.postgres)) as connections:
                bed.start_minion(REAL)
                bed.start_fleet().wait_ready(RAMP_UP_S)
                expected = [*settings.minion_ids(), REAL]
                done = interleave({"ours": lambda _: _round(bed, expected, method)}, options)
            return Run(done["ours"], connections.most)


def _round(bed: Bed, expected: Sequence[str], method: Method) -> Round:
    """Ask everybody for its pillar, then for a ping."""
    before = _worker_cpu(bed)
    start = time.monotonic()
    jids = [_taken(bed, expected[first : first + WAVE]) for first in range(0, len(expected), WAVE)]
    items_s = time.monotonic() - start
    cpu = _worker_cpu(bed) - before
    start = time.monotonic()
    bed.salt(["*", "test.ping", "--out=json", "--static"], timeout=ROUND_S)
    ping_s = time.monotonic() - start
    answers: dict[str, Any] = {}
    for jid in jids:
        found = bed.salt_run(["jobs.lookup_jid", jid, "--out=json"], timeout=ROUND_S)
        answers |= json.loads(found.stdout)
    short = sum(not _complete(answers.get(minion), minion, method) for minion in expected)
    return Round(items_s, ping_s, cpu * 1000 / len(expected), short)


def _taken(bed: Bed, minions: Sequence[str]) -> str:
    """Ask minions for their pillars, wait until the master has taken all of them, and return the job's id.

    Nobody waits for the answers on the event bus, which drops large ones for a client that is slower than the master.
    """
    done = bed.salt(["-L", ",".join(minions), "--async", "pillar.items", "unmask=True"], timeout=ROUND_S)
    jid = done.stdout.split()[-1]

    def arrived() -> bool:
        folders = (found.parent for found in bed.master.job_cache.glob(f"*/*/{minions[-1]}"))
        folder = next((found for found in folders if (found / "jid").read_text() == jid), None)
        return folder is not None and len(list(folder.glob("*/return.p"))) >= len(minions)

    until(arrived, Deadline(ROUND_S), lambda: f"Not all of {len(minions)} minions answered {jid}.")
    return jid


def _complete(pillar: object, minion: str, method: Method) -> bool:
    """Say whether a minion's answer is its whole pillar."""
    if not isinstance(pillar, dict) or "_errors" in pillar:
        return False
    if method.form == "none":
        return True
    scopes = {category.partition("/")[0] for category in pillar.get("saltbed", {}).get("categories", ())}
    return pillar.get("minion_id") == minion and scopes == {"global", "organisation", "group", "minion"}


def _worker_cpu(bed: Bed) -> float:
    """Return the CPU seconds that the master's workers have used; the bed's monitor would tell a second later."""
    readings = monitor.read(psutil.Process(bed.warden))
    return sum(one.own_s + one.children_s for one in readings if monitor.title_role(one.title) == "MWorker")


class _Connections:
    """Watches how many clients PostgreSQL has; a context manager."""

    def __init__(self, database: scratch.Database) -> None:
        self._database = database
        self._stop = Event()
        self._thread = Thread(target=self._watch, daemon=True)
        self.most = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        count = """SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'
                   AND pid <> pg_backend_pid()"""
        while not self._stop.wait(SAMPLE_S):
            self.most = max(self.most, int(self._database.run(count)[0][0]))


PILLAR_FLEET = Benchmark(
    name="pillar-fleet",
    about="the RFC's experiments: a fleet by each access method",
    run=run,
    figures=(*ITEMS.values(), *CPU.values(), SHORT, *CONNECTIONS.values()),
    minions=1000,
    rounds=10,
    minutes=60,
)
