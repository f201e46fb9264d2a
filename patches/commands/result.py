"""What a command prints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class CommandResult:
    """What a command prints, for people and for machines, its exit code, and what goes to standard error."""

    lines: tuple[str, ...]
    data: Mapping[str, Any]
    code: int = 0
    warnings: tuple[str, ...] = ()
