"""The result of a load run: figures computed from its raw samples, and nothing else.

The same samples always give the same result, so it can be computed again (`python -m harness result RUN`) when a
definition gets better. `harness.figures` holds the definition of each field.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.errors import SettingsError
from harness.results import differences, evidence, runs
from harness.results import trees as known
from harness.results.differences import middle, ranges
from harness.results.figures import of_tree
from harness.results.trees import cores
from harness.samples import Samples
from harness.scenarios import scenario as scenarios
from harness.scenarios import thresholds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from harness.results.differences import Pair
    from harness.results.evidence import Evidence
    from harness.scenarios.scenario import Scenario
    from harness.scenarios.thresholds import Verdict


FORMAT = 3
FILE = "result.json"
# keys of `run.json` that change while a run lasts, or say nothing about its result
PASSING = frozenset({"status", "problem", "host", "owner"})


@dataclass(frozen=True)
class Result:
    """The result of a run: each tree's figures, and what the scenario asks of them.

    `each` has the figures of each repeat, `trees` their medians; `differences` says what is more than chance. `first`
    are the samples of the first repeat, which pictures are made of.
    """

    run: runs.Run
    scenario: Scenario
    each: tuple[dict[str, dict[str, Any]], ...]
    trees: dict[str, dict[str, Any]]
    differences: tuple[Pair, ...]
    verdicts: tuple[Verdict, ...]
    first: dict[str, Evidence]

    @property
    def passed(self) -> bool:
        """Return whether every threshold was met."""
        return all(verdict.passed for verdict in self.verdicts)


def compute(folder: Path, look: Callable[[str, Path, Samples], None] = lambda *_: None) -> Result:
    """Return the result of the run in `folder`, from its samples.

    `look` gets the samples of each run of a tree, as they are read, with its label and its folder.

    Raises:
        SettingsError: if the run was not finished.
    """
    run = runs.read(folder)
    scenario = run.scenario(folder)
    each, first = list[dict[str, dict[str, Any]]](), dict[str, evidence.Evidence]()
    for number, places in enumerate(run.places(folder), start=1):
        each.append({})
        for tree, place in places.items():
            samples = Samples(place / "samples")
            look(tree if run.repeats == 1 else f"{tree}, repeat {number}", place, samples)
            found = evidence.of(samples)
            first.setdefault(tree, found)
            each[-1][tree] = of_tree(found, scenario)
    trees = {tree: middle([one[tree] for one in each]) for tree in run.trees}
    groups = known.same(run.trees, known.environment(folder).get("trees", {}), scenario)
    pairs = differences.pairs(each, groups, cores(folder))
    verdicts = thresholds.judge_all(scenario.thresholds, each)
    return Result(run, scenario, tuple(each), trees, tuple(pairs), tuple(verdicts), first)


def to_dict(result: Result, verdict: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of `result.json`: the result, and the `verdict` of its verification."""
    return {
        "format": FORMAT,
        "run": {name: value for name, value in dataclasses.asdict(result.run).items() if name not in PASSING},
        "passed": result.passed,
        **verdict,
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
        "scenario": scenarios.dump(result.scenario),
    }


def write(result: Result, folder: Path, verdict: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Write `result.json` into `folder` and return its content."""
    values = to_dict(result, verdict or {})
    (folder / FILE).write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    return values


def load(folder: Path) -> dict[str, Any]:
    """Return `result.json` of the run in `folder` as plain values.

    Raises:
        SettingsError: if it has none, or one of another format.
    """
    path = folder / FILE
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
