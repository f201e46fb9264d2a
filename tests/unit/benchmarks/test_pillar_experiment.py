"""The RFC's experiment keeps its rounds, and goes on with them after it was stopped."""

from __future__ import annotations

import fcntl
import json
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks import pillar_experiment, pillar_page
from benchmarks.__main__ import main
from benchmarks.pillar_rounds import Kept, Round, Run, Sitting
from harness.errors import StartError
from tests.unit.benchmarks.conftest import MACHINE

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.options import Options
    from benchmarks.pillar_methods import Method

CASES = 14
BEDS = 26
KEPT = "Rounds that were done are kept: go on with --resume."
HERE = {**MACHINE, "versions": {"pyzmq": "1"}}


class Beds:
    """Stands for the beds: each round takes another time, and each bed has fewer connections than the one before."""

    def __init__(self) -> None:
        """Let every bed run to its end."""
        self.asked: list[tuple[str, str, int, int]] = []
        self.rounds = 0
        # the bed that fails, and how
        self.fails: int | None = None
        self.error: BaseException = KeyboardInterrupt()

    def __call__(self, method: Method, tree: str, workers: int, options: Options) -> Sitting:
        """Run so many rounds."""
        if len(self.asked) == self.fails:
            raise self.error
        self.asked.append((method.key, tree, workers, options.rounds))
        first, self.rounds = self.rounds, self.rounds + options.rounds
        rounds = [Round(float(number), 1.0, 1.0, 0) for number in range(first, self.rounds)]
        return Sitting(f"2026-11-25T10:{len(self.asked):02}", 100 - len(self.asked), rounds)


@pytest.fixture
def beds(monkeypatch: pytest.MonkeyPatch) -> Beds:
    """Return what stands for the beds, on a machine and with trees that are always the same."""
    found = Beds()
    monkeypatch.setattr(pillar_experiment, "_bed", found)
    for module in ("benchmarks.pillar_experiment", "benchmarks.__main__"):
        monkeypatch.setattr(f"{module}.here", lambda: HERE)
    monkeypatch.setattr(pillar_experiment, "content_hash", lambda *_: "3")
    # drawing takes long, and there is a page for each case
    monkeypatch.setattr(pillar_page, "_dots", lambda *_: "")
    return found


def figures(output: Path) -> dict[str, dict[str, Any]]:
    """Return the figures of the measurement, by their names."""
    found = json.loads((output / "pillar-experiment.json").read_text())
    return {figure["key"]: figure for figure in found["figures"]}


def times(output: Path, tree: str = "ours") -> list[float]:
    """Return the times of the second case, files with 8 workers."""
    return [float(value) for value in figures(output)["items-files-8"]["samples"][tree]]


def test_interrupted_run_goes_on(beds: Beds, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was done stays; a case of which one tree was done is run again, and missing rounds are added to all."""
    argv = ["pillar-experiment", "--rounds", "2", "--output", str(tmp_path)]
    # the last one whose rounds are lost is stock's with the function
    beds.fails = 5
    assert main(argv) == 130
    assert capsys.readouterr().err == f"bench: interrupted; no measurement was written. {KEPT}\n"
    assert not (tmp_path / "pillar-experiment.json").exists()
    beds.fails = None
    assert main([*argv, "--resume"]) == 0
    # the bed that was lost, again
    assert len(beds.asked) == BEDS + 1
    assert beds.asked[4] == beds.asked[5] == ("rfc", "stock", 8, 2)
    assert (times(tmp_path, "stock"), times(tmp_path)) == ([4.0, 5.0], [6.0, 7.0])
    assert {figure["n"] for key, figure in figures(tmp_path).items() if key.startswith(("items", "cpu"))} == {2}

    # three more rounds
    argv[2] = "5"
    assert main([*argv, "--resume"]) == 0
    assert [rounds for *_, rounds in beds.asked[BEDS + 1 :]] == [3] * BEDS
    # 27 beds of two rounds, then three beds of three
    assert times(tmp_path) == [6.0, 7.0, 63.0, 64.0, 65.0]
    # the function's, ours: the seventh bed
    assert figures(tmp_path)["connections-8"]["ours"] == 100 - 7
    page = (tmp_path / "pillar-experiment.html").read_text()
    assert "5 rounds" in page
    assert "begun on 2026-11-25T10:01, the last on 2026-11-25T10:53" in page
    assert json.loads((tmp_path / "pillar-experiment.json").read_text())["command"].endswith("--rounds 5 --resume")


def test_bed_that_fails(beds: Beds, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who has lost a bed after hours is told that the others are not lost."""
    beds.fails, beds.error = 3, StartError("Not all of 1001 minions answered.")
    assert main(["pillar-experiment", "--output", str(tmp_path)]) == 3
    assert capsys.readouterr().err == f"bench: Not all of 1001 minions answered. {KEPT}\n"


def test_fewer_rounds_than_kept(beds: Beds, tmp_path: Path) -> None:
    """Only the first of them count, and the beds that these are of."""
    argv = ["pillar-experiment", "--output", str(tmp_path), "--rounds"]
    assert main([*argv, "2"]) == 0
    assert main([*argv, "3", "--resume"]) == 0
    beds.asked.clear()
    assert main([*argv, "2", "--resume"]) == 0
    assert beds.asked == []
    assert times(tmp_path) == [6.0, 7.0]
    assert "the last on 2026-11-25T10:26" in (tmp_path / "pillar-experiment.html").read_text()


@pytest.mark.parametrize(
    ("rounds", "expected", "connections"),
    [(0, [], 0), (1, [1.0], 1), (2, [1.0, 2.0], 1), (3, [1.0, 2.0, 3.0], 9), (9, [1.0, 2.0, 3.0, 4.0], 9)],
)
def test_first_rounds(rounds: int, expected: list[float], connections: int) -> None:
    """A run that is cut has the rounds that came first, and the connections of their beds."""
    one, two, three, four = (Round(float(number), 1.0, 1.0, 0) for number in range(1, 5))
    run = Run([Sitting("a", 1, [one, two]), Sitting("b", 9, [three, four])]).first(rounds)
    assert [found.items_s for found in run.rounds] == expected
    assert run.connections == connections


def test_new_run_begins_anew(beds: Beds, tmp_path: Path) -> None:
    """Without the option nothing of an older run counts, but it is not lost; other fleets' rounds stay as well."""
    argv = ["pillar-experiment", "--rounds", "1", "--output", str(tmp_path)]
    assert main(argv) == 0
    assert main([*argv, "--minions", "20"]) == 0
    beds.asked.clear()
    # before there is anything new
    beds.fails = 0
    assert main(argv) == 130
    folder = tmp_path / "pillar-experiment"
    found = {path.name: len(list(path.iterdir())) for path in folder.iterdir() if path.is_dir()}
    assert found == {"1000.old": CASES, "20": CASES}
    beds.fails = None
    assert main([*argv, "--resume"]) == 0
    assert len(beds.asked) == BEDS


@pytest.mark.parametrize("changed", ["trees", "code", "versions", "machine"])
def test_rounds_of_another_run(
    beds: Beds, tmp_path: Path, changed: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounds of another Salt, or of other code or another machine, are refused before a bed is begun, and stay."""
    argv = ["pillar-experiment", "--rounds", "1", "--output", str(tmp_path)]
    beds.fails = 2
    assert main(argv) == 130
    capsys.readouterr()
    other = {
        "trees": {**HERE["trees"], "patched": {"hash": "4", "edited": []}},
        "versions": {"pyzmq": "2"},
        "machine": {**HERE["machine"], "cores": 4},
    }
    monkeypatch.setattr(pillar_experiment, "here", lambda: {**HERE, changed: other.get(changed, HERE.get(changed))})
    if changed == "code":
        monkeypatch.setattr(pillar_experiment, "content_hash", lambda *_: "4")
    beds.asked.clear()
    assert main([*argv, "--resume"]) == 3
    said = capsys.readouterr().err
    assert f"none-8.json were made with another {changed}: go back to what it was, or begin anew" in said
    assert KEPT not in said
    assert beds.asked == []
    assert (tmp_path / "pillar-experiment" / "1000" / "none-8.json").exists()


def test_what_may_differ(beds: Beds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """How busy the machine is, a commit, and who counts edits, make no other run."""
    argv = ["pillar-experiment", "--rounds", "1", "--output", str(tmp_path)]
    assert main(argv) == 0
    trees = {name: {**tree, "edited": None} for name, tree in HERE["trees"].items()}
    other = {"machine": {**HERE["machine"], "load_average_at_start": 3.0}, "git": {}, "trees": trees}
    monkeypatch.setattr(pillar_experiment, "here", lambda: {**HERE, **other})
    assert main([*argv, "--resume"]) == 0
    assert len(beds.asked) == BEDS


def test_two_at_once(beds: Beds, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second run with as many minions leaves the first one's rounds alone."""
    folder = tmp_path / "pillar-experiment"
    Kept(folder / "1000", {}).write("none-8", {})
    with (folder / "1000.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert main(["pillar-experiment", "--output", str(tmp_path)]) == 3
    assert capsys.readouterr().err == (
        f"bench: Another run keeps its rounds in {folder / '1000'} now: wait for its end.\n"
    )
    assert beds.asked == []
    assert (folder / "1000" / "none-8.json").exists()


@pytest.mark.parametrize(
    "runs", ["", "[]", "7", "{}", '{"stock": [{"a": 1}]}', '{"stock": [{"begun": "x", "connections": null}]}']
)
def test_damaged_file(beds: Beds, tmp_path: Path, runs: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It is named before a bed is begun, with what to do."""
    argv = ["pillar-experiment", "--rounds", "1", "--output", str(tmp_path)]
    assert main(argv) == 0
    beds.asked.clear()
    # of the last case
    path = tmp_path / "pillar-experiment" / "1000" / "improved-28.json"
    text = path.read_text()
    path.write_text(text[: text.index('"runs"')] + (f'"runs": {runs}}}' if runs != "{}" else '"run": 1}'))
    assert main([*argv, "--resume"]) == 3
    assert f"{path} can't be read" in capsys.readouterr().err
    assert beds.asked == []


def test_benchmark_that_keeps_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It can't go on."""
    assert main(["pillar", "--resume", "--output", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "bench: pillar keeps no rounds: run it without --resume.\n"
