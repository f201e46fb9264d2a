"""What the tree was last made from.

Kept in the second git directory: with it, `apply` knows in milliseconds that there is nothing to do, and what to do
when the pin or a patch changed under it. Losing it costs one rebuild, never an edit.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from patches.base import Base
from patches.layout import write_atomically

if TYPE_CHECKING:
    from patches.layout import Layout


@dataclass(frozen=True)
class Applied:
    """One topic as it went into the tree: the SHA-256 of its patch file, and the commit made of it."""

    topic: str
    sha256: str
    commit: str


@dataclass(frozen=True)
class Move:
    """A change of the work tree that has begun: its files go to ``content`` from any of the ``known`` commits."""

    content: str
    known: tuple[str, ...]


@dataclass(frozen=True)
class State:
    """The base, the topics, and the move that has begun and not ended, if there is one."""

    base: Base
    base_commit: str
    applied: tuple[Applied, ...]
    move: Move | None = None

    @property
    def head(self) -> str:
        """The last commit."""
        return self.applied[-1].commit if self.applied else self.base_commit

    @property
    def sources(self) -> tuple[tuple[str, str], ...]:
        """What decides whether the tree is up to date: each topic with its file's hash."""
        return tuple((one.topic, one.sha256) for one in self.applied)


def read_state(layout: Layout) -> State | None:
    """Read the state; None when there is no tree yet, or when the file is damaged."""
    try:
        raw = json.loads(layout.state.read_bytes())
        return State(
            base=Base(**raw["base"]),
            base_commit=raw["base_commit"],
            applied=tuple(Applied(**one) for one in raw["applied"]),
            move=Move(raw["move"]["content"], tuple(raw["move"]["known"])) if raw["move"] else None,
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_state(layout: Layout, state: State) -> None:
    """Write the state."""
    write_atomically(layout.state, json.dumps(asdict(state), indent=1).encode() + b"\n")
