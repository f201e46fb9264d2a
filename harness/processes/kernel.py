"""What the kernel knows of processes: who descends from whom, who has ended; and signals to them.

Only the standard library is imported: the warden and the reaper of a bed stay small.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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


def processes() -> Iterator[tuple[int, int]]:
    """Yield every process of the machine with its parent."""
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # the name of a command may hold spaces and parentheses, so the fields are counted from its end
                fields = Path(entry.path, "stat").read_bytes().rpartition(b")")[2].split()
                yield int(entry.name), int(fields[1])


def descendants(root: int) -> set[int]:
    """Return the processes below `root`."""
    children: dict[int, list[int]] = {}
    for pid, parent in processes():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    new = list(children.get(root, []))
    while new:
        found.update(new)
        new = [child for pid in new for child in children.get(pid, []) if child not in found]
    return found


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
        children = [pid for pid, parent in processes() if parent == me]
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
