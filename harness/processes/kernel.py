"""What the kernel knows of processes: who descends from whom, who has ended; and signals to them.

A process that is killed can't note its end; so a later one asks whether the process of a mark still runs.
A host's name does not say which machine that is: many are called `debian`. What does is the id of its boot, which the
kernel draws at random, and that of the machine, which the system drew when it was installed. Numbers of processes
belong to a namespace, so that is part of a mark as well: in a container, others' processes can't be seen.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
import re
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

BOOT = Path("/proc/sys/kernel/random/boot_id")
MACHINE = Path("/etc/machine-id")
NAMESPACE = Path("/proc/self/ns/pid")


@dataclass(frozen=True)
class Place:
    """Where a process lives: ids of the machine ("" if it has none) and its boot, and the namespace of its number."""

    machine: str
    boot: str
    namespace: str

    @classmethod
    def here(cls, machine: Path = MACHINE, boot: Path = BOOT, namespace: Path = NAMESPACE) -> Self:
        """Return where this process lives."""
        try:
            name = machine.read_text(encoding="ascii").strip()
        except OSError:
            name = ""
        return cls(name, boot.read_text(encoding="ascii").strip(), str(namespace.readlink()))

    def __str__(self) -> str:
        """Return it as a part of a mark."""
        return f"{self.machine}/{self.boot}/{self.namespace}"


def owner(pid: int) -> str:
    """Return what tells a process apart from any other, on this machine and elsewhere, also after a restart."""
    return f"{Place.here()}/{pid}/{psutil.Process(pid).create_time():.2f}"


def ended(mark: str, here: Callable[[], Place] = Place.here) -> bool | None:
    """Say whether the process with this mark of `owner` has ended; None if that can't be known from here.

    Of another machine, another boot of this one (which may be a copy of this machine as well) or another namespace of
    processes nobody here can tell.
    """
    parts = mark.rsplit("/", 2)
    if len(parts) != 3 or parts[0] != str(here()):  # noqa: PLR2004 - place, number and time
        return None
    try:
        return f"{psutil.Process(int(parts[1])).create_time():.2f}" != parts[2]
    except (psutil.NoSuchProcess, ValueError):
        return True


def rebooted(mark: str, here: Callable[[], Place] = Place.here) -> bool:
    """Say whether a mark is of an earlier boot of a machine with this one's id: of this one, unless it was copied."""
    place = mark.rsplit("/", 2)[0].split("/", 2)
    now = here()
    return bool(now.machine) and place[0] == now.machine and len(place) == 3 and place[1] != now.boot  # noqa: PLR2004 - a number of things


PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
KILL_S = 10.0
"""How long killed processes are waited for."""
TICK_S = 0.1
LIBC = ctypes.CDLL(None, use_errno=True)


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process, as the system call of that name does."""
    if LIBC.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl failed")


def descendants(root: int, *, recursive: bool = True) -> set[int]:
    """Return the processes below `root`; only its children unless `recursive`."""
    try:
        return {process.pid for process in psutil.Process(root).children(recursive=recursive)}
    except psutil.NoSuchProcess:
        return set()


def reap() -> dict[int, int]:
    """Collect the children that have ended, with their exit codes (minus the signal's number if one ended them)."""
    ended: dict[int, int] = {}
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            ended[pid] = os.waitstatus_to_exitcode(status)
    return ended


def kill_children() -> None:
    """Kill every child until none is left, its orphaned children included, which become ours when it ends.

    Only children are killed: their ids can't be given to another process before they are reaped here.
    """
    end = time.monotonic() + KILL_S
    me = os.getpid()
    while time.monotonic() < end:
        children = descendants(me, recursive=False)
        if not children:
            return
        send(children, signal.SIGKILL)
        signal.sigtimedwait([signal.SIGCHLD], TICK_S)
        reap()


def send(pids: Iterable[int], number: int) -> None:
    """Send a signal to processes, some of which may be gone already."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


STOPPED = {psutil.STATUS_STOPPED: "stopped", psutil.STATUS_TRACING_STOP: "stopped by a debugger"}
STATES = {**STOPPED, psutil.STATUS_DISK_SLEEP: "waiting for a disk"}
NAME = re.compile(r"[A-Za-z][\w.-]*")
# how many kinds of descendants are shown
SHOWN = 6


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
        return self.state in STOPPED.values()

    @property
    def text(self) -> str:
        """Return state and CPU time in words."""
        channel = f" in {self.channel}" if self.channel else ""
        return f"{self.state}{channel}, {self.cpu_s:.1f} s of CPU"


def read(pid: int) -> Vitals | None:
    """Return what a process is doing, None if there is none of this number."""
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            state, times = process.status(), process.cpu_times()
            name = _title(process.cmdline()) or process.name()
            channel = "" if state == psutil.STATUS_RUNNING else _channel(pid)
            used = times.user + times.system + times.children_user + times.children_system
            return Vitals(pid, name, STATES.get(state, state), used, channel)
    except psutil.NoSuchProcess:
        return None


def family(pid: int) -> list[Vitals]:
    """Return what a process and its descendants are doing, the process first and then the busiest."""
    found = [vitals for child in descendants(pid) if (vitals := read(child))]
    leader = read(pid)
    return [*([leader] if leader else []), *sorted(found, key=lambda vitals: -vitals.cpu_s)]


def cpu_s(pid: int) -> float:
    """Return the CPU time in seconds of a process and its descendants."""
    return sum(vitals.cpu_s for vitals in family(pid))


def describe(pid: int) -> str:
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
    more = [f"{len(said) - SHOWN} more"] if len(said) > SHOWN else []
    return f"it is {members[0].text}; its descendants: {'; '.join([*said[:SHOWN], *more])}"


def _together(same: list[Vitals]) -> str:
    first = dataclasses.replace(same[0], cpu_s=sum(vitals.cpu_s for vitals in same))
    count = f"{len(same)} x " if len(same) > 1 else ""
    return f"{count}{first.name} {first.text}"


def _title(command: list[str]) -> str:
    """Return the last word of a process's title if it is one: Salt and PostgreSQL name their processes there."""
    words = " ".join(command).split()
    if len(words) > 1 and NAME.fullmatch(words[-1]):
        # of several workers the number tells nothing
        return re.sub(r"(-\d+|\..*)$", "", words[-1])
    return ""


def _channel(pid: int) -> str:
    """Return the kernel's function that a process waits in, "" where that isn't told."""
    with contextlib.suppress(OSError):
        text = Path("/proc", str(pid), "wchan").read_text(encoding="ascii").strip()
        return "" if text == "0" else text
    return ""
