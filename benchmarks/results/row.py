"""A row of the page: one figure, what was found, and what should be."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.figure import Aim

# keys that have to be equal for the same machine
MACHINE = ("processor", "cores", "memory_gb", "distribution", "python")


@dataclass(frozen=True)
class Source:
    """A file with figures: the command that made it, when (UTC, ISO 8601), where, and on what.

    `busy` says that the machine had other work when it began, `edited` that the tree was not what the patches make.
    """

    command: str
    date: str
    machine: Mapping[str, Any]
    busy: bool
    edited: bool

    @property
    def where(self) -> tuple[str, ...]:
        """Return what tells the machine from another one, in words."""
        return tuple(str(self.machine.get(name, "")) for name in MACHINE)


def read_source(command: str, date: str, machine: Mapping[str, Any], trees: Mapping[str, Any]) -> Source:
    """Return what a file says of itself; raises KeyError, TypeError, ValueError or AttributeError if it is damaged."""
    datetime.fromisoformat(date)
    busy = float(machine["load_average_at_start"]) > float(machine["cores"])
    return Source(command, date, machine, busy, any(tree.get("edited") for tree in trees.values()))


@dataclass(frozen=True)
class Row:
    """One figure; `source` is None where nothing was measured, and then `command` says what measures it."""

    what: str
    unit: str
    command: str
    aim: Aim | None = None
    stock: float | None = None
    ours: float | None = None
    ratio: float | None = None
    source: Source | None = None

    @property
    def met(self) -> bool | None:
        """Say whether the aim is met; None without an aim or a measurement."""
        value = self.ratio if self.aim is not None and self.aim.of == "ratio" else self.ours
        return None if self.aim is None or self.source is None or value is None else self.aim.met(value)


@dataclass(frozen=True)
class Section:
    """The figures of one benchmark or scenario."""

    name: str
    about: str
    rows: tuple[Row, ...] = field(default=())
