"""What is done beside a master with its own Salt: programs of ours that run with the tree's Python path."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from harness.errors import RunError
from harness.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from harness.bed import Bed

JOB_CACHE_S = 300.0
# the master's maintenance looks for the request once every `loop_interval`, which is a minute unless told otherwise
ROTATE_S = 90.0
START_S = 30.0


def rotate_keys(bed: Bed) -> None:
    """Have the bed's master rotate its publication key, and wait until it has; raise RunError if it does not."""
    _run(bed, "rotate", ["harness.load.rotate", str(bed.master.config_dir), str(ROTATE_S)], ROTATE_S + START_S)


def read_job_cache(bed: Bed, jids: Sequence[str], kept: Path) -> None:
    """Write the returns of `jids` that the master's job cache holds into the file `kept`."""
    _ask_job_cache(bed, "kept", jids, kept)


def read_accepted(bed: Bed, functions: Sequence[str], accepted: Path) -> None:
    """Write the jobs of `functions` that the master's job cache holds into the file `accepted`."""
    _ask_job_cache(bed, "accepted", functions, accepted)


def read_runners(bed: Bed, jobs: Sequence[str], output: Path) -> None:
    """Write the answers of asynchronous runners that the job cache holds into the file `output`."""
    _ask_job_cache(bed, "runners", jobs, output)


def _ask_job_cache(bed: Bed, what: str, names: Sequence[str], output: Path) -> None:
    asked = bed.temporary / what
    asked.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    argv = ["harness.load.jobcache", str(bed.master.config_dir), what, str(asked), str(output)]
    _run(bed, "jobcache", argv, JOB_CACHE_S)


def _run(bed: Bed, name: str, argv: Sequence[str], seconds: float) -> None:
    """Run a program to its end; raise RunError, with the last line that it printed, if it fails."""
    # a Salt with an environment of its own needs no path, but its own Python
    found = (bed.environment.get("PYTHONPATH"), str(ROOT))
    environment = {**bed.environment, "PYTHONPATH": os.pathsep.join(filter(None, found))}
    process = bed.spawn(name, [bed.tree.python(), "-m", *argv], env=environment, role="harness")
    if code := process.wait(seconds):
        raise RunError(f"The program {argv[0]} failed (exit code {code}), see {process.log}: {process.tail(1)}")
