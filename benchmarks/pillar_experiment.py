"""The RFC's experiment: `pillar.items` and `test.ping` on a fleet by each access method, on both trees, by workers.

As the RFC has it: 1,000 simulated minions and a real one, ten rounds, no pillar, files, the function, four queries and
the target queries, with 8 and with 28 worker threads. Besides, the function as `sql/pillar.sql` has it, and the RFC's
by a Unix socket without a password, where stock is at its best. A bed for each, as these are the master's
configuration.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Self

import psutil

from benchmarks import pillar_page
from benchmarks.benchmark import Benchmark
from benchmarks.figure import Figure, Samples, exactly
from benchmarks.measurement import here
from benchmarks.options import Options
from benchmarks.pillar_methods import METHODS, REAL, Method
from benchmarks.pillar_rounds import Kept, Round, Run, Sitting, alone, now, set_aside
from benchmarks.turns import interleave
from harness.bed import Bed, BedSettings
from harness.database import scratch
from harness.paths import ROOT, TREES
from harness.processes import monitor
from harness.processes.deadline import Deadline, until
from harness.results.trees import content_hash

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NAME = "pillar-experiment"
# what takes part besides the trees, and of the machine what is another each time
MEASURED = ("sql", "salt/extensions/*/src", "harness", "evil_minions", "benchmarks")
CHANGING = {"load_average_at_start"}
RAMP_UP_S, ROUND_S, SAMPLE_S = 600, 600, 0.05
WORKERS = (8, 28)
CASES = [(method, workers) for workers in WORKERS for method in METHODS]
ITEMS = {
    (method, workers): Figure(f"items-{method.key}-{workers}", f"{method.name}, {workers} workers: pillar.items", "s")
    for method, workers in CASES
}
CPU = {
    (method, workers): Figure(
        f"cpu-{method.key}-{workers}", f"{method.name}, {workers} workers: CPU of a compile", "ms"
    )
    for method, workers in CASES
}
SHORT = Figure("short", "minions without their pillar, all methods", "", "max", exactly(0))
CONNECTIONS = {
    workers: Figure(f"connections-{workers}", f"connections, {workers} worker threads, function", "", "max")
    for workers in WORKERS
}
FUNCTION = next(method for method in METHODS if method.key == "rfc")
TITLE = "The RFC's experiment with {minions:,} minions"


def run(options: Options) -> dict[Figure, Samples]:
    """Run all cases; what was done is kept, with a page of plots, as hours of work may be stopped."""
    folder = options.output / NAME / str(options.minions)
    with alone(folder):
        if not options.resume:
            set_aside(folder)
        return _samples(_cases(options, Kept(folder, _facts(options.minions))))


def _facts(minions: int) -> dict[str, Any]:
    """Return what is the same in all rounds that are put together: the fleet, the trees, our own code, the machine."""
    facts = here()
    machine = {name: value for name, value in facts["machine"].items() if name not in CHANGING}
    trees = {name: tree["hash"] for name, tree in facts["trees"].items()}
    return {
        "minions": minions,
        "trees": trees,
        "code": content_hash(ROOT, MEASURED),
        "versions": facts["versions"],
        "machine": machine,
    }


def _cases(options: Options, kept: Kept) -> dict[pillar_page.Case, Run]:
    """Run what is missing of each case, and return all cases.

    Both trees get as many further rounds, one after the other: a ratio is of rounds that were taken together.
    """
    # all at once: a file that can't be used is told before hours of work
    had = {case: kept.read(_name(*case)) for case in CASES}
    found: dict[pillar_page.Case, Run] = {}
    for number, (method, workers) in enumerate(CASES, 1):
        runs = {tree: had[method, workers].get(tree, Run()) for tree in method.trees}
        left = options.rounds - min(len(run.rounds) for run in runs.values())
        if left > 0:
            # progress is told for each case, not for each round
            asked = Options(options.minions, left)
            runs = {tree: Run([*run.sittings, _bed(method, tree, workers, asked)]) for tree, run in runs.items()}
            kept.write(_name(method, workers), runs)
        for tree, run in runs.items():
            found[pillar_page.Case(method.name, tree, workers)] = run.first(options.rounds)
        pillar_page.write(options.output, TITLE.format(minions=options.minions), found, options.minions)
        options.progress(number, len(CASES))
    return found


def _samples(found: Mapping[pillar_page.Case, Run]) -> dict[Figure, Samples]:
    """Return the samples of all figures."""
    samples = {}
    for method, workers in CASES:
        pair = {tree: found[pillar_page.Case(method.name, tree, workers)].rounds for tree in method.trees}
        ours, stock = pair["patched"], pair.get("stock", [])
        samples[ITEMS[method, workers]] = Samples([one.items_s for one in ours], [one.items_s for one in stock])
        samples[CPU[method, workers]] = Samples([one.cpu_ms for one in ours], [one.cpu_ms for one in stock])
    samples[SHORT] = Samples([one.short for case in found.values() for one in case.rounds])
    for workers, figure in CONNECTIONS.items():
        most = {tree: found[pillar_page.Case(FUNCTION.name, tree, workers)].connections for tree in TREES}
        samples[figure] = Samples([most["patched"]], [most["stock"]])
    return samples


def _name(method: Method, workers: int) -> str:
    """Return the name of a case in files."""
    return f"{method.key}-{workers}"


def _bed(method: Method, tree: str, workers: int, options: Options) -> Sitting:
    """Run the rounds of one case in a bed of its own."""
    begun = now()
    with TemporaryDirectory(prefix="saltbed-") as name:
        folder, files = Path(name), Path(name) / "files"
        settings = BedSettings(
            tree=TREES[tree],
            folder=folder / "bed",
            minions=options.minions,
            api=None,
            master_options={"worker_threads": workers, "timeout": 300, **method.options(tree, files)},
        )
        with Bed(settings) as bed:
            method.prepare(bed, files)
            with _Connections(scratch.Database(bed.postgres)) as connections:
                bed.start_minion(REAL)
                bed.start_fleet().wait_ready(RAMP_UP_S)
                expected = [*settings.minion_ids(), REAL]
                done = interleave({"ours": lambda _: _round(bed, expected, method)}, options)
            return Sitting(begun, connections.most, done["ours"])


def _round(bed: Bed, expected: Sequence[str], method: Method) -> Round:
    """Ask everybody for its pillar, then for a ping."""
    before = _worker_cpu(bed)
    start = time.monotonic()
    jid = _taken(bed, expected)
    items_s = time.monotonic() - start
    cpu = _worker_cpu(bed) - before
    start = time.monotonic()
    bed.salt(["*", "test.ping", "--out=json", "--static"], timeout=ROUND_S)
    ping_s = time.monotonic() - start
    found = bed.salt_run(["jobs.lookup_jid", jid, "--out=json"], timeout=ROUND_S)
    answers = json.loads(found.stdout)
    short = sum(not _complete(answers.get(minion), minion, method) for minion in expected)
    return Round(items_s, ping_s, cpu * 1000 / len(expected), short)


def _taken(bed: Bed, minions: Sequence[str]) -> str:
    """Ask everybody for its pillar, wait until the master has taken all of them, and return the job's id.

    Nobody waits for the answers on the event bus, which drops large ones for a client that is slower than the master.
    """
    done = bed.salt(["*", "--async", "pillar.items", "unmask=True"], timeout=ROUND_S)
    jid = done.stdout.split()[-1]

    def arrived() -> bool:
        files = (found for found in bed.master.job_cache.glob("*/*/jid") if found.read_text() == jid)
        return any(len(list(found.parent.glob("*/return.p"))) >= len(minions) for found in files)

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


PILLAR_EXPERIMENT = Benchmark(
    name=NAME,
    about="the RFC's experiment: a fleet by each access method; try --minions 20 --rounds 1",
    run=run,
    figures=(*ITEMS.values(), *CPU.values(), SHORT, *CONNECTIONS.values()),
    minions=1000,
    rounds=10,
    minutes=240,
    resumes=True,
)
