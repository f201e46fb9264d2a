"""Benchmarks run to their end with a handful of minions, and give every figure that they promise."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from benchmarks import fleet, handler, pillar
from benchmarks.__main__ import main
from benchmarks.registry import ALL, subjects
from benchmarks.results import evidence
from benchmarks.results.evidence import collect

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.benchmark import Benchmark

pytestmark = [pytest.mark.live, pytest.mark.long]

# minions and rounds, where a few would not do
SIZES = {
    "pillar-scale": (2000, 3),
    # more than a batch, so that there are pings meanwhile
    "pillar-changes": (60, 2),
    "interfaces": (1, 1),
    "package-states": (5, 1),
}
USUAL = (20, 3)


@pytest.mark.parametrize("benchmark", ALL, ids=lambda one: one.name)
def test_every_benchmark_gives_its_figures(
    benchmark: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each one, on the real thing, writes a file from which the page has a value for each of its figures."""
    # waiting is no part of what is tested
    monkeypatch.setattr(fleet, "IDLE_S", 1)
    monkeypatch.setattr(handler, "FEED_S", 2)
    monkeypatch.setattr(pillar, "COMPILES", 50)
    minions, rounds = SIZES.get(benchmark.name, USUAL)
    argv = [benchmark.name, "--minions", str(minions), "--rounds", str(rounds), "--output", str(tmp_path), "--json"]
    code = main(argv)
    said = capsys.readouterr()
    assert code == 0, said.err
    assert json.loads(said.out.splitlines()[-1])["name"] == benchmark.name
    collect(tmp_path, tmp_path / "runs", tmp_path / "evidence")
    subject = next(one for one in subjects() if one.name == benchmark.name)
    (section,) = evidence.sections(tmp_path / "evidence", [subject], {})
    assert [row.figure.key for row in section.rows] == [figure.key for figure in benchmark.figures]
    assert [row.what for row in section.rows if row.ours is None] == []
