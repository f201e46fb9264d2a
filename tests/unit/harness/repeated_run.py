"""The small run of the tests, repeated: each repeat's answers come a little later than those of the one before."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

RUN = Path(__file__).parent / "data" / "run"
LATER_S = 0.02


def repeated(parent: Path, repeats: int, trees: Sequence[tuple[str, str]] = (("stock",) * 2, ("patched",) * 2)) -> Path:
    """Return the folder of a run of `trees` (label, whose samples it has) with so many repeats."""
    folder = parent / "run"
    folder.mkdir()
    for name in ("scenario.toml", "environment.json"):
        shutil.copyfile(RUN / name, folder / name)
    values = json.loads((RUN / "run.json").read_text())
    values |= {"repeats": repeats, "trees": [label for label, _ in trees]}
    (folder / "run.json").write_text(json.dumps(values))
    for repeat in range(repeats):
        for label, tree in trees:
            place = folder / f"repeat-{repeat + 1}" / label if repeat else folder / label
            shutil.copytree(RUN / tree, place)
            later(place, repeat * LATER_S)
    return folder


def later(place: Path, seconds: float) -> None:
    """Let each answer of the tree in `place` come later."""
    path = place / "samples" / "requests.csv"
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows({**row, "finished": f"{float(row['finished']) + seconds:g}"} for row in rows)
