"""What the commands print of runs and scenarios."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness import figures
from harness.report import page, rows, sentences
from harness.report import verdict as verdicts
from harness.results import repeats
from harness.results import result as results
from harness.scenarios import thresholds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.figures import Figure
    from harness.results.result import Result
    from harness.scenarios.scenario import Scenario

OK, MISSED = 0, 1
"""Exit codes of commands that came to their end."""


def tell(folder: Path, found: Result, *, as_json: bool) -> int:
    """Print what became of a run, and return the exit code."""
    written = results.load(folder)
    code = OK if found.passed and not written["disagrees"] else MISSED
    if as_json:
        print((folder / "result.json").read_text(encoding="utf-8"), end="")
        return code
    width = max(len(figure.label) for figure in figures.FIGURES)
    for name, tree in found.trees.items():
        print(f"{name}:")
        for figure in (figure for figure in figures.FIGURES if figure.name not in figures.BY_ROLE):
            shown = rows.shown(figure, thresholds.lookup(tree, figure.name)) + rows.of_how_many(figure, tree)
            print(f"  {figure.label:{width}} {shown}{_range(figure, [one[name] for one in found.each])}")
    for verdict in found.verdicts:
        print(f"{'met' if verdict.passed else 'MISSED'}: {verdict.tree} {verdict.text}")
    for name, tree in found.trees.items():
        for gap in tree["gaps"]:
            print(f"{name}: {gap}; what needs it is not measured.")
    for name, remark in sentences.remarks(found.each[0]):
        print(f"{name}: {remark}")
    for pair in found.differences:
        print(verdicts.compared(pair))
    totals = {name: repeats.totals([one[name] for one in found.each]) for name in found.trees}
    print(verdicts.sentence(totals, len(found.each)))
    for sentence in written["why"]:
        print(f"{'WRONG' if sentence in written['disagrees'] else 'NOT TRUSTWORTHY'}: {sentence}")
    print(f"report: {shown_path(folder / page.FILE)}")
    return code


def _range(figure: Figure, results: Sequence[Mapping[str, object]]) -> str:
    """Return the range of a figure over the repeats of a tree, "" of one run."""
    found = repeats.values(results, figure.name)
    if len(found) < 2:  # noqa: PLR2004 - a number of things
        return ""
    return f"  ({rows.shown(figure, min(found))} to {rows.shown(figure, max(found))} in {len(found)} runs)"


def described(entry: Scenario) -> str:
    """Return a scenario in words."""
    lines = [
        f"{entry.name}: {entry.description}",
        f"  {entry.minions:,} minions, pillars from {entry.pillar}, seed {entry.seed}",
    ]
    lines += [f"  the fleet: {option.removeprefix('--').replace('=', ' ', 1)}" for option in entry.fleet]
    lines += [f"  {clients.text}" for clients in entry.clients]
    lines += [f"  after {moment.at_s:g} s: {moment.name}" for moment in entry.timeline]
    lines += [f"  has to hold: {threshold.text}" for threshold in entry.thresholds]
    return "\n".join(lines)


def shown_path(path: Path) -> str:
    """Return a path as short as the working folder allows."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
