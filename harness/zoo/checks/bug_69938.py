"""Bug 69938: the number of options is asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

OPTIONS = 400


def check(folder: Path) -> list[str] | None:  # noqa: ARG001 - each check gets a folder
    """Return what is wrong, None without OptsDict."""
    try:
        kind: Any = importlib.import_module("salt.utils.optsdict").OptsDict
    except ImportError:
        return None
    looks: list[object] = []

    class Counting(kind):  # type: ignore[misc] # known to the release alone
        """Options that note which values are looked up."""

        def __getitem__(self, key: object) -> Any:
            looks.append(key)
            return super().__getitem__(key)

    opts = Counting.from_dict({f"option-{number}": number for number in range(OPTIONS)})
    looks.clear()
    wrong = [] if len(opts) == OPTIONS else [f"{OPTIONS} options were counted as {len(opts)}"]
    if looks:
        wrong.append(f"counting {OPTIONS} options looked up {len(looks)} values")
    return wrong
