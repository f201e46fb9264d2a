"""Puts the report together: verdict, figures, plots and facts of a run, rendered into one page."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from harness import choices, figures
from harness.report import series, theme, verdict
from harness.report.rows import against_rows, number, row
from harness.report.series import cpu_rows, used_by_role
from harness.results import differences, evidence, runs
from harness.results import result as results
from harness.results import trees as facts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.results.comparison import Comparison
    from harness.results.evidence import Evidence

FOLDER = Path(__file__).parent


def engine(number: Callable[[float | None], str]) -> Environment:
    """Return what renders the templates of this folder, with `number` for numbers."""
    found = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["number"] = number
    found.filters["tree_colour"] = theme.of_tree
    return found


def css() -> Markup:
    """Return the style of the page."""
    return Markup((FOLDER / "style.css").read_text(encoding="utf-8"))  # noqa: S704  # our own files


MEANINGS = {"stock": "as it is released", "patched": "with our patches", "other": "of another folder"}


def meaning(tree: str, scenario: Mapping[str, Any], machine: Mapping[str, Any]) -> str:
    """Return what a tree is: the release of Salt, and the settings that its master alone has."""
    kind = choices.kind(tree)
    own = scenario.get("tree_master", {}).get(kind, {})
    place = machine.get("trees", {}).get(tree, {}).get("folder")
    release = machine.get("versions", {}).get(f"salt_{tree}", "")
    words = ["Salt", *([release] if release else []), f"of {place}" if place else MEANINGS[kind]]
    return f"{' '.join(words)}{f', set to {json.dumps(own)[1:-1]}' if own else ''}"


def facts(machine: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what is known of the machine and the software, as pairs of a name and a value."""
    found = []
    for group, entries in machine.items():
        if group == "trees":
            found += [("tree", facts_of.describe(name, tree)) for name, tree in entries.items()]
        elif isinstance(entries, dict):
            found += [(name.replace("_", " "), _said(value)) for name, value in entries.items()]
    return found


def conditions(trees: list[str], machine: Mapping[str, Any], runs: int = 1) -> str:
    """Return what a reader has to know before looking at differences: the order, how busy it was, what was edited."""
    said = [f"{trees[0]} ran first, then {' and '.join(trees[1:])}." if len(trees) > 1 else f"Only {trees[0]} ran."]
    if runs > 1:
        turns = f"{' and '.join(trees)} took turns, {runs} times each; who came first changed."
        said = [turns if len(trees) > 1 else f"Only {trees[0]} ran, {runs} times."]
        said.append("Numbers are medians, with their ranges beside them; pictures and errors are of the first repeat.")
    cores, noted = machine.get("machine", {}).get("cores"), machine.get("trees", {})
    loads = {tree: noted[tree]["load_average"] for tree in trees if "load_average" in noted.get(tree, {})}
    if loads and cores:
        words = " and ".join(f"{load:g} before {tree}" for tree, load in loads.items())
        words += " (medians)" if runs > 1 else ""
        said.append(f"The load average was {words} on {cores} core{'s' if cores > 1 else ''}")
        # that of a later tree has the end of the one before in it
        busy = next(iter(loads.values())) > cores
        said[-1] += ": the machine was busy, so treat differences in time as noise." if busy else "."
    said += [
        f"{facts_of.describe(name, tree)}." for name, tree in machine.get("trees", {}).items() if tree.get("edited")
    ]
    return " ".join(said)


def remarks(trees: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return (tree, sentence) for what a reader has to know of how the samples came about."""
    found = []
    for tree, values in trees.items():
        late = values["sent_late_s"]
        if late["late"]:
            text = f"{late['late']:,} of {late['n']:,} requests were sent more than 0.1 s after they were due, at most "
            found.append((tree, f"{text}{number(late['max'])} s: the clients had to wait for the processor."))
        elif late["n"]:
            found.append((tree, f"All {late['n']:,} requests were sent within {number(late['max'])} s of their time."))
        clocks = values["clocks"].items()
        found += [(tree, _of_clock(name, clock)) for name, clock in clocks if clock["offset_s"] or clock["drift_s"]]
        left = ", ".join(f"{count:,} {kind}" for kind, count in values["left_out"].items() if count)
        if left:
            found.append((tree, f"Of before the load's start and left out of every figure: {left}."))
        # results of older versions have none
        found += [(tree, f"{gap}; what needs it is not measured.") for gap in values.get("gaps", ())]
    return found


def _of_clock(name: str, clock: Mapping[str, float]) -> str:
    """Return what was measured of another machine's clock in a sentence."""
    offset, error, drift = (clock[key] for key in ("offset_s", "error_s", "drift_s"))
    side = "ahead of" if offset > 0 else "behind"
    text = f"The clock of {name} was {abs(offset):.3f} s {side} this machine's (± {error:.3f} s), which is corrected"
    moved = f"; it moved by {abs(drift):.3f} s during the run, which is not" if drift else ""
    return f"{text}{moved}."


def _said(value: object) -> str:
    """Return a fact in words; a table's entries follow each other."""
    if isinstance(value, dict):
        return ", ".join(f"{name}: {entry}" for name, entry in value.items())
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


FILE = "report.html"
# what `trust.html.j2` writes
TRUST = re.compile(r'<div id="trust">.*?</div>\n', re.DOTALL)
# the cards at the top, most telling first; with two trees those that tell them apart
CARDS = (
    "client_errors", "longest_wait_s", "returns_lost", "never_reached", "publications_per_job",
    "find_jobs_per_execution",
    "acknowledged_ratio", "client_latency_s.p95", "complete_latency_s.p95", "master_cpu_ms_per_return", "returns_per_s",
)  # fmt: skip
# how many kinds of errors of each tree are listed
ERRORS = 6


def write(
    folder: Path,
    against: Comparison | None = None,
    known: tuple[Mapping[str, Any], Mapping[str, Evidence]] | None = None,
) -> Path:
    """Write the report of the run in `folder` and return its path.

    It is made of `known`: the content of `result.json` and the samples of each tree's first repeat, which are read
    unless the caller has them. With `against` the page shows how the run compares to an earlier one.

    Raises:
        SettingsError: if the run has no result.
    """
    result = known[0] if known else results.load(folder)
    samples = (
        known[1]
        if known
        else {tree: evidence.read(runs.place(folder, tree, 1) / "samples") for tree in result["trees"]}
    )
    path = folder / FILE
    path.write_text(render(result, samples, facts_of.environment(folder), against), encoding="utf-8")
    return path


def mark(folder: Path) -> None:
    """Say above everything in a report that is there what `result.json` says of trust, and leave the rest as it is.

    A page as a whole would need all samples in memory, and a run that is not to be believed may have none.
    """
    path = folder / FILE
    if not path.is_file():
        return
    box = engine(number).get_template("trust.html.j2").render(**_trust(results.load(folder)))
    text = TRUST.sub("", path.read_text(encoding="utf-8"), count=1)
    path.write_text(text.replace("<main>\n", f"<main>\n{box}\n", 1), encoding="utf-8")


def render(
    result: Mapping[str, Any],
    samples: Mapping[str, Evidence],
    machine: Mapping[str, Any],
    against: Comparison | None = None,
) -> str:
    """Return the page of a run: its `result.json`, samples of each tree, and what it recorded of its machine."""
    trees: dict[str, dict[str, Any]] = result["trees"]
    each: list[dict[str, dict[str, Any]]] = result["repeats"]
    pairs = [differences.from_dict(pair) for pair in result["differences"]]
    # pictures, errors and moments are those of the first repeat
    samples = {tree: _grouped(found) for tree, found in samples.items()}
    totals = {tree: differences.totals([one[tree] for one in each]) for tree in trees}
    verdicts = [verdict.of_tree(tree, values) for tree, values in totals.items()]
    roles = sorted({process.role for tree in samples.values() for process in tree.processes}, key=theme.order)
    cards = [card for card in (row(figures.BY_NAME[name], trees, result) for name in CARDS) if card.known]
    blocks = [clients["name"] for clients in result["scenario"]["clients"]]
    context = {
        "result": result,
        "trees": list(trees),
        "scenario": result["scenario"],
        "headline": verdict.headline({**result, "trees": totals}, verdicts, len(each)),
        **_trust(result),
        "repeats": len(each),
        "compared": [verdict.compared(pair) for pair in pairs],
        "grounds": verdict.grounds(pairs),
        "pair_grounds": verdict.ONE_PAIR,
        "meanings": {tree: meaning(tree, result["scenario"], machine) for tree in trees},
        "verdicts": verdicts,
        "rules": verdict.RULES,
        "cards": [card for card in cards if card.differs or len(trees) == 1],
        "alike": [card for card in cards if not card.differs and len(trees) > 1],
        "rows": [row(figure, trees, result) for figure in figures.FIGURES if figure.name not in figures.BY_ROLE],
        "role_colours": {role: theme.colour_of_role(role) for role in roles},
        "roles": roles,
        "memory_roles": sorted({role for values in trees.values() for role in values["peak_memory_mb"]}),
        "errors": errors(samples),
        "moments": series.listed(samples),
        "against": against,
        "against_rows": against_rows(against) if against else [],
        "cpu_rows": cpu_rows(each, roles, pairs),
        "facts": facts(machine),
        "conditions": conditions(list(trees), machine, len(each)),
        "remarks": remarks(each[0]),
        "plots": plots(samples, trees, roles, int(machine.get("machine", {}).get("cores", 1)), blocks),
        "css": css(),
    }
    return engine(number).get_template("page.html.j2").render(context)


def plots(
    samples: Mapping[str, Evidence], trees: Mapping[str, Any], roles: list[str], cores: int, blocks: list[str]
) -> dict[str, Any]:
    """Return the SVG of every plot, by name; those that each tree has one of, by name and tree.

    `blocks` are the names of the scenario's blocks of clients.
    """
    top = series.limits(samples)
    master = series.master_roles(roles)
    used = {tree: used_by_role(values) for tree, values in trees.items()}
    drawn: dict[str, Any] = {
        "bars": series.cpu_by_role(used, series.telling(used, roles), "bars"),
        "ramp": series.ramp_up(samples, "ramp"),
        "latency": series.shares(
            {tree: [answer.wait_s for answer in rows.answers] for tree, rows in samples.items()},
            "seconds to a client's answer",
            "latency",
        ),
        "acknowledgement": series.shares(
            {tree: [row.seconds for row in rows.returns if row.acknowledged] for tree, rows in samples.items()},
            "seconds to a return's acknowledgement",
            "acknowledgement",
        ),
        "waits": series.waits(samples, blocks, "waits"),
        "cpu": {}, "memory": {}, "returns": {}, "fleet": {},
    }  # fmt: skip
    for tree, rows in samples.items():
        drawn["cpu"][tree] = series.cpu_over_time(rows, roles, cores, top, f"cpu-{tree}")
        drawn["memory"][tree] = series.memory_over_time(rows, master, top, f"memory-{tree}")
        drawn["returns"][tree] = series.returns_over_time(rows, tree, top, f"returns-{tree}")
        drawn["fleet"][tree] = series.fleet_over_time(rows, tree, top, f"fleet-{tree}") if rows.moments else ""
    return {
        name: {tree: Markup(svg) for tree, svg in drawing.items()} if isinstance(drawing, dict) else Markup(drawing)  # noqa: S704 - drawn here, and of no text of others
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


def _trust(result: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return why a result is not to be believed, and why it is to be doubted; one that nobody verified has neither."""
    wrong = result.get("disagrees", [])
    return {"disagrees": wrong, "doubts": [sentence for sentence in result.get("why", []) if sentence not in wrong]}


def _grouped(samples: Evidence) -> Evidence:
    """Return the samples with the roles that the page shows."""
    rows = [dataclasses.replace(row, role=theme.group(row.role)) for row in samples.processes]
    return dataclasses.replace(samples, processes=rows)
