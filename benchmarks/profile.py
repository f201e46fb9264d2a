"""Profiles of a master's processes: py-spy writes a file of each that https://www.speedscope.app opens.

A benchmark that is asked for them takes them in rounds of their own: a process that is sampled is slower.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from benchmarks.benchmark import BenchmarkError
from harness.processes.monitor import title_role

if TYPE_CHECKING:
    from collections.abc import Iterator

RATE = 200
STOP_S = 30
# longer than any profile takes; the file is written when the sampling ends
LONGEST_S = 3600


def processes(root: int) -> dict[int, str]:
    """Return the role of each process of the master whose first process is `root`, by its id."""
    first = psutil.Process(root)
    found: dict[int, str] = {}
    for one in (first, *first.children(recursive=True)):
        # a command that a worker has called may end at any moment
        with suppress(psutil.NoSuchProcess):
            found[one.pid] = title_role(" ".join(one.cmdline()).rstrip())
    return found


def cpu_s(root: int) -> dict[str, float]:
    """Return the CPU seconds that a master has used so far, by role."""
    used: dict[str, float] = {}
    for pid, role in processes(root).items():
        with suppress(psutil.NoSuchProcess):
            times = psutil.Process(pid).cpu_times()
            used[role] = used.get(role, 0.0) + times.user + times.system
    return used


def sampler() -> str:
    """Return where py-spy is; raises BenchmarkError if it is not there."""
    beside = Path(sys.executable).parent / "py-spy"
    found = str(beside) if beside.exists() else shutil.which("py-spy")
    if found is None:
        raise BenchmarkError("A profile needs py-spy: install it with `build/venv/bin/python -m pip install py-spy`.")
    return found


@contextmanager
def profiled(root: int, folder: Path) -> Iterator[None]:
    """Sample every process of a master while the context is open; write `<role>-<pid>.json` of each below `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sampler(), "record", "--nonblocking", "--format", "speedscope", "--rate", str(RATE)]
    running = []
    for pid, role in processes(root).items():
        output = str(folder / f"{role}-{pid}.json")
        argv = [*command, "--duration", str(LONGEST_S), "--pid", str(pid), "--output", output]
        running.append(subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
    try:
        yield
    finally:
        said = []
        for one in running:
            one.send_signal(signal.SIGINT)
        for one in running:
            try:
                errors = one.communicate(timeout=STOP_S)[1]
            except subprocess.TimeoutExpired:
                one.kill()
                errors = one.communicate()[1]
            if one.returncode:
                said.append(errors.strip().splitlines()[-1] if errors.strip() else "py-spy wrote nothing")
    if said:
        raise BenchmarkError(f"py-spy could not sample every process, try again as root: {said[0]}")
