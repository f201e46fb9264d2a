"""The manifest of a tree's samples: how many lines each file had, and its digest, when the run closed it.

Whatever happens to a file afterwards (rows lost in a copy, a file cut by a full disk, an edit) can be named with it.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from harness.verify.finding import DOUBT, WRONG, Finding

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
    files = {path.relative_to(samples).as_posix(): _entry(path) for path in _files(samples)}
    text = json.dumps({"format": FORMAT, "files": files}, indent=1) + "\n"
    (samples / FILE).write_text(text, encoding="utf-8")


def differences(tree: str, samples: Path) -> Iterator[Finding]:
    """Yield what is no longer as the run left it."""
    if not (samples / FILE).exists():
        text = f"there is no {FILE}, as in runs of before: nobody can tell whether a sample was lost since"
        yield Finding(tree, DOUBT, f"{text}.")
        return
    try:
        files: dict[str, dict[str, Any]] = json.loads((samples / FILE).read_text(encoding="utf-8"))["files"]
        lines = {name: int(entry["lines"]) for name, entry in files.items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        text = f"{FILE} is broken, so nobody can tell whether a sample was lost or changed since the run"
        yield Finding(tree, WRONG, f"{text}.")
        return
    found = {path.relative_to(samples).as_posix(): path for path in _files(samples)}
    for name in sorted(files.keys() | found.keys()):
        if name not in found:
            yield Finding(tree, WRONG, f"{name} is gone: the run left it with {lines[name]:,} lines.")
        elif name not in files:
            yield Finding(tree, WRONG, f"{name} was not there when the run ended.")
        elif (entry := _entry(found[name])) != files[name]:
            yield Finding(tree, WRONG, f"{name} was changed after the run: {_how(lines[name], int(entry['lines']))}.")


def _how(before: int, now: int) -> str:
    if before == now:
        return f"it still has {now:,} lines, but others"
    return f"it has {now:,} lines, {abs(now - before):,} {'more' if now > before else 'fewer'} than the run left"


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
