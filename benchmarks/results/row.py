"""A row of the page: one figure, what was found, and what should be."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.figure import Aim

# of a machine: what makes another machine of it
MACHINE = ("processor", "cores", "memory_gb", "distribution", "python")


@dataclass(frozen=True)
class Source:
    """A file with figures: the command that made it, when (UTC, ISO 8601), where, and whether the tree was edited."""

    command: str
    date: str
    machine: Mapping[str, Any]
    load_average: float
    edited: bool

    @property
    def where(self) -> tuple[str, ...]:
        """Return what tells the machine from another one, in words."""
        return tuple(str(self.machine.get(name, "")) for name in MACHINE)

    @property
    def busy(self) -> bool:
        """Say whether the machine had other work when it began."""
        return self.load_average > float(self.machine.get("cores", 1))


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
