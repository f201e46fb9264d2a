"""The parent of a bed's warden, which ends what a warden that was killed has left.

A process whose parent died, and that left its group and its session, arrives here: the reaper is a child subreaper,
which the kernel makes the parent of orphans.
"""

from __future__ import annotations

import os
import signal
import time

from harness.processes.kernel import TICK_S, kill_children, processes, reap, send

ASK_S = 10.0
"""How long the processes that a killed warden left may take to stop."""
SIGNAL_S = 0.5


def wait_for(warden: int) -> None:
    """Wait for the warden's end, then for the processes that it left, and kill those that stay."""
    while warden not in reap():
        received = signal.sigtimedwait([signal.SIGCHLD, signal.SIGTERM], SIGNAL_S)
        if received is not None and received.si_signo == signal.SIGTERM:
            os.kill(warden, signal.SIGTERM)
    end = time.monotonic() + ASK_S
    asked: set[int] = set()
    # a warden that was killed leaves processes that the kernel has told to stop, and orphans that it has not
    while time.monotonic() < end and (left := {pid for pid, parent in processes() if parent == os.getpid()}):
        send(left - asked, signal.SIGTERM)
        asked |= left
        signal.sigtimedwait([signal.SIGCHLD], TICK_S)
        reap()
    kill_children()
