"""What it takes to verify a large run: seconds and memory of the command, on samples that nobody ran.

The run has one return for each minion of each of a thousand jobs; the usual size is a million returns.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.benchmark import Benchmark
from benchmarks.errors import BenchmarkError
from benchmarks.figure import Figure, Samples, at_most
from benchmarks.turns import interleave
from harness.paths import ROOT
from harness.results import synthetic

if TYPE_CHECKING:
    from benchmarks.options import Options

JOBS = 1000
RATE = 10
# the command, which then prints the peak of its memory: what the kernel tells the parent includes the parent's own
COMMAND = """
import sys
from harness.__main__ import main
code = main(sys.argv[1:])
with open("/proc/self/status") as file:
    print(next(line.split()[1] for line in file if line.startswith("VmHWM")))
sys.exit(code)
"""
SECONDS = Figure("seconds", "verifying 1,000 jobs of {minions} minions", "s", "max", aim=at_most(30))
MEMORY = Figure("memory", "memory of that, at its highest", "MB", "max", aim=at_most(500))


def run(options: Options) -> dict[Figure, Samples]:
    """Write the run once, and verify it `options.rounds` times, each in a process of its own."""
    with TemporaryDirectory(prefix="saltbed-") as name:
        folder = synthetic.write(Path(name), synthetic.Shape(options.minions, JOBS, RATE))
        found = interleave({"ours": lambda _: _verify(folder)}, options)["ours"]
    return {SECONDS: Samples([seconds for seconds, _ in found]), MEMORY: Samples([memory for _, memory in found])}


def _verify(folder: Path) -> tuple[float, float]:
    """Return the seconds that the command takes, and the most memory in MB that it has."""
    argv = [sys.executable, "-c", COMMAND, "verify", str(folder)]
    start = time.perf_counter()
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise BenchmarkError(f"`verify` ended with exit code {done.returncode}: {done.stdout}{done.stderr}")
    return seconds, int(done.stdout.splitlines()[-1]) / 1024


VERIFY = Benchmark(
    name="verify",
    about="verifying a run of a million returns",
    run=run,
    figures=(SECONDS, MEMORY),
    minions=1000,
    rounds=3,
    minutes=3,
)
