"""What a load run makes of a bed that does not come up, and of a fleet that was asked for something unknown."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from harness.errors import MasterError, ScenarioError
from harness.load import run
from harness.load.stage import Job
from harness.progress import Progress
from harness.scenarios import scenario

if TYPE_CHECKING:
    from harness.load.stage import Stage

QUICK = scenario.load(scenario.find("quick"))


def _job(folder: Path, found: scenario.Scenario) -> Job:
    return Job("stock", Path(), found, folder / "scenario.toml", folder / "stock", folder)


class Broken:
    """A bed whose master does not start."""

    def __enter__(self) -> None:
        """Fail."""
        raise MasterError("salt-master ended with exit code 1.")

    def __exit__(self, *error: object) -> None:
        """Do nothing."""


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "^salt-master ended with exit code 1.$"),
        (
            {"worker_threads": "abc"},
            r"with the scenario's table `\[master\]` \(worker_threads\): check these options first. salt-master ended",
        ),
    ],
)
def test_master_that_does_not_start(tmp_path: Path, options: dict[str, object], expected: str) -> None:
    """The scenario's own options of the master are named, if it has any."""
    job = _job(tmp_path, replace(QUICK, master=options))
    with pytest.raises(MasterError, match=expected):
        run.run(job, Progress(io.StringIO()), lambda _: cast("Stage", Broken()))


def _fleet(unknown: dict[str, str]) -> Any:  # noqa: ANN401 - a part of a fleet
    return SimpleNamespace(unknown=lambda _: unknown)


def test_unknown_function(tmp_path: Path) -> None:
    """A function that no minion knows is refused, with the nearest one that they know."""
    expected = r"do not know the function test.pnig \(`unknown_functions = \"allow\"` .*: did you mean test.ping\?$"
    with pytest.raises(ScenarioError, match=expected):
        run._check_functions(_job(tmp_path, QUICK), _fleet({"test.pnig": "test.ping"}))


def test_unknown_function_that_is_meant(tmp_path: Path) -> None:
    """A scenario may ask for functions that no minion knows."""
    run._check_functions(_job(tmp_path, replace(QUICK, unknown_allowed=True)), _fleet({"test.pnig": "test.ping"}))


def test_known_functions(tmp_path: Path) -> None:
    """Nothing is said of functions that the fleet knows."""
    run._check_functions(_job(tmp_path, QUICK), _fleet({}))
