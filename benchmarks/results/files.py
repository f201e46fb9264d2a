"""The files of benchmarks, `build/bench/NAME.json`: read, checked, and made into rows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from benchmarks.errors import DamagedFile
from benchmarks.measurement import FORMAT
from benchmarks.results.row import Row, Section, read_source

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.benchmark import Benchmark
    from benchmarks.figure import Figure
    from benchmarks.results.row import Source


def sections(folder: Path, benchmarks: Sequence[Benchmark]) -> list[Section]:
    """Return a section for each benchmark, measured or not.

    Raises DamagedFile if a file is broken, of another format, or of no benchmark.
    """
    known = {benchmark.name for benchmark in benchmarks}
    for path in sorted(folder.glob("*.json")):
        if path.stem not in known:
            raise DamagedFile(f"{path} belongs to no benchmark: delete it.")
    return [_section(benchmark, folder / f"{benchmark.name}.json") for benchmark in benchmarks]


def _section(benchmark: Benchmark, path: Path) -> Section:
    usual = benchmark.command(benchmark.minions, benchmark.rounds)
    if not path.exists():
        rows = [Row(figure.title(benchmark.minions), figure.unit, usual, figure.aim) for figure in benchmark.figures]
        return Section(benchmark.name, benchmark.about, tuple(rows))
    values = _read(path, benchmark)
    try:
        source = read_source(values["command"], values["date"], values["machine"], values["trees"])
        found = {entry["key"]: entry for entry in values["figures"]}
        minions = int(values["minions"])
        rows = [_row(figure, found.get(figure.key), source, minions) for figure in benchmark.figures]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise _damaged(path, benchmark, "is damaged") from None
    return Section(benchmark.name, benchmark.about, tuple(rows))


def _row(figure: Figure, found: dict[str, Any] | None, source: Source, minions: int) -> Row:
    """Return the row of one figure; words and aims are the code's, numbers the file's."""
    if found is None:
        # the figure is newer than the file
        return Row(figure.title(minions), figure.unit, source.command, figure.aim)
    if (found["unit"], found["statistic"]) != (figure.unit, figure.statistic):
        raise ValueError(figure.key)
    numbers = {name: None if found[name] is None else float(found[name]) for name in ("stock", "ours", "ratio")}
    return Row(figure.title(minions), figure.unit, source.command, figure.aim, **numbers, source=source)


def _read(path: Path, benchmark: Benchmark) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise _damaged(path, benchmark, "is damaged") from None
    if not isinstance(values, dict) or values.get("name") != benchmark.name:
        raise _damaged(path, benchmark, f"is not of the benchmark {benchmark.name}")
    if values.get("format") != FORMAT:
        raise _damaged(path, benchmark, f"has format {values.get('format')} instead of {FORMAT}")
    return values


def _damaged(path: Path, benchmark: Benchmark, why: str) -> DamagedFile:
    usual = benchmark.command(benchmark.minions, benchmark.rounds)
    return DamagedFile(f"{path} {why}: run `{usual}` again, or delete the file.")
