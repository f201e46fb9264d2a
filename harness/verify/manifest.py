"""Whether a tree's samples are still those of which the run wrote the manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.samples import manifest
from harness.verify.finding import DOUBT, WRONG, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def differences(tree: str, samples: Path) -> Iterator[Finding]:
    """Yield what is no longer as the run left it."""
    if not (samples / manifest.FILE).exists():
        text = f"there is no {manifest.FILE}, as in runs of before: nobody can tell whether a sample was lost since"
        yield Finding(tree, DOUBT, f"{text}.")
        return
    try:
        files = manifest.read(samples)
        lines = {name: int(entry["lines"]) for name, entry in files.items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        text = f"{manifest.FILE} is broken, so nobody can tell whether a sample was lost or changed since the run"
        yield Finding(tree, WRONG, f"{text}.")
        return
    found = manifest.entries(samples)
    for name in sorted(files.keys() | found.keys()):
        if name not in found:
            yield Finding(tree, WRONG, f"{name} is gone: the run left it with {lines[name]:,} lines.")
        elif name not in files:
            yield Finding(tree, WRONG, f"{name} was not there when the run ended.")
        elif (entry := found[name]) != files[name]:
            yield Finding(tree, WRONG, f"{name} was changed after the run: {_how(lines[name], int(entry['lines']))}.")


def _how(before: int, now: int) -> str:
    if before == now:
        return f"it still has {now:,} lines, but others"
    return f"it has {now:,} lines, {abs(now - before):,} {'more' if now > before else 'fewer'} than the run left"
