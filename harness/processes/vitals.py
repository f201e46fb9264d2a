"""What a process and its descendants are doing, as the kernel tells it: state, CPU time, what it waits in."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from dataclasses import dataclass
from os import sysconf
from pathlib import Path

from harness.processes.kernel import descendants

TICK_S = 1 / sysconf("SC_CLK_TCK")
STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "waiting for a disk",
    "T": "stopped",
    "t": "stopped by a debugger",
    "Z": "ended",
    "X": "ended",
}
NAME = re.compile(r"[A-Za-z][\w.-]*")
# how many kinds of descendants are told
TOLD = 6


@dataclass(frozen=True)
class Vitals:
    """One process: its name, its state in words, its CPU time with that of children it waited for, what it waits in."""

    pid: int
    name: str
    state: str
    cpu_s: float
    channel: str

    @property
    def halted(self) -> bool:
        """Return whether a signal or a debugger has stopped it."""
        return self.state in {STATES["T"], STATES["t"]}

    @property
    def text(self) -> str:
        """Return state and CPU time in words."""
        channel = f" in {self.channel}" if self.channel else ""
        return f"{self.state}{channel}, {self.cpu_s:.1f} s of CPU"


def read(pid: int) -> Vitals | None:
    """Return what a process is doing, None if there is none of this number."""
    folder = Path("/proc", str(pid))
    try:
        name, _, rest = folder.joinpath("stat").read_text(encoding="ascii", errors="replace").rpartition(")")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = rest.split()
    ticks = sum(map(int, fields[11:15]))
    state = STATES.get(fields[0], fields[0])
    return Vitals(
        pid,
        _title(folder) or name.partition("(")[2],
        state,
        ticks * TICK_S,
        _channel(folder) if fields[0] != "R" else "",
    )


def family(pid: int) -> list[Vitals]:
    """Return what a process and its descendants are doing, the process first and then the busiest."""
    found = [vitals for child in descendants(pid) if (vitals := read(child))]
    leader = read(pid)
    return [*([leader] if leader else []), *sorted(found, key=lambda vitals: -vitals.cpu_s)]


def cpu_s(pid: int) -> float:
    """Return the CPU time in seconds of a process and its descendants."""
    return sum(vitals.cpu_s for vitals in family(pid))


def told(pid: int) -> str:
    """Return in words what a process and its descendants are doing; those that do the same are told together."""
    members = family(pid)
    if not members or members[0].pid != pid:
        return "it has ended"
    groups: dict[tuple[str, str, str], list[Vitals]] = {}
    for vitals in members[1:]:
        groups.setdefault((vitals.name, vitals.state, vitals.channel), []).append(vitals)
    said = [_together(same) for same in groups.values()]
    if not said:
        return f"it is {members[0].text}"
    more = [f"{len(said) - TOLD} more"] if len(said) > TOLD else []
    return f"it is {members[0].text}; its descendants: {'; '.join([*said[:TOLD], *more])}"


def _together(same: list[Vitals]) -> str:
    first = dataclasses.replace(same[0], cpu_s=sum(vitals.cpu_s for vitals in same))
    count = f"{len(same)} x " if len(same) > 1 else ""
    return f"{count}{first.name} {first.text}"


def _title(folder: Path) -> str:
    """Return the last word of a process's title if it is one: Salt and PostgreSQL name their processes there."""
    with contextlib.suppress(OSError):
        words = folder.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").split()
        if len(words) > 1 and NAME.fullmatch(words[-1]):
            # of several workers the number tells nothing
            return re.sub(r"(-\d+|\..*)$", "", words[-1])
    return ""


def _channel(folder: Path) -> str:
    """Return the kernel's function that a process waits in, "" where that isn't told."""
    with contextlib.suppress(OSError):
        text = folder.joinpath("wchan").read_text(encoding="ascii").strip()
        return "" if text == "0" else text
    return ""
