"""The RFC's experiment keeps its rounds, and goes on with them after it was stopped."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks import pillar_experiment
from benchmarks.__main__ import main
from benchmarks.errors import BenchmarkError
from benchmarks.options import Options
from benchmarks.pillar_rounds import Kept, Round, Run
from harness.results import trees

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.pillar_experiment import Method

EVERY = 26
FACTS = {"stock": {"hash": "1", "edited": None}, "patched": {"hash": "2", "edited": []}}


class Beds:
    """Stands for the beds: each round is numbered, and the bed of some number is interrupted."""

    def __init__(self) -> None:
        """Let every bed run to its end."""
        self.asked: list[tuple[str, str, int, int]] = []
        self.interrupted: int | None = None

    def __call__(self, method: Method, tree: str, workers: int, options: Options) -> Run:
        """Run so many rounds."""
        if len(self.asked) == self.interrupted:
            raise KeyboardInterrupt
        self.asked.append((method.key, tree, workers, options.rounds))
        number = len(self.asked)
        return Run([Round(float(number), 1.0, 1.0, 0)] * options.rounds, number, [f"2026-11-25T10:{number:02}"])


@pytest.fixture
def beds(monkeypatch: pytest.MonkeyPatch) -> Beds:
    """Return what stands for the beds and the trees."""
    found = Beds()
    monkeypatch.setattr(pillar_experiment, "_bed", found)
    monkeypatch.setattr(trees, "facts", lambda _: FACTS)
    return found


def values(output: Path) -> dict[str, dict[str, Any]]:
    """Return the figures of the measurement, by their names."""
    found = json.loads((output / "pillar-experiment.json").read_text())
    return {figure["key"]: figure for figure in found["figures"]}


def test_interrupted_run_goes_on(beds: Beds, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was done before stays; the beds that are missing, and rounds that are missing in a bed, are added."""
    argv = ["pillar-experiment", "--rounds", "2", "--output", str(tmp_path)]
    beds.interrupted = 5
    assert main(argv) == 130
    assert capsys.readouterr().err == (
        "bench: interrupted; no measurement was written: --resume goes on with the beds that were done.\n"
    )
    assert not (tmp_path / "pillar-experiment.json").exists()
    beds.interrupted = None
    assert main([*argv, "--resume"]) == 0
    assert len(beds.asked) == len({case[:3] for case in beds.asked}) == EVERY
    assert {figure["n"] for figure in values(tmp_path).values()} >= {2}
    beds.asked.clear()
    argv[2] = "5"
    assert main([*argv, "--resume"]) == 0
    assert [rounds for *_, rounds in beds.asked] == [3] * EVERY
    figures = values(tmp_path)
    assert figures["items-none-8"]["n"] == 5
    # 26 beds for each half: the function's, ours, 8 workers, is the sixth
    assert figures["connections-8"]["ours"] == 6
    page = (tmp_path / "pillar-experiment.html").read_text()
    assert "5 rounds" in page
    assert "begun on 2026-11-25T10:01, the last on 2026-11-25T10:26" in page


def test_fewer_rounds_than_kept(beds: Beds, tmp_path: Path) -> None:
    """Only the first of them count."""
    argv = ["pillar-experiment", "--output", str(tmp_path), "--rounds"]
    assert main([*argv, "3"]) == 0
    assert main([*argv, "2", "--resume"]) == 0
    assert len(beds.asked) == EVERY
    assert values(tmp_path)["items-rfc-28"]["n"] == 2


def test_new_run_begins_anew(beds: Beds, tmp_path: Path) -> None:
    """Without the option, nothing of an older run counts, not even when the new one is stopped and gone on with."""
    argv = ["pillar-experiment", "--rounds", "1", "--output", str(tmp_path)]
    assert main(argv) == 0
    beds.asked.clear()
    beds.interrupted = 1
    assert main(argv) == 130
    beds.interrupted = None
    assert main([*argv, "--resume"]) == 0
    assert len(beds.asked) == EVERY


@pytest.mark.parametrize(("minions", "facts"), [(7, FACTS), (3, {**FACTS, "patched": {"hash": "3", "edited": []}})])
def test_rounds_of_another_run(beds: Beds, tmp_path: Path, minions: int, facts: dict[str, Any]) -> None:
    """Rounds of another fleet or of another Salt are refused before any bed is begun, and stay."""
    kept = Kept(tmp_path / "pillar-experiment", minions, facts)
    # of the last case
    kept.write("improved-patched-28", Run([Round(1.0, 1.0, 1.0, 0)], 1, ["2026-11-25T10:00"]))
    with pytest.raises(BenchmarkError, match=r"improved-patched-28\.json are of another run \((minions|trees)\)"):
        pillar_experiment.run(Options(3, 2, output=tmp_path, resume=True))
    assert beds.asked == []
    assert len(kept.read("improved-patched-28").rounds) == 1


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"rounds": [{"a": 1}], "connections": 1, "begun": []}'])
@pytest.mark.usefixtures("beds")
def test_damaged_file(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It is named, with what to do."""
    folder = tmp_path / "pillar-experiment"
    folder.mkdir()
    (folder / "none-stock-8.json").write_text(text)
    assert main(["pillar-experiment", "--output", str(tmp_path), "--resume"]) == 3
    said = capsys.readouterr().err
    assert "none-stock-8.json can't be read" in said
    assert "delete it" in said


def test_benchmark_that_keeps_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It can't go on."""
    assert main(["pillar", "--resume", "--output", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "bench: pillar keeps no rounds: run it without --resume.\n"
