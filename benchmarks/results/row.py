"""A row of the page: one figure, what was found, and what should be."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.figure import Figure
    from benchmarks.results.subjects import Subject

# keys that have to be equal for the same machine
MACHINE = ("processor", "cores", "memory_gb", "distribution", "python")


@dataclass(frozen=True)
class Source:
    """A file of evidence: the command that measured it, when (UTC, ISO 8601), where, and on what.

    `marks` say why to read it with care: the machine had other work when it began, the check of a load run found a
    reason, the tree was not what the patches make, or the code has changed since.
    """

    file: str
    command: str
    date: str
    machine: Mapping[str, Any]
    salt: str
    commit: str
    marks: tuple[str, ...] = ()

    @property
    def where(self) -> tuple[str, ...]:
        """Return what tells the machine from another one, in words."""
        return tuple(str(self.machine.get(name, "")) for name in MACHINE)


BUSY, DOUBTED, EDITED, OLDER = "busy", "not trustworthy", "edited", "older code"


def read_source(file: str, values: Mapping[str, Any], older: bool) -> Source:  # noqa: FBT001 - one of the marks
    """Return what a file says of itself; raises KeyError, TypeError, ValueError or AttributeError if it is damaged."""
    datetime.fromisoformat(values["date"])
    machine = values["machine"]
    marks = {
        BUSY: float(machine["load_average_at_start"]) > float(machine["cores"]),
        DOUBTED: bool(values.get("doubts")),
        EDITED: any(tree.get("edited") for tree in values["trees"].values()),
        OLDER: older,
    }
    salt, commit = (
        str(values["versions"].get("salt_stock", "")),
        str(values["git"]["patches"] or values["git"]["commit"]),
    )
    command, shown = str(values["command"]), tuple(mark for mark, is_so in marks.items() if is_so)
    return Source(file, command, values["date"], machine, salt, commit, shown)


@dataclass(frozen=True)
class Row:
    """One figure that was measured, in `n` samples of ours."""

    figure: Figure
    what: str
    n: int
    stock: float | None = None
    ours: float | None = None
    ratio: float | None = None

    @property
    def met(self) -> bool | None:
        """Say whether the aim is met; None without an aim or a value."""
        aim = self.figure.aim
        value = self.ratio if aim is not None and aim.of == "ratio" else self.ours
        return None if aim is None or value is None else aim.met(value)


@dataclass(frozen=True)
class Section:
    """The figures of one benchmark or scenario; without a source nothing was measured."""

    subject: Subject
    source: Source | None = None
    rows: tuple[Row, ...] = ()
