"""A process that is asked to stand still does, before anything else is done to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import ExitStack

import pytest

from harness.processes import kernel
from harness.processes.deadline import Deadline, until
from tests.halts import HALT_S, halted, pending

pytestmark = pytest.mark.slow

TRIES = 20
BUSY = "print(flush=True)\nwhile True: pass"
ASKED = "import signal\nsignal.signal(signal.SIGTERM, lambda *_: None)\nprint(flush=True)\nwhile True: signal.pause()"


def started(stack: ExitStack, code: str) -> subprocess.Popen[str]:
    """Start a Python process that is killed in the end, and wait until it runs."""
    process = stack.enter_context(subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True))
    stack.callback(process.kill)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_signals_after_it_wait() -> None:
    """Where the CPU is wanted by others, a SIGTERM that comes after the SIGSTOP waits until the process goes on."""
    with ExitStack() as stack:
        found = started(stack, ASKED)
        # the others share its CPU, and come before it
        os.setpriority(os.PRIO_PROCESS, found.pid, os.getpriority(os.PRIO_PROCESS, 0) + 10)
        cpu = {min(os.sched_getaffinity(0))}
        for process in (found, *(started(stack, BUSY) for _ in range(3))):
            os.sched_setaffinity(process.pid, cpu)
        for _ in range(TRIES):
            with halted(found.pid):
                found.terminate()
                until(lambda: (seen := kernel.read(found.pid)) and seen.halted, Deadline(HALT_S), lambda: "it goes on")
                assert pending(found.pid, signal.SIGTERM)
