"""What the rounds of the RFC's experiments gave."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Round:
    """One round: seconds of `pillar.items` and `test.ping`, CPU ms of the workers for each compile, short pillars."""

    items_s: float
    ping_s: float
    cpu_ms: float
    short: int


@dataclass(frozen=True)
class Run:
    """All rounds of one method, and the most connections that PostgreSQL had at once."""

    rounds: list[Round]
    connections: int
