"""Choices that a scenario, a bed and a command line have in common, each in one place."""

from __future__ import annotations

from typing import Final, Literal, get_args

from evil_minions import ID_FORMAT, TRANSPORTS

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
