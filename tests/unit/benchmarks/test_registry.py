"""The registry: every benchmark promises figures that fit on the page, and writes them in one format."""

from __future__ import annotations

import ast
import json
import re
from typing import TYPE_CHECKING

import pytest

from benchmarks.benchmark import FORMAT, BenchmarkError, Measurement
from benchmarks.registry import ALL, BENCHMARKS
from tests.unit.benchmarks.conftest import measurement

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from benchmarks.benchmark import Benchmark

LONGEST = 60
FIELDS = {
    "key",
    "what",
    "unit",
    "statistic",
    "stock",
    "ours",
    "ratio",
    "n",
    "spread",
    "aim",
    "met",
    "samples",
}


def test_names_are_unique() -> None:
    """No benchmark hides another one."""
    assert len(BENCHMARKS) == len(ALL)


def test_every_module_that_makes_one_is_registered(root: Path) -> None:
    """A benchmark that nobody can call is found."""
    makers = {path.stem for path in (root / "benchmarks").glob("*.py") if "= Benchmark(\n" in path.read_text()}
    registered = (root / "benchmarks" / "registry.py").read_text()
    assert {name for name in makers if f"    {name}.".upper() not in registered.upper()} == set()


def _loops(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.comprehension):
            yield node.iter


def test_turns_are_taken_in_one_place(root: Path) -> None:
    """No benchmark repeats by itself: `interleave` takes turns, warms up and tells the progress."""
    modules = [path for path in (root / "benchmarks").glob("*.py") if path.name != "benchmark.py"]
    found = [
        path.name
        for path in modules
        if any(
            re.search(r"\brange\(.*\brounds\b", loop) for loop in map(ast.unparse, _loops(ast.parse(path.read_text())))
        )
    ]
    assert found == []


@pytest.mark.parametrize("benchmark", ALL, ids=lambda one: one.name)
def test_every_benchmark_writes_the_format(benchmark: Benchmark, tmp_path: Path) -> None:
    """Its file has each of its figures with value, spread, aim and verdict, and says how, when and where."""
    path = measurement(benchmark).write(tmp_path)
    found = json.loads(path.read_text())
    assert path.name == f"{benchmark.name}.json"
    assert (found["format"], found["name"], found["date"]) == (FORMAT, benchmark.name, "2026-11-22T10:00:00+00:00")
    assert found["command"] == f"nox -s bench -- {benchmark.name}"
    assert {"cores", "memory_gb", "processor", "system", "python", "load_average_at_start"} <= set(found["machine"])
    assert [figure["key"] for figure in found["figures"]] == [figure.key for figure in benchmark.figures]
    assert all(set(figure) == FIELDS for figure in found["figures"])
    assert all(figure["spread"]["ours"] == {"n": 3, "min": 1, "median": 2, "max": 3} for figure in found["figures"])


@pytest.mark.parametrize("benchmark", ALL, ids=lambda one: one.name)
def test_figures_fit_on_the_page(benchmark: Benchmark) -> None:
    """Keys are unique, and words are short and different, with the usual number of minions in them."""
    titles = [figure.title(benchmark.minions) for figure in benchmark.figures]
    assert benchmark.figures
    assert len({figure.key for figure in benchmark.figures}) == len(titles) == len(set(titles))
    assert [title for title in titles if len(title) > LONGEST or "{" in title or "|" in title] == []
    assert min(benchmark.minions, benchmark.rounds, benchmark.minutes) > 0


def test_what_was_asked_for_is_in_the_command() -> None:
    """The command of a smaller run repeats that run."""
    benchmark = BENCHMARKS["pillar"]
    assert benchmark.command(20, 5) == "nox -s bench -- pillar --minions 20 --rounds 5"


def test_a_figure_that_was_not_measured_is_an_error(tmp_path: Path) -> None:
    """A benchmark that leaves out what it promises writes nothing."""
    whole = measurement(BENCHMARKS["pillar"])
    some = dict(list(whole.samples.items())[1:])
    with pytest.raises(BenchmarkError, match="disagree about fetch-rfc"):
        Measurement(whole.benchmark, whole.options, some, whole.date, whole.machine, whole.own).write(tmp_path)
    assert list(tmp_path.iterdir()) == []
