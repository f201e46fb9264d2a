"""The result of a load run: figures computed from its raw samples, and nothing else.

The same samples always give the same result, so it can be computed again (`python -m harness result RUN`) when a
definition gets better. `harness.figures` holds the definition of each field.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness import figures
from harness.errors import SettingsError
from harness.results import differences, evidence, runs
from harness.results import trees as known
from harness.results.figures import of_tree
from harness.results.repeats import middle, ranges
from harness.results.trees import cores
from harness.scenarios import scenario as scenarios
from harness.scenarios import thresholds

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from harness.results.differences import Pair
    from harness.scenarios.scenario import Scenario
    from harness.scenarios.thresholds import Verdict


FORMAT = 3
# keys of `run.json` that change while a run lasts, or say nothing about its result
PASSING = frozenset({"status", "problem", "host", "owner"})


@dataclass(frozen=True)
class Result:
    """The result of a run: each tree's figures, what the scenario asks of them, and patched divided by stock.

    `each` has the figures of each repeat, `trees` their medians; `differences` says what is more than chance.
    """

    run: runs.Run
    scenario: Scenario
    each: tuple[dict[str, dict[str, Any]], ...]
    trees: dict[str, dict[str, Any]]
    differences: tuple[Pair, ...]
    comparison: dict[str, float]
    verdicts: tuple[Verdict, ...]

    @property
    def passed(self) -> bool:
        """Return whether every threshold was met."""
        return all(verdict.passed for verdict in self.verdicts)


def compute(folder: Path) -> Result:
    """Return the result of the run in `folder`, from its samples."""
    run = runs.read(folder)
    scenario = run.scenario(folder)
    each = tuple(
        {tree: of_tree(evidence.read(place / "samples"), scenario) for tree, place in places.items()}
        for places in run.places(folder)
    )
    trees = {tree: middle([one[tree] for one in each]) for tree in run.trees}
    groups = known.same(run.trees, known.recorded(folder), scenario)
    pairs = differences.pairs(each, groups, cores(folder))
    verdicts = thresholds.judge_all(scenario.thresholds, each)
    return Result(run, scenario, each, trees, tuple(pairs), _comparison(trees), tuple(verdicts))


def write(result: Result, folder: Path) -> Path:
    """Write `result.json` into `folder` and return its path."""
    values = {
        "format": FORMAT,
        "run": {name: value for name, value in dataclasses.asdict(result.run).items() if name not in PASSING},
        "passed": result.passed,
        "thresholds": [dataclasses.asdict(verdict) for verdict in result.verdicts],
        "trees": result.trees,
        "ranges": {
            tree: {
                name: dataclasses.asdict(found) for name, found in ranges([one[tree] for one in result.each]).items()
            }
            for tree in result.trees
        },
        "differences": [pair.to_dict() for pair in result.differences],
        "repeats": result.each,
        "comparison": result.comparison,
        "scenario": scenarios.dump(result.scenario),
    }
    path = folder / "result.json"
    path.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    return path


def _comparison(trees: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Return patched divided by stock for each figure that both have and stock's isn't zero."""
    if not {"stock", "patched"} <= trees.keys():
        return {}
    ratios = {}
    for figure in figures.FIGURES:
        stock, patched = (thresholds.lookup(trees[tree], figure.name) for tree in ("stock", "patched"))
        if stock and patched is not None:
            ratios[figure.name] = round(patched / stock, 4)
    return ratios


def load(folder: Path) -> dict[str, Any]:
    """Return `result.json` of the run in `folder` as plain values.

    Raises SettingsError if it has none, or one of another format.
    """
    path = folder / "result.json"
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        how = ""
        if (folder / "run.json").is_file() and (run := runs.read(folder)).status != "finished":
            how = f" (the run's status is {run.status})"
        advice = f"run `build/venv/bin/python -m harness result {folder}`"
        raise SettingsError(f"{path} is missing or broken{how}: {advice}.") from error
    if values.get("format") != FORMAT:
        advice = f"run `build/venv/bin/python -m harness result {folder}`, which computes it again from the samples"
        raise SettingsError(f"{path} has format {values.get('format')} instead of {FORMAT}: {advice}.")
    return values
