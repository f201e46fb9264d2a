"""How large a fleet a machine can hold: what so many minions need, and what of it is not there.

Asked before the first process starts: a fleet that is too large shows in many ways, and late. The figures of each
minion were measured on stock Salt over zeromq: memory with 3,500 idle connections and with 500 minions under load, the
time to get ready with 10,000; docs/load-reference.md has them. The other transports take less time, so
an estimate is on the safe side.
"""

from __future__ import annotations

import contextlib
import os
import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psutil

from harness.errors import LimitError

MEMORY_LIMIT = Path("/sys/fs/cgroup/memory.max")
PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
# what a process of the master opens besides one connection for each minion
SPARE_FILES = 500
# a bed without minions, with salt-api, PostgreSQL and clients
BASE_MB = 1500.0
# peak of each minion in all processes: the master's queue of requests 26 idle and up to 116 at work, its publisher 26
# and up to 70, the fleet 7; and what a pillar adds in the fleet
KB_PER_MINION = 190.0
KB_PER_PILLAR = 35.0
# CPU time of master and fleet until a minion is ready; no fleet begins more sign-ins in a second
CORE_S_PER_MINION = 0.13
SIGN_INS_PER_S = 300.0
# smaller fleets run on any machine, so nothing is told of them
WORTH_TELLING = 2000
# for the error of the estimate
SPARE_MEMORY = 0.9


@dataclass(frozen=True)
class Machine:
    """What there is: free memory in MB, cores, files that a process may open (-1: no limit), ports to connect from."""

    memory_mb: float
    cores: int
    files: int
    ports: int

    @classmethod
    def here(cls, limit: Path = MEMORY_LIMIT, ports: Path = PORTS) -> Self:
        """Return what this machine has; of its memory no more than the control group of this process allows."""
        memory = psutil.virtual_memory().available
        # there may be no limit, or no control group
        with contextlib.suppress(OSError, ValueError):
            memory = min(memory, int(limit.read_text(encoding="ascii")))
        low, high = map(int, ports.read_text(encoding="ascii").split())
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        return cls(memory / 2**20, len(os.sched_getaffinity(0)), hard, high - low + 1)


@dataclass(frozen=True)
class Need:
    """What so many minions need: memory in MB, seconds until all are ready, and files of one process of the master."""

    minions: int
    memory_mb: float
    ready_s: float
    files: int

    @classmethod
    def of(cls, minions: int, cores: int, *, pillars: bool) -> Self:
        """Estimate what `minions` need, with pillars from PostgreSQL or without."""
        ready = max(minions * CORE_S_PER_MINION / cores, minions / SIGN_INS_PER_S)
        return cls(minions, BASE_MB + minions * _mb(pillars=pillars), ready, minions + SPARE_FILES)

    @property
    def told(self) -> str:
        """Return the estimate in words."""
        return (
            f"{self.minions:,} minions need about {self.memory_mb / 1024:.1f} GB of memory, {_span(self.ready_s)} "
            f"until all are ready, and {self.files:,} open files in one process of the master"
        )


def check(minions: int, *, pillars: bool, machine: Machine | None = None) -> Need:
    """Return what so many minions need. Raises LimitError, which names all that is missing, if that is not there."""
    there = machine or Machine.here()
    need = Need.of(minions, there.cores, pillars=pillars)
    missing = []
    if need.memory_mb > there.memory_mb:
        missing.append(f"{there.memory_mb / 1024:.1f} GB of memory are available")
    if 0 <= there.files < need.files:
        missing.append(f"the hard limit of open files is {there.files:,} (as root: `ulimit -Hn {need.files}`)")
    if minions > there.ports:
        missing.append(
            f"one address can connect {there.ports:,} times to a port (see `sysctl net.ipv4.ip_local_port_range`; "
            "for more take several machines, docs/docker.md)"
        )
    if missing:
        raise LimitError(f"{need.told}, but {'; '.join(missing)}: take at most {most(there, pillars=pillars):,}.")
    return need


def most(machine: Machine, *, pillars: bool) -> int:
    """Return how many minions a machine can hold, rounded down to hundreds where there are as many."""
    limits = [int((machine.memory_mb - BASE_MB) * SPARE_MEMORY / _mb(pillars=pillars)), machine.ports]
    if machine.files >= 0:
        limits.append(machine.files - SPARE_FILES)
    found = max(0, min(limits))
    return found // 100 * 100 if found >= 100 else found  # noqa: PLR2004 - a hundred


def _mb(*, pillars: bool) -> float:
    """Return the memory of one minion in MB."""
    return (KB_PER_MINION + KB_PER_PILLAR * pillars) / 1024


def _span(seconds: float) -> str:
    """Return a time in words."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} minutes"  # noqa: PLR2004 - a minute and a half
