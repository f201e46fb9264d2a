"""What the RFC's experiments gave, and their page: tables and plots, with the RFC's own figures beside ours."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from statistics import fmean, median, stdev
from typing import TYPE_CHECKING

from harness.report import theme

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from benchmarks.pillar_rounds import Run

# "Impact of increased worker threads on database connections": connections, backends
RFC = {8: (14, 6), 28: (44, 14)}
STYLE = """body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
body { background: var(--page); color: var(--ink) } table { border-collapse: collapse }
td, th { padding: .2rem .8rem; text-align: right } td:first-child, th:first-child { text-align: left }
tr + tr { border-top: 1px solid #ccc }"""


@dataclass(frozen=True)
class Case:
    """What a run was of: the access method, the tree and the worker threads."""

    method: str
    tree: str
    workers: int

    @property
    def name(self) -> str:
        """Return it in words."""
        return f"{self.method}, {'ours' if self.tree == 'patched' else 'stock'}, {self.workers} workers"


def write(folder: Path, title: str, found: Mapping[Case, Run], minions: int) -> Path:
    """Write the page and return its path."""
    rows = [
        (
            case.name,
            _spread([turn.items_s for turn in run.rounds], 2),
            _spread([turn.ping_s for turn in run.rounds], 2),
            _spread([turn.cpu_ms for turn in run.rounds], 1),
            str(run.connections),
            str(sum(turn.short for turn in run.rounds)),
        )
        for case, run in found.items()
    ]
    workers = [
        (case.name, str(run.connections), *map(str, RFC[case.workers]))
        for case, run in found.items()
        if case.method == "function"
    ]
    rounds = max(len(run.rounds) for run in found.values())
    begun = sorted(sitting.begun for run in found.values() for sitting in run.sittings)
    items = {case.name: [turn.items_s for turn in run.rounds] for case, run in found.items()}
    cpu = {case.name: [turn.cpu_ms for turn in run.rounds] for case, run in found.items()}
    heads = ("access", "pillar.items, s", "test.ping, s", "worker CPU, ms a compile", "connections", "short pillars")
    page = f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>
<style>{theme.css()}{STYLE}</style><h1>{escape(title)}</h1>
<p>{minions} simulated minions and a real one, {rounds} rounds, each with its mean and standard deviation. The
first bed was begun on {begun[0]}, the last on {begun[-1]}. The RFC gives its times as a picture only, so there is
nothing to put beside them.</p>
{_table(heads, rows)}
<h2>Time of pillar.items</h2>{_dots("items", "seconds", items)}
<h2>CPU of the master's workers</h2>{_dots("cpu", "ms for each compile", cpu)}
<h2>Worker threads and connections</h2>
{_table(("case", "connections, here", "connections, RFC", "backends, RFC"), workers)}
<p>The most at once. The RFC saw stock Salt with another version of everything.</p></html>
"""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "pillar-experiment.html"
    path.write_text(page, encoding="utf-8")
    return path


def _spread(values: Sequence[float], digits: int) -> str:
    """Write a mean and a standard deviation, where there is one."""
    deviation = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{fmean(values):.{digits}f}{deviation}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _dots(name: str, unit: str, series: Mapping[str, Sequence[float]]) -> str:
    """Draw each round as a dot and the median as a bar."""
    plot = theme.axes(0.5 + 0.35 * len(series), grid="x")
    for place, (label, values) in enumerate(reversed(list(series.items()))):
        plot.barh(place, median(values), height=0.6, color=theme.colour("stock" if "stock" in label else "patched"))
        plot.plot(values, [place] * len(values), "o", color=theme.colour("ink"), markersize=3)
    plot.set_yticks(range(len(series)), list(reversed(list(series))))
    theme.labels(plot, unit, "")
    said = "; ".join(f"{label}: {median(values):.2f}" for label, values in series.items())
    return theme.svg(plot, name, f"{unit} by access: {said}.")
