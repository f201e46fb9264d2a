"""What a complete answer to a request holds: `Expected`."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Expected:
    """How many minions a complete answer names; `steps` has the numbers of an orchestration's steps that differ."""

    minions: int
    steps: dict[str, int] = field(default_factory=dict)
