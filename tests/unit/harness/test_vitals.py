"""What is told of a process that does not get where it should."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from harness.processes import kernel
from harness.processes.command import Command
from harness.processes.deadline import Deadline, until
from harness.processes.processes import Processes, calls

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.processes.processes import Process

HANGS = """
import time

def wait_for_a_lock():
    time.sleep(1000)

print("up", flush=True)
wait_for_a_lock()
"""
BUSY = "print('up', flush=True)\nwhile True: pass"


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    """Yield the processes of a bed without any."""
    with Processes(tmp_path) as found:
        yield found


def start(processes: Processes, folder: Path, script: str, **environment: str) -> Process:
    """Start a Python program and wait until it is up."""
    command = Command("test", [sys.executable, "-c", script], {**os.environ, **environment}, folder / "out")
    process = processes.start("program", command)
    until(lambda: "up" in process.tail(), Deadline(20), lambda: "not up")
    return process


def test_process_that_hangs(processes: Processes, tmp_path: Path) -> None:
    """State, CPU time, the kernel's function and the stack are told, with the end of the log."""
    process = start(processes, tmp_path, HANGS, PYTHONFAULTHANDLER="1")
    said = process.late("The program does not answer", Deadline(60))
    first, *rest = said.splitlines()
    assert first.startswith(f"The program does not answer after 0 s. Process {process.pid}, when last seen: it is ")
    assert "sleeping" in first
    assert " s of CPU. The last lines of " in first
    assert rest[:2] == ["up", "Its stack, the latest call first:"]
    assert rest[2].endswith("in wait_for_a_lock")
    assert rest[3].endswith("in <module>")


def test_process_with_an_empty_log(processes: Processes, tmp_path: Path) -> None:
    """What says nothing is seen nevertheless, and its descendants with it; what is no Python process lives on."""
    command = Command("test", ["sh", "-c", "sleep 1001 & sleep 1001 & wait"], dict(os.environ), tmp_path / "out")
    process = processes.start("shell", command)
    # forked, executed, and both at rest in the same function of the kernel, which takes a moment on a busy machine
    until(
        lambda: "; its descendants: 2 x sleep sleeping" in kernel.describe(process.pid),
        Deadline(20),
        lambda: f"not asleep: {kernel.describe(process.pid)}",
    )
    said = process.late("The shell does not answer", Deadline(60))
    assert f". Its log {tmp_path}/out is empty." in said
    assert "; its descendants: 2 x sleep sleeping" in said
    assert process.running()


def test_process_that_has_ended(processes: Processes, tmp_path: Path) -> None:
    """What has ended is said to have ended."""
    process = processes.start("gone", Command("test", ["true"], dict(os.environ), tmp_path / "out"))
    process.wait(20)
    assert "when last seen: it has ended. Its log " in process.late("It does not answer", Deadline(60))


def test_cpu_time_grows(processes: Processes, tmp_path: Path) -> None:
    """The CPU time of a process that computes is progress."""
    process = start(processes, tmp_path, BUSY)
    before = kernel.cpu_s(process.pid)
    until(lambda: kernel.cpu_s(process.pid) > before + 0.1, Deadline(20), lambda: "no CPU time is counted")
    assert kernel.describe(process.pid).startswith("it is running, ")


def test_processes_are_told_by_their_titles() -> None:
    """Salt and PostgreSQL name their processes in the last word of the command line."""
    told = kernel.Vitals(7, "MWorker", "sleeping", 1.26, "do_epoll_wait")
    assert told.text == "sleeping in do_epoll_wait, 1.3 s of CPU"
    assert kernel.read(2**22 + 1) is None


def test_calls_of_a_stack() -> None:
    """Of all threads the one counts that the signal reached; eight calls are enough."""
    lines = [f'  File "x.py", line {number} in f{number}' for number in range(10)]
    text = "\n".join(
        [
            "Fatal Python error: Aborted",
            "",
            "Thread 0x01 (most recent call first):",
            '  File "other.py", line 1 in other',
            "",
            "Current thread 0x02 (most recent call first):",
            *lines,
            "",
            "Extension modules: zmq (total: 1)",
        ]
    )
    assert calls(text) == "\n".join(lines[:8])
    assert calls("Aborted") == ""
