"""What a benchmark found, and its file.

The file is what documents and later runs compare, so it has a `format` version: 1 has `name`, `description`, `when`,
`machine`, `ratios`, `figures` and `samples`.
"""

from __future__ import annotations

import json
import os
import platform
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FORMAT = 1


@dataclass(frozen=True)
class Ratio:
    """One figure of ours divided by the same figure of stock's, pair by pair; below 1 is less than stock.

    `median`, `low` and `high` are over the pairs of the interleaved run.
    """

    median: float
    low: float
    high: float
    pairs: int


def ratio(ours: Sequence[float], stock: Sequence[float]) -> Ratio:
    """Return the ratio of two interleaved series of equal length; raises ValueError when they are not."""
    pairs = [mine / theirs for mine, theirs in zip(ours, stock, strict=True)]
    return Ratio(round(median(pairs), 4), round(min(pairs), 4), round(max(pairs), 4), len(pairs))


@dataclass(frozen=True)
class Outcome:
    """What one benchmark found: ratios first, absolute figures with their unit in the name, raw samples."""

    name: str
    description: str
    ratios: dict[str, Ratio]
    figures: dict[str, float]
    samples: dict[str, list[float]] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Return the outcome as it is written to its file."""
        return {
            "format": FORMAT,
            "name": self.name,
            "description": self.description,
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": {"cpus": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()},
            "ratios": {name: vars(value) for name, value in self.ratios.items()},
            "figures": self.figures,
            "samples": self.samples,
        }

    def write(self, folder: Path) -> Path:
        """Write `<name>.json` below `folder` and return its path; a reader never sees half a file."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.json"
        draft = path.with_suffix(".json.part")
        draft.write_text(json.dumps(self.document(), indent=1) + "\n")
        draft.replace(path)
        return path
