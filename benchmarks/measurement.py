"""What a run of a benchmark found, and its file `build/bench/NAME.json`.

The results' page is made of these files, so the format has a version: 3 has `name`, `about`, `command`, `date` (UTC),
`minions`, `rounds`, `own` (the hash of the benchmark's own files), `machine`, `versions`, `git`, `trees`, and
`figures`, each as `benchmarks.figure.document` writes it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from benchmarks.errors import BenchmarkError
from benchmarks.figure import document
from harness.paths import TREES
from harness.results import machine

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from benchmarks.benchmark import Benchmark
    from benchmarks.figure import Figure, Samples
    from benchmarks.options import Options

FORMAT = 3


@dataclass(frozen=True)
class Measurement:
    """The samples of one run of a benchmark, when and where they were taken."""

    benchmark: Benchmark
    options: Options
    samples: Mapping[Figure, Samples]
    date: datetime
    machine: Mapping[str, Any]
    # the hash of the benchmark's own files when it began
    own: str

    def document(self) -> dict[str, Any]:
        """Return it as it is written; raises BenchmarkError if the figures are not those of the benchmark."""
        wrong = set(self.benchmark.figures) ^ set(self.samples)
        if wrong:
            keys = ", ".join(sorted(figure.key for figure in wrong))
            raise BenchmarkError(f"{self.benchmark.name} and its samples disagree about {keys}: mend the benchmark.")
        minions, rounds = self.options.minions, self.options.rounds
        return {
            "format": FORMAT,
            "name": self.benchmark.name,
            "about": self.benchmark.about,
            "command": self.benchmark.command(minions, rounds),
            "date": self.date.astimezone(UTC).isoformat(timespec="seconds"),
            "minions": minions,
            "rounds": rounds,
            "own": self.own,
            **self.machine,
            "figures": [document(figure, self.samples[figure], minions) for figure in self.benchmark.figures],
        }

    def write(self, folder: Path) -> Path:
        """Write `<name>.json` below `folder` and return its path; a reader never sees half a file."""
        text = json.dumps(self.document(), indent=1) + "\n"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / f"{self.benchmark.name}.json"
        draft = path.with_suffix(".json.part")
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
        return path


def here() -> dict[str, Any]:
    """Return the facts of this machine and of the project: to be asked before the load begins."""
    facts = machine.facts(TREES)
    python = facts["versions"].pop("python")
    known = {name: facts[name] for name in ("versions", "git", "trees")}
    return {"machine": {**facts["machine"], "python": python}, **known}
