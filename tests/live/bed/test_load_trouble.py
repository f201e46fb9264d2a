"""A timeline against a real master, and the scenario that the documentation tells newcomers to write."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from harness.results import evidence, runs

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.live

TROUBLE = """
description = "A small day of trouble"
minions = 40
pillar = "none"
settle_s = 40
master = { loop_interval = 1 }

[[clients]]
name = "ping all"
kind = "api"
function = "test.ping"
tgt = "*"
timeout_s = 3
rate = 0.5
duration_s = 14
arrival = "constant"

[[timeline]]
at_s = 1
do = "scale"
minions = 60
[[timeline]]
at_s = 4
do = "kill"
share = 0.1
[[timeline]]
at_s = 5
do = "partition"
share = 0.5
for_s = 3
[[timeline]]
at_s = 10
do = "rotate-keys"
name = "new keys"
[[timeline]]
at_s = 12
do = "revive"
"""


def _load(root: Path, folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "mine.toml").write_text(text)
    command = [sys.executable, "-m", "harness", "load", "--scenario", str(folder / "mine.toml"), "--tree", "stock"]
    return subprocess.run(
        [*command, "--folder", str(folder / "runs")], cwd=root, capture_output=True, text=True, check=False, timeout=250
    )


@pytest.mark.long
def test_a_day_of_trouble(root: Path, tmp_path: Path) -> None:
    """Every moment comes when it is due and does what it says, and the report shows it on plots and in a list."""
    done = _load(root, tmp_path, TROUBLE)
    assert done.returncode == 0, done.stderr
    folder = runs.find(None, tmp_path / "runs")
    found = evidence.read(folder / "stock" / "samples")
    moments = found.moments
    assert [(moment.do, moment.minions, moment.error) for moment in moments] == [
        ("scale", 20, ""),
        ("kill", 6, ""),
        ("partition", 30, ""),
        ("heal", 30, ""),
        ("rotate-keys", 0, ""),
        ("revive", 6, ""),
    ]
    zero = found.timeline.load_start
    assert all(moment.time - zero >= moment.at_s - 0.01 for moment in moments)
    fleet = [row for row in found.fleet if row.time > zero]
    assert max(row.minions for row in fleet) == fleet[-1].minions == 60
    assert min(row.connected for row in fleet if row.time > moments[1].time) <= 54
    page = (folder / "report.html").read_text()
    assert '<td class="text">new keys</td><td class="text">rotate-keys</td><td>master</td>' in page
    # once on each plot over time: of CPU, of memory, of returns, of requests and of minions
    assert page.count("> new keys <") == 5
