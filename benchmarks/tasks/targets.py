"""Find the minions of a target as a worker of the master does, out of its folders of keys and cached data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import salt.config
import salt.utils.minions

if TYPE_CHECKING:
    from collections.abc import Callable


def prepare(settings: dict[str, Any]) -> Callable[[str], list[int]]:
    """Return what finds a kind of target, and returns how many minions and missing names it has.

    `settings` has `folder` with the keys in `pki` and the data in `cache`, and the numbers of `minions` and `unknown`.
    """
    folder = Path(settings["folder"])
    opts = salt.config.master_config(None)
    opts.update({"root_dir": str(folder), "pki_dir": str(folder / "pki"), "cachedir": str(folder / "cache")})
    opts["sock_dir"] = str(folder / "sock")
    minions = salt.utils.minions.CkMinions(opts)
    targets: dict[str, tuple[str | list[str], str]] = {
        "list": ([f"minion-{number:05d}" for number in range(settings["minions"])], "list"),
        "all": ("*", "glob"),
        "unknown": ([f"nobody-{number}" for number in range(settings["unknown"])], "list"),
    }

    def find(kind: str) -> list[int]:
        found = minions.check_minions(*targets[kind])
        return [len(found["minions"]), len(found["missing"])]

    return find
