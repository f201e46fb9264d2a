"""What making the patched tree takes: in a copy of the project, from the source distribution that is here already."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.benchmark import Benchmark, BenchmarkError, Figure, Samples, interleave
from harness.paths import ROOT

if TYPE_CHECKING:
    from benchmarks.benchmark import Options

FRESH = Figure("fresh", "the tree from the cached source distribution", "s")
AGAIN = Figure("again", "the tree again, nothing to do", "s")
LIMIT_S = 300


def run(options: Options) -> dict[Figure, Samples]:
    """Make the tree from nothing and then once more, `options.rounds` times."""

    def turn(_: int) -> tuple[float, float]:
        with TemporaryDirectory(prefix="saltbed-") as name:
            _copy(Path(name))
            return _apply(Path(name)), _apply(Path(name))

    found = interleave({"ours": turn}, options)["ours"]
    return {FRESH: Samples([fresh for fresh, _ in found]), AGAIN: Samples([again for _, again in found])}


def _copy(folder: Path) -> None:
    """Copy the patch set and our files below salt/; what was downloaded is shared."""
    done = subprocess.run(["git", "ls-files", "-z", "salt"], cwd=ROOT, capture_output=True, text=True, check=False)
    names = [name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]
    if done.returncode or not names or not (ROOT / "build" / "sdists").is_dir():
        raise BenchmarkError("The tree can only be made again in a git checkout: clone the project and run this there.")
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "patches", folder / "patches", ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    (folder / "build").mkdir()
    for name in ("sdists", "venv"):
        (folder / "build" / name).symlink_to(ROOT / "build" / name)


def _apply(folder: Path) -> float:
    """Return the seconds that the command takes."""
    start = time.perf_counter()
    argv = [sys.executable, "-m", "patches", "apply", "--root", str(folder)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    if done.returncode:
        raise BenchmarkError(f"The tree could not be made: {done.stderr.strip()}")
    return time.perf_counter() - start


SET_UP = Benchmark(
    name="set-up",
    about="making the patched tree",
    run=run,
    figures=(FRESH, AGAIN),
    minions=1,
    rounds=3,
    minutes=0.5,
)
