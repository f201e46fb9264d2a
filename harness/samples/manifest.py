"""The manifest of a tree's samples: how many lines each file had, and its digest, when the run closed it.

Whatever happens to a file afterwards (rows lost in a copy, a file cut by a full disk, an edit) can be named with it.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FORMAT = 1
FILE = "manifest.json"
# what samples are: the fleet's keys lie beside its files
PATTERNS = ("*.csv", "fleet/*.csv", "timeline.json", "zero")
_BLOCK = 1 << 20


def write(samples: Path) -> None:
    """Write the manifest of the folder `samples`; nothing may write there any more."""
    text = json.dumps({"format": FORMAT, "files": entries(samples)}, indent=1) + "\n"
    (samples / FILE).write_text(text, encoding="utf-8")


def read(samples: Path) -> dict[str, dict[str, Any]]:
    """Return the entries that were written; raises OSError, ValueError or LookupError if there are none to read."""
    files: dict[str, dict[str, Any]] = json.loads((samples / FILE).read_text(encoding="utf-8"))["files"]
    return files


def entries(samples: Path) -> dict[str, dict[str, Any]]:
    """Return the `lines`, `bytes` and `sha256` of each file as it is now, by its path below the folder `samples`."""
    return {path.relative_to(samples).as_posix(): _entry(path) for path in _files(samples)}


def _files(samples: Path) -> Iterator[Path]:
    for pattern in PATTERNS:
        yield from sorted(samples.glob(pattern))


def _entry(path: Path) -> dict[str, Any]:
    digest, lines, size = hashlib.sha256(), 0, 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            lines += block.count(b"\n")
            size += len(block)
    return {"lines": lines, "bytes": size, "sha256": digest.hexdigest()}
