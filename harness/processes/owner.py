"""Marks that tell one process apart from any other, so that what it left behind is recognised when it has ended.

A process that is killed can't note its end; so a later one asks whether the process of a mark still runs.
A host's name does not say which machine that is: many are called `debian`. What does is the id of its boot, which the
kernel draws at random, and that of the machine, which the system drew when it was installed. Numbers of processes
belong to a namespace, so that is part of a mark as well: in a container, others' processes can't be seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable

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
