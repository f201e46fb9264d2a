"""Processes that stand still for a while, as they do on a machine that is suspended or far too busy."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from harness.processes import kernel
from harness.processes.deadline import Deadline, until

if TYPE_CHECKING:
    from collections.abc import Iterator

HALT_S = 60.0


def halt(pid: int) -> None:
    """Let a process stand still.

    SIGSTOP comes to pass when the process is next given a CPU, which takes a while on a busy machine. Signals that come
    meanwhile are taken before it where their numbers are lower, as SIGTERM's is, and SIGCONT takes it back. So the
    kernel is asked whether the process stands still.
    """
    os.kill(pid, signal.SIGSTOP)
    until(
        lambda: (seen := kernel.read(pid)) and seen.halted,
        Deadline(HALT_S),
        lambda: f"Process {pid} does not stop: {kernel.describe(pid)}.",
    )


@contextlib.contextmanager
def halted(pid: int) -> Iterator[None]:
    """Let a process stand still, and go on afterwards."""
    try:
        halt(pid)
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def pending(pid: int, number: signal.Signals) -> bool:
    """Return whether a process has a signal that it has not taken yet."""
    masks = re.findall(r"^(?:Sig|Shd)Pnd:\s*(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return any(int(mask, 16) >> (number - 1) & 1 for mask in masks)
