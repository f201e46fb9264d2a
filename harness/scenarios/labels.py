"""What results and reports call the trees of a run, so that one tree may be there twice.

A run of `stock,stock` has `stock` and `stock-2`: the same tree against itself tells what the machine alone does.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_NUMBER = re.compile(r"-\d+$")


def labels(kinds: Sequence[str]) -> tuple[str, ...]:
    """Return a label for each tree of these kinds (stock, patched, other): the kind, numbered from the second on."""
    return tuple(
        f"{kind}-{number}" if (number := kinds[: place + 1].count(kind)) > 1 else kind
        for place, kind in enumerate(kinds)
    )


def kind(label: str) -> str:
    """Return which tree a label stands for: stock, patched or other."""
    return _NUMBER.sub("", label)
