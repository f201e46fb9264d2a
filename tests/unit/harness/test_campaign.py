"""What a load run writes down before and beside its samples."""

from __future__ import annotations

import io
import json
import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from harness.commands import campaign
from harness.containers.backend import ContainerSettings
from harness.errors import RunError, SettingsError
from harness.load import run as load
from harness.progress import Progress
from harness.results import runs, trees
from tests.unit.harness import repeated_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.load.backend import Job


def test_no_environment_in_a_container(tmp_path: Path) -> None:
    """A Salt with an environment of its own is refused for containers, before a folder of a run is made."""
    (tmp_path / "made" / "bin").mkdir(parents=True)
    (tmp_path / "made" / "bin" / "salt-master").touch()
    wanted = ContainerSettings(base="debian-python:bookworm")
    request = campaign.RunRequest("quick", (str(tmp_path / "made"),), tmp_path / "runs", "x", docker=wanted)
    with pytest.raises(SettingsError, match="has a Python of its own, which can't go into a container: give stock"):
        campaign.run(request, Progress(io.StringIO()), datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_facts_of_a_run_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tree and PostgreSQL are in `environment.json`, also of a run that fails later."""
    tree = tmp_path / "tree"
    (tree / "scripts").mkdir(parents=True)
    (tree / "scripts" / "salt-master").write_text("")

    def failing(*arguments: object) -> None:
        told: Callable[[str], None] = arguments[3]  # type: ignore[assignment]  # any of the arguments
        told("binaries of this machine")
        raise RunError("no luck")

    monkeypatch.setattr(load, "run", failing)
    request = campaign.RunRequest("quick", (str(tree),), tmp_path / "runs", "python -m harness load")
    with pytest.raises(RunError):
        campaign.run(request, Progress(io.StringIO()), datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    folder = tmp_path / "runs" / "20260102T030405Z-quick"
    facts = json.loads((folder / "environment.json").read_text())
    assert facts["bed"] == {"made_of": "processes", "postgresql": {"other": "binaries of this machine"}}
    assert (len(facts["trees"]["other"]["hash"]), facts["trees"]["other"]["edited"]) == (64, None)
    assert runs.read(folder).status == "failed"


@pytest.mark.parametrize("trees", [("a", "b"), ("a", "b", "c")])
def test_turns_are_fair(trees: tuple[str, ...]) -> None:
    """Each tree is as often first as it is last, and the orders are those in which a steady change cancels out."""
    count = max(4, 2 * len(trees))
    orders = [campaign.turn(trees, number) for number in range(count)]
    assert all(sorted(order) == list(trees) for order in orders)
    everything = [tree for order in orders for tree in order]
    places = {tree: sum(place for place, name in enumerate(everything) if name == tree) for tree in trees}
    assert len(set(places.values())) == 1
    assert {tree: [order[0] for order in orders].count(tree) for tree in trees} == dict.fromkeys(trees, 2)
    assert orders[:2] == [list(trees), list(trees[::-1])]


@pytest.mark.slow
def test_repeats_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same tree twice, in two repeats, is four runs in counterbalanced order, one result and one latest run."""
    jobs: list[Job] = []

    def finished(job: Job, *_: object) -> None:
        jobs.append(job)
        shutil.copytree(repeated_run.RUN / "stock", job.folder)

    monkeypatch.setattr(load, "run", finished)
    monkeypatch.setattr(campaign, "find", lambda tree: (tree, tmp_path))
    output = io.StringIO()
    request = campaign.RunRequest("quick", ("stock", "stock"), tmp_path / "runs", "load", repeats=2)
    made = campaign.run(request, Progress(output), datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    places = [(job.name, str(job.folder.relative_to(made.folder))) for job in jobs]
    assert places == [
        ("stock", "stock"),
        ("stock-2", "stock-2"),
        ("stock-2", "repeat-2/stock-2"),
        ("stock", "repeat-2/stock"),
    ]
    assert "stock-2: repeat 2 of 2" in output.getvalue()
    assert runs.find(None, tmp_path / "runs") == made.folder
    assert (made.folder / "report.html").is_file()
    (pair,) = made.result.differences
    assert (pair.control, pair.runs, pair.different) == (True, (2, 2), ())


def test_trees_of_folders(tmp_path: Path) -> None:
    """Two folders are two trees, whose place is among the facts; a folder that is no Salt is refused."""
    for name in ("a", "b"):
        (tmp_path / name / "scripts").mkdir(parents=True)
        (tmp_path / name / "scripts" / "salt-master").write_text(name)
    found = campaign.labelled([str(tmp_path / "a"), str(tmp_path / "b")])
    assert found == {"other": tmp_path / "a", "other-2": tmp_path / "b"}
    facts = trees.facts(found)
    assert facts["other-2"]["folder"] == str(tmp_path / "b")
    assert facts["other"]["hash"] != facts["other-2"]["hash"]
    with pytest.raises(SettingsError, match="neither a tree of Salt"):
        campaign.labelled([str(tmp_path / "a"), str(tmp_path)])
