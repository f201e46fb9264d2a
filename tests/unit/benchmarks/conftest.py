"""Files as benchmarks and load runs leave them, with made-up samples."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.benchmark import Measurement, Options, Samples
from benchmarks.registry import ALL, LOADS
from benchmarks.results.__main__ import main
from harness.paths import TREES
from harness.results import result, runs, trees
from harness.scenarios import scenario as scenarios

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.benchmark import Benchmark


def hashes(name: str) -> dict[str, Any]:
    """Return those of a tree; only ours has extensions."""
    extensions = {one: f"extension {one}" for one in ("query", "console")} if name == "patched" else {}
    return {"hash": f"hash of all {name}", "core": f"hash of {name}", "extensions": extensions}


MACHINE: dict[str, Any] = {
    "machine": {
        "processor": "Some Processor",
        "cores": 2,
        "memory_gb": 23.5,
        "system": "Linux 6.1",
        "distribution": "Some Linux 12",
        "load_average_at_start": 0.1,
        "python": "3.12.0",
    },
    "versions": {"salt_stock": "3008.5"},
    "git": {"commit": "0" * 40, "uncommitted_changes": False},
    "trees": {name: {**hashes(name), "edited": []} for name in ("stock", "patched")},
}
WHEN = datetime(2026, 11, 22, 10, tzinfo=UTC)
NAMES = {folder: name for name, folder in TREES.items()}
# of a tree: what a result holds that the page shows
TREE = {
    "client_requests": 20,
    "client_errors": 0,
    "publications_per_job": 1.0,
    "acknowledged_ratio": 1.0,
    "returns_lost": 0,
    "longest_wait_s": 40.0,
    "client_latency_s": {"p50": 5.0, "p95": 7.7, "p99": 7.94},
    "peak_memory_mb": {"MWorkerQueue": 61.0},
}


@dataclass(frozen=True)
class Measured:
    """Folders with files of benchmarks and of load runs, and the page beside them."""

    folder: Path

    @property
    def bench(self) -> Path:
        """Folder of the benchmarks' files."""
        return self.folder / "bench"

    @property
    def runs(self) -> Path:
        """Folder of the load runs."""
        return self.folder / "runs"

    @property
    def docs(self) -> Path:
        """Folder of the pages."""
        return self.folder / "docs"

    @property
    def evidence(self) -> Path:
        """Folder of the copies."""
        return self.docs / "evidence"

    @property
    def page(self) -> Path:
        """The page."""
        return self.docs / "results.md"

    def write(self, *arguments: str) -> int:
        """Run the command that writes the page."""
        return main(["--docs", str(self.docs), *arguments])

    def collect(self) -> int:
        """Run the command that copies what was measured, and writes the page."""
        return self.write("--bench", str(self.bench), "--runs", str(self.runs), "--collect")

    def measurement(self, benchmark: Benchmark, minions: int | None = None, **machine: object) -> Path:
        """Write the file of a benchmark."""
        facts = {**MACHINE, "machine": {**MACHINE["machine"], **machine}}
        return measurement(benchmark, minions, facts).write(self.bench)

    def run(self, name: str, hour: int = 10, trees: tuple[str, ...] = ("stock", "patched"), **figures: object) -> Path:
        """Write a finished load run of a scenario; `figures` are the patched tree's."""
        scenario = scenarios.load(scenarios.find(name))
        file = scenarios.find(name)
        folder = runs.create(
            self.runs, WHEN.replace(hour=hour), scenario, file, trees, f"python -m harness load {name}"
        )
        runs.end(folder, "finished")
        found = {"stock": TREE, "patched": {**TREE, **figures}}
        values = {
            "format": result.FORMAT,
            "disagrees": [],
            "scenario": scenarios.dump(scenario),
            "repeats": [{tree: found[tree] for tree in trees}],
        }
        facts = {**MACHINE, "versions": {"python": "3.12.0", "salt_stock": "3008.5"}, "bed": {"made_of": "processes"}}
        (folder / "result.json").write_text(json.dumps(values))
        (folder / "environment.json").write_text(json.dumps(facts))
        return folder

    def rows(self) -> dict[tuple[str, str], list[str]]:
        """Return the page's rows: by heading and first cell, the other cells."""
        found, section = {}, ""
        for line in self.page.read_text().splitlines():
            if line.startswith("#"):
                section = line.lstrip("# ")
            elif line.startswith("| ") and not line.startswith(("| what", "| question", "| ---")):
                what, *cells = [cell.strip() for cell in line.strip("|").split(" | ")]
                found[section, what] = cells
        return found


def measurement(benchmark: Benchmark, minions: int | None = None, machine: dict[str, Any] = MACHINE) -> Measurement:
    """Return an measurement with made-up samples: three turns, ours 2 and stock 8 in the middle."""
    options = Options(minions or benchmark.minions, benchmark.rounds)
    samples = {figure: Samples([1.0, 2.0, 3.0], [8.0, 8.0, 8.0]) for figure in benchmark.figures}
    return Measurement(benchmark, options, samples, WHEN, machine, benchmark.own())


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Measured:
    """Return folders in which nothing was measured; the trees have made-up hashes."""
    monkeypatch.setattr(trees, "hashes", lambda folder: hashes(NAMES[folder]))
    return Measured(tmp_path)


@pytest.fixture
def measured(empty: Measured) -> Measured:
    """Return folders in which everything was measured and collected."""
    for benchmark in ALL:
        empty.measurement(benchmark)
    for load in LOADS:
        empty.run(load.name)
    assert empty.collect() == 0
    return empty
