"""Figures of real runs against what is known to have happened: nothing is called lost that is not."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from evil_minions.samples import read_tallies
from harness import samples
from harness.results import result, runs
from harness.samples import AcceptedJob, FleetSample

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

SLEEPS = """
description = "Asynchronous sleeps on twenty minions"
minions = 20
pillar = "none"
settle_s = {settle}

[[clients]]
name = "sleeps"
kind = "api"
function = "test.sleep"
args = [{seconds}]
tgt = "*"
mode = "async"
burst = {jobs}
"""
QUEUE = """
[trees.patched.master.rate_limiting]
criteria = "capacity"
max_master_jobs = 20

[thresholds]
publications_per_job = { max = 1 }
"""
DEATHS = """
[[clients]]
name = "pings"
kind = "api"
function = "test.ping"
tgt = "*"
mode = "async"
burst = 2
start_s = 8

[[timeline]]
at_s = 4
do = "kill"
share = 0.25
"""
PARTS = ("returns_kept", "never_reached", "returns_unfinished", "returns_lost")


def _load(
    root: Path, folder: Path, tree: str, text: str
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any], Path]:
    (folder / "mine.toml").write_text(text)
    command = [sys.executable, "-m", "harness", "load", "--scenario", str(folder / "mine.toml"), "--tree", tree]
    done = subprocess.run(
        [*command, "--folder", str(folder / "runs")], cwd=root, capture_output=True, text=True, check=False, timeout=580
    )
    assert done.returncode in {0, 1}, done.stderr
    run = runs.find(None, folder / "runs")
    return done, result.load(run)["trees"][tree], run / tree / "samples"


def test_settling_waits_for_what_is_executed(root: Path, stock: Path, tmp_path: Path) -> None:
    """Three sleeps of eight seconds on twenty minions are over when all sixty returns have come: nothing was lost."""
    assert stock.is_dir()
    done, found, folder = _load(root, tmp_path, "stock", SLEEPS.format(settle=60, seconds=8, jobs=3))
    assert done.returncode == 0
    assert found["settled_in_time"]
    assert [found[name] for name in ("returns_expected", *PARTS)] == [60, 60, 0, 0, 0]
    # nothing moved for far longer than the two quiet seconds, as the fleet's samples say
    assert max(row.executing for row in samples.read(folder, FleetSample)) == 60
    assert found["client_latency_s"] == {"p50": found["client_latency_s"]["p50"], "p95": None, "p99": None, "n": 3}


def test_jobs_in_the_masters_queue_are_followed(root: Path, tmp_path: Path) -> None:
    """A master that has published a few of ten jobs when the limit ends the run owes the returns of all ten."""
    done, found, folder = _load(root, tmp_path, "patched", SLEEPS.format(settle=10, seconds=5, jobs=10) + QUEUE)
    assert done.returncode == 1
    assert not found["settled_in_time"]
    assert found["jobs_requested"] == found["jobs_accepted"] == len(samples.read(folder, AcceptedJob)) == 10
    assert 0 < found["publications"] < 10
    assert found["jobs_unpublished"] == 10 - found["publications"]
    assert found["never_reached"] >= 20 * found["jobs_unpublished"]
    assert found["returns_expected"] == sum(found[name] for name in PARTS) == 200
    assert found["returns_lost"] == 0
    missed = (
        f"MISSED: patched publications_per_job is {found['publications'] / 10:g}, has to be at least 1 and at most 1"
    )
    assert missed in done.stdout


@pytest.mark.long
def test_the_dead_are_not_lost(root: Path, stock: Path, tmp_path: Path) -> None:
    """Five of twenty minions die in the middle of a sleep, and then are pinged twice: unfinished and never reached."""
    assert stock.is_dir()
    _, found, folder = _load(root, tmp_path, "stock", SLEEPS.format(settle=60, seconds=15, jobs=1) + DEATHS)
    assert found["settled_in_time"]
    tallies = read_tallies(folder / "fleet")
    assert sum(row.targeted for row in tallies if row.fun == "test.ping") == 40
    # on a machine that was so busy that the sleep came after the deaths, it never reached the dead
    assert found["returns_unfinished"] == sum(row.ended for row in tallies) in {0, 5}
    assert found["never_reached"] == 15 - found["returns_unfinished"]
    assert [found[name] for name in ("returns_expected", "returns_kept", "returns_lost")] == [60, 45, 0]
