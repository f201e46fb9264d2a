"""Choices that a scenario, a bed and a command line have in common, each in one place.

A run of `stock,stock` has `stock` and `stock-2`: the same tree against itself tells what the machine alone does.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, get_args

from evil_minions import ID_FORMAT, TRANSPORTS

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


TRANSPORT: Final = TRANSPORTS[0]
"""Salt's own default."""
WITHOUT_API: Final = frozenset({"ws"})
"""Transports over which salt-api takes the master for dead: it looks for a socket that no such master makes."""

Pillar = Literal["sql", "none"]
PILLARS: Final[tuple[Pillar, ...]] = get_args(Pillar)
"""Where pillars come from: the bed's PostgreSQL, or nowhere."""

Source = Literal["auto", "dsn", "docker", "local", "wheel", "none"]
SOURCES: Final[tuple[Source, ...]] = get_args(Source)
"""Where PostgreSQL comes from: "auto" tries the others in their order, "none" is a bed without it."""


def minion_ids(count: int) -> list[str]:
    """Return the ids of the first `count` simulated minions."""
    return [ID_FORMAT.format(number) for number in range(count)]
