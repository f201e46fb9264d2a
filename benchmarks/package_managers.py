"""Package states on real apt, dnf and zypper: a run with thirty packages and their locks, beside the manager alone.

Each manager works in an overlay over this machine, which needs root; dnf and zypper are Debian's packages, installed
there. Both refresh the lists, install, and lock; the second time there is nothing left to do.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.benchmark import Benchmark
from benchmarks.errors import BenchmarkError
from benchmarks.figure import Figure, Samples, at_most
from harness.paths import ROOT

if TYPE_CHECKING:
    from benchmarks.options import Options

MANAGERS = ("apt", "dnf", "zypper")
RUNS = ("first", "second")
SCRIPT = Path(__file__).parent / "tasks" / "package_root.sh"
PACKAGES = 30
TIME_S = 1200
# what a run may take: so many times as long as the manager alone, and seconds of Salt's own
TIMES, SALT_S = 1.5, 1.0

TOOK = {
    (manager, run): Figure(f"{manager}-{run}", f"{PACKAGES} packages, {run} run: Salt, {manager} alone", "s")
    for manager in MANAGERS
    for run in RUNS
}
SHARE = {
    (manager, run): Figure(
        f"{manager}-{run}-share", f"{run} run / ({TIMES:g} x {manager} alone + {SALT_S:g} s)", "x", aim=at_most(1)
    )
    for manager in MANAGERS
    for run in RUNS
}


def run(options: Options) -> dict[Figure, Samples]:
    """Let Salt and each manager alone install and lock thirty packages, in turns; raise BenchmarkError without root."""
    if os.geteuid():
        raise BenchmarkError(
            "An overlay needs root; run it as root: sudo build/nox/bin/nox -s bench -- package-managers"
        )
    samples: dict[Figure, Samples] = {}
    for number, manager in enumerate(MANAGERS, 1):
        found = _measure(manager, options.rounds)
        for name in RUNS:
            ours, alone = found[name], found[f"{name}_alone"]
            samples[TOOK[manager, name]] = Samples(ours, alone)
            shares = [mine / (TIMES * theirs + SALT_S) for mine, theirs in zip(ours, alone, strict=True)]
            samples[SHARE[manager, name]] = Samples(shares)
        options.progress(number, len(MANAGERS))
    return samples


def _measure(manager: str, rounds: int) -> dict[str, list[float]]:
    """Return what `benchmarks.tasks.packages` says in a root of its own."""
    machine = Path("/").stat().st_dev
    needed = dict.fromkeys((ROOT, Path(sys.prefix), Path(sys.base_prefix)))
    folders = " ".join(str(path) for path in needed if path.stat().st_dev != machine)
    with TemporaryDirectory(prefix="saltbed-") as top:
        space = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--propagation", "private"]
        inside = ["sh", str(SCRIPT), top, manager, sys.executable, "-m", "benchmarks.tasks.packages"]
        done = subprocess.run(
            [*space, "--fork", "--kill-child", *inside, manager, str(rounds)],
            env={**os.environ, "FOLDERS": folders, "PROJECT": str(ROOT), "HOME": "/root"},
            capture_output=True,
            text=True,
            timeout=TIME_S,
            check=False,
        )
    if done.returncode:
        raise BenchmarkError(f"{manager} can't be measured: {done.stderr.strip()[-600:]}")
    found: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return found


PACKAGE_MANAGERS = Benchmark(
    name="package-managers",
    about="30 packages and their locks on real apt, dnf and zypper, beside the manager alone",
    run=run,
    figures=(*TOOK.values(), *SHARE.values()),
    minions=1,
    rounds=5,
    minutes=4,
)
