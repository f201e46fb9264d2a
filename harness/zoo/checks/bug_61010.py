"""Bug 61010: a source of the pillar is away for a moment, with `pillar_cache`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import salt.pillar

from harness.zoo import parts

if TYPE_CHECKING:
    from pathlib import Path

LATER_S = 120


def check(folder: Path) -> list[str]:
    """Return what is wrong."""
    (folder / "roots").mkdir()
    # where Salt 3006 and 3007 write, which a real master makes at its start
    (folder / "cachedir" / "pillar_cache").mkdir(parents=True)
    (folder / "roots" / "top.sls").write_text("base:\n  '*':\n    - data\n")
    data = folder / "roots" / "data.sls"
    opts = parts.master_options(
        folder,
        pillar_cache=True,
        pillar_cache_backend="disk",
        pillar_roots={"base": [str(folder / "roots")]},
        file_roots={"base": []},
    )

    def compiled() -> dict[str, Any]:
        pillar = salt.pillar.get_pillar(opts, {"id": "minion"}, "minion", "base")
        found: dict[str, Any] = pillar.compile_pillar()
        return found

    data.write_text("{% broken")
    first = compiled()
    if "_errors" not in first:
        return ["a broken pillar has no errors"]
    data.write_text("key: value\n")
    real = time.time
    time.time = lambda: real() + LATER_S
    later = compiled()
    return [] if later.get("key") == "value" else ["the pillar with errors was served two minutes later"]
