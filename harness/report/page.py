"""Puts the report together: verdict, figures, plots and facts of a run, rendered into one page."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from harness import figures
from harness.report import moments, series, spreads, theme, verdict, waits
from harness.results import comparison, evidence
from harness.results import result as results
from harness.results import trees as known
from harness.results.comparison import Change
from harness.scenarios import thresholds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.figures import Figure
    from harness.results.comparison import Comparison
    from harness.results.evidence import Evidence

FOLDER = Path(__file__).parent
FILE = "report.html"
# the cards at the top, most telling first; with two trees those that tell them apart
CARDS = (
    "client_errors", "longest_wait_s", "returns_lost", "publications_per_job", "find_jobs_per_execution",
    "acknowledged_ratio", "client_latency_s.p95", "master_cpu_ms_per_return", "returns_per_s",
)  # fmt: skip
# how many kinds of errors of each tree are listed
ERRORS = 6
NOTHING = "\N{EN DASH}"
MEANINGS = {"stock": "Salt as it is released", "patched": "Salt with our patches", "other": "another Salt"}
# CPU time for each return below which a comparison says nothing
SEEN_MS = 0.02
# one pair of runs says nothing about a time, CPU or memory below this ratio
DIFFERS = 2.0
# what the simulated minions take is no figure of the master's
OF_FLEET = ("kb_per_minion", "fleet_cpu_ms_per_return")


@dataclass(frozen=True)
class Row:
    """One figure of the page: its definition, each tree's value as text, and how they compare."""

    figure: Figure
    values: dict[str, str]
    change: Change | None

    @property
    def differs(self) -> bool:
        """Return whether the trees are told apart by it."""
        return self.change is not None and self.change != comparison.ALIKE


def write(folder: Path, against: Comparison | None = None) -> Path:
    """Write the report of the run in `folder` from its `result.json` and samples, and return its path.

    With `against` the page shows how the run compares to an earlier one.
    """
    path = folder / FILE
    path.write_text(render(folder, against), encoding="utf-8")
    return path


def render(folder: Path, against: Comparison | None = None) -> str:
    """Return the page of the run in `folder`. Raises SettingsError if the run has no result."""
    result = results.load(folder)
    trees: dict[str, dict[str, Any]] = result["trees"]
    samples = {tree: _grouped(evidence.read(folder / tree / "samples")) for tree in trees}
    machine = _environment(folder)
    verdicts = [verdict.of_tree(tree, values) for tree, values in trees.items()]
    roles = sorted({process.role for tree in samples.values() for process in tree.processes}, key=theme.order)
    cards = [row(figures.BY_NAME[name], trees) for name in CARDS]
    blocks = [clients["name"] for clients in result["scenario"]["clients"]]
    engine = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    engine.filters["number"] = number
    context = {
        "result": result,
        "trees": list(trees),
        "scenario": result["scenario"],
        "headline": verdict.headline(result, verdicts),
        "meanings": {tree: meaning(tree, result["scenario"]) for tree in trees},
        "verdicts": verdicts,
        "rules": verdict.RULES,
        "cards": [card for card in cards if card.differs or len(trees) == 1],
        "alike": [card for card in cards if not card.differs and len(trees) > 1],
        "rows": [row(figure, trees) for figure in figures.FIGURES if figure.name not in figures.BY_ROLE],
        "role_colours": {role: theme.colour_of_role(role) for role in roles},
        "roles": roles,
        "memory_roles": sorted({role for values in trees.values() for role in values["peak_memory_mb"]}),
        "errors": errors(samples),
        "moments": moments.listed(samples),
        "against": against,
        "against_rows": against_rows(against) if against else [],
        "cpu_rows": cpu_rows(trees, roles),
        "facts": facts(machine),
        "conditions": conditions(list(trees), machine),
        "plots": plots(samples, trees, roles, int(machine.get("machine", {}).get("cores", 1)), blocks),
        "css": Markup(theme.css() + (FOLDER / "style.css").read_text(encoding="utf-8")),  # noqa: S704  # our own files
    }
    return engine.get_template("page.html.j2").render(context)


def meaning(tree: str, scenario: Mapping[str, Any]) -> str:
    """Return what a tree is, with the settings that its master alone has."""
    own = scenario.get("tree_master", {}).get(tree, {})
    return f"{MEANINGS[tree]}{f', set to {json.dumps(own)[1:-1]}' if own else ''}"


def facts(machine: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what is known of the machine and the software, as pairs of a name and a value."""
    found = []
    for group, entries in machine.items():
        if group == "trees":
            found += [("tree", known.told(name, tree)) for name, tree in entries.items()]
        elif isinstance(entries, dict):
            found += [(name.replace("_", " "), _said(value)) for name, value in entries.items()]
    return found


def conditions(trees: list[str], machine: Mapping[str, Any]) -> str:
    """Return what a reader has to know before looking at differences: the order, how busy it was, what was edited."""
    said = [f"{trees[0]} ran first, then {' and '.join(trees[1:])}." if len(trees) > 1 else f"Only {trees[0]} ran."]
    load, cores = (machine.get("machine", {}).get(name) for name in ("load_average_at_start", "cores"))
    if load is not None and cores:
        said.append(f"The load average at the start was {load:g} on {cores} core{'s' if cores > 1 else ''}")
        said[-1] += ": the machine was busy, so treat differences in time as noise." if load > cores else "."
    said += [f"{known.told(name, tree)}." for name, tree in machine.get("trees", {}).items() if tree.get("edited")]
    return " ".join(said)


def plots(
    samples: Mapping[str, Evidence], trees: Mapping[str, Any], roles: list[str], cores: int, blocks: list[str]
) -> dict[str, Any]:
    """Return the SVG of every plot, by name; those that each tree has one of, by name and tree.

    `blocks` are the names of the scenario's blocks of clients.
    """
    top = series.limits(samples)
    master = spreads.master_roles(roles)
    used = {tree: _used(values) for tree, values in trees.items()}
    drawn: dict[str, Any] = {
        "bars": spreads.cpu_by_role(used, spreads.telling(used, roles), "bars"),
        "ramp": series.ramp_up(samples, "ramp"),
        "latency": spreads.shares(
            {tree: [answer.wait_s for answer in rows.answers] for tree, rows in samples.items()},
            "seconds to a client's answer",
            "latency",
        ),
        "acknowledgement": spreads.shares(
            {tree: [row.seconds for row in rows.returns if row.acknowledged] for tree, rows in samples.items()},
            "seconds to a return's acknowledgement",
            "acknowledgement",
        ),
        "waits": waits.picture(samples, blocks, "waits"),
        "cpu": {}, "memory": {}, "returns": {}, "fleet": {},
    }  # fmt: skip
    for tree, rows in samples.items():
        drawn["cpu"][tree] = series.cpu_over_time(rows, roles, cores, top, f"cpu-{tree}")
        drawn["memory"][tree] = series.memory_over_time(rows, master, top, f"memory-{tree}")
        drawn["returns"][tree] = series.returns_over_time(rows, tree, top, f"returns-{tree}")
        drawn["fleet"][tree] = series.fleet_over_time(rows, tree, top, f"fleet-{tree}") if rows.moments else ""
    return {
        name: {tree: Markup(svg) for tree, svg in drawing.items()} if isinstance(drawing, dict) else Markup(drawing)  # noqa: S704
        for name, drawing in drawn.items()
    }


def errors(samples: Mapping[str, Evidence]) -> list[tuple[str, str, int]]:
    """Return (tree, what went wrong, how many requests) for the most frequent errors of clients.

    Numbers are left out of the texts, so that "12 of 1000 minions answered" and "13 of 1000" count as one; none at all
    is another thing than some.
    """
    found = []
    for tree, rows in samples.items():
        counts = Counter(re.sub(r"\b[1-9]\d* of (?=\d)", "some of ", row.error) for row in rows.answers if row.error)
        found += [(tree, text, count) for text, count in counts.most_common(ERRORS)]
    return found


def cpu_rows(
    trees: Mapping[str, Mapping[str, Any]], roles: list[str]
) -> list[tuple[str, dict[str, str], Change | None]]:
    """Return (role, each tree's CPU time in the load phase for each distinct return, how they compare)."""
    figure = figures.Figure("cpu_s", "CPU", "ms", "lower", "")
    rows = []
    for role in [*roles, "all of the master"]:
        found = {}
        for tree, values in trees.items():
            returns = sum(row["returns"] for name, row in values["per_function"].items() if row["jobs_requested"])
            used = _used(values)
            of_role = [role] if role in roles else spreads.master_roles(list(used))
            there = returns and any(name in used for name in of_role)
            found[tree] = sum(used.get(name, 0.0) for name in of_role) * 1000 / returns if there else None
        seen = role not in theme.GREYS and any((value or 0.0) >= SEEN_MS for value in found.values())
        rows.append(
            (
                role,
                {tree: shown(figure, value) for tree, value in found.items()},
                change(figure, found) if seen else None,
            )
        )
    return rows


def against_rows(against: Comparison) -> list[dict[str, Any]]:
    """Return the lines of a comparison as the page prints them; figures that neither run has are left out."""
    rows = []
    for line in against.lines:
        figure = figures.BY_NAME[line.name]
        if line.before is not None or line.now is not None:
            ratio = NOTHING if line.ratio is None else f"{line.ratio:.2f}"
            values = {"before": shown(figure, line.before), "now": shown(figure, line.now), "ratio": ratio}
            rows.append({"tree": line.tree, "figure": figure, "change": line.change, **values})
    return rows


def row(figure: Figure, trees: Mapping[str, Mapping[str, Any]]) -> Row:
    """Return one figure of all trees."""
    found = {tree: thresholds.lookup(values, figure.name) for tree, values in trees.items()}
    return Row(figure, {tree: shown(figure, value) for tree, value in found.items()}, change(figure, found))


def shown(figure: Figure, value: float | None) -> str:
    """Return a value as the page prints it, with its unit."""
    if value is None:
        return NOTHING
    if figure.unit == "%":
        return f"{value * 100:.1f} %"
    if figure.unit == "x":
        return f"{value:.2f}"
    return f"{number(value)} {figure.unit}".strip().replace(" /s", "/s")


def number(value: float | None) -> str:
    """Return a number with as many digits as a reader needs: three, and all of those before the point."""
    if value is None:
        return NOTHING
    if value == int(value) or abs(value) >= 100:  # noqa: PLR2004  # whole numbers from here on
        return f"{value:,.0f}"
    if abs(value) < 0.005:  # noqa: PLR2004  # which two places would make zero of
        return f"{value:.1g}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"  # noqa: PLR2004


def change(figure: Figure, found: Mapping[str, float | None]) -> Change | None:
    """Return how patched compares to stock, None unless both have the figure and more or less of it is better.

    Only counts are judged: one pair of runs can't tell a better time from chance, so a time, CPU, memory or rate is
    mentioned, without a verdict, if it differs by more than `DIFFERS`.
    """
    stock, patched = found.get("stock"), found.get("patched")
    if figure.name in OF_FLEET:
        return None
    if not figure.measured:
        return comparison.change(figure, stock, patched)
    if not stock or not patched or not figure.better:
        return None
    factor = max(stock, patched) / min(stock, patched)
    return Change("", f"differs {factor:.1f}×") if factor > DIFFERS else None  # noqa: RUF001


def _said(value: object) -> str:
    """Return a fact in words; a table's entries follow each other."""
    if isinstance(value, dict):
        return ", ".join(f"{name}: {entry}" for name, entry in value.items())
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _grouped(samples: Evidence) -> Evidence:
    """Return the samples with the roles that the page shows."""
    rows = [dataclasses.replace(row, role=theme.group(row.role)) for row in samples.processes]
    return dataclasses.replace(samples, processes=rows)


def _used(values: Mapping[str, Any]) -> dict[str, float]:
    """Return the CPU seconds of a tree's result by the roles that the page shows."""
    used: Counter[str] = Counter()
    for role, seconds in values["cpu_s"].items():
        used[theme.group(role)] += seconds
    return dict(used)


def _environment(folder: Path) -> dict[str, Any]:
    """Return what the run recorded of its machine; a run without it still has a report."""
    try:
        values: dict[str, Any] = json.loads((folder / "environment.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return values
