"""Scenarios that nobody thought of: on both trees the figures are those of an oracle that shares no code with them."""

from __future__ import annotations

import io
import shutil
from dataclasses import asdict
from typing import TYPE_CHECKING

import pytest

from harness.commands import campaign
from harness.load import run
from harness.load.backend import Job, LocalBackend
from harness.progress import Progress
from harness.results import evidence, figures
from harness.scenarios import scenario as scenarios
from tests.live.helpers import job_oracle, random_scenarios

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = pytest.mark.live

SCENARIOS = 20
# of these the ordinary live tests run the first ones
FEW = 1
CACHE = "job-cache"


class Watched(LocalBackend):
    """A bed whose job cache is kept as it was when the run read it."""

    def read_cache(self, what: str, names: Sequence[str]) -> None:
        """Read it, and copy its files at the end."""
        super().read_cache(what, names)
        if what == "kept":
            shutil.copytree(self._bed.master.job_cache, self._job.folder / CACHE)


def check(seed: int, tree: str, folder: Path) -> None:
    """Run the scenario of a seed on a tree, and hold its figures against the oracle."""
    file = folder / "scenario.toml"
    file.write_text(random_scenarios.scenario(seed))
    scenario = scenarios.load(file)
    name, path = campaign.find(tree)
    job = Job(name, path, scenario, file, folder / name, folder)
    run.run(job, Progress(io.StringIO()), Watched)
    samples = evidence.read(job.samples)
    log = job.folder / "logs" / "master.log"
    settled = samples.timeline.settled
    expected = job_oracle.of_run(job.folder / CACHE, log, job.samples / "fleet", scenario.functions, settled)
    found = figures.of_tree(samples, scenario)
    assert {key: found[key] for key in asdict(expected)} == asdict(expected), file.read_text()


@pytest.mark.parametrize("tree", ["stock", "patched"])
@pytest.mark.parametrize("seed", range(FEW))
def test_random_scenario(seed: int, tree: str, tmp_path: Path) -> None:
    """Jobs accepted, returns expected, kept and lost, and minions never reached are what the oracle says."""
    check(seed, tree, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("tree", ["stock", "patched"])
@pytest.mark.parametrize("seed", range(FEW, SCENARIOS))
def test_random_scenarios(seed: int, tree: str, tmp_path: Path) -> None:
    """As `test_random_scenario`, for many more."""
    check(seed, tree, tmp_path)
