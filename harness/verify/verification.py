"""A verification: everything that can be said about whether a run's result may be believed.

`verify` looks, `record` writes what it found into `result.json`: `trustworthy`, `why` not, and `disagrees` where
sources contradict each other or the result.
"""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.errors import SettingsError, disk_error
from harness.results import machine, runs
from harness.verify import conditions, figures, jobs, log, manifest, phases, requests, returns, silence
from harness.verify.finding import DOUBT, NOTE, WRONG, Finding
from harness.verify.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.scenarios.scenario import Scenario

FORMAT = 1
RESULT = "result.json"


@dataclass(frozen=True)
class Verification:
    """What was found in run `run`; `figures` says how many figures were worked out again."""

    run: str
    findings: tuple[Finding, ...]
    figures: int

    @property
    def agrees(self) -> bool:
        """Return whether all sources agree with each other and with the result."""
        return not self.of(WRONG)

    @property
    def trustworthy(self) -> bool:
        """Return whether nothing disagrees and nothing disturbed the measurement."""
        return self.agrees and not self.of(DOUBT)

    @property
    def why(self) -> list[str]:
        """Return why it is not trustworthy, in sentences, the worst first."""
        return [finding.told for finding in (*self.of(WRONG), *self.of(DOUBT))]

    def of(self, weight: str) -> list[Finding]:
        """Return the findings of a weight."""
        return [finding for finding in self.findings if finding.weight == weight]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        return {
            "format": FORMAT,
            "run": self.run,
            "agrees": self.agrees,
            "trustworthy": self.trustworthy,
            "why": self.why,
            "disagrees": [finding.told for finding in self.of(WRONG)],
            "notes": [finding.told for finding in self.of(NOTE)],
            "figures": self.figures,
        }


def verify(folder: Path) -> Verification:
    """Verify the run in `folder`. Raises SettingsError if it has no result."""
    run = runs.read(folder)
    result = _result(folder)
    scenario = run.scenario(folder)
    findings: list[Finding] = []
    count = 0
    trees = result.get("trees", {})
    if missing := sorted(set(run.trees) ^ set(trees)):
        findings.append(Finding("", WRONG, f"the result and run.json disagree on the trees: {', '.join(missing)}."))
    # with one repeat, the figures of `trees` are those of the repeat
    each = [trees] if run.repeats == 1 else result.get("repeats", [])
    findings += _medians(trees, each)
    for number, places in enumerate(run.places(folder)):
        for tree, place in places.items():
            label = tree if run.repeats == 1 else f"{tree}, repeat {number + 1}"
            told = each[number].get(tree, {}) if number < len(each) else {}
            findings += manifest.differences(label, place / "samples")
            with Store(label, place / "samples") as store:
                found, figures_of_tree = _look(store, scenario, place, told, machine.cores(folder))
                findings += [*store.findings, *found]
                count += figures_of_tree
    return Verification(run.id, tuple(findings), count)


def record(folder: Path, found: Verification) -> None:
    """Write what was found into the result of the run in `folder`. Raises SettingsError if that can't be written."""
    result = _result(folder)
    first = {name: result.pop(name) for name in ("format", "run", "passed") if name in result}
    verdict = {name: value for name, value in found.to_dict().items() if name in ("trustworthy", "why", "disagrees")}
    try:
        text = json.dumps({**first, **verdict, **{key: result[key] for key in result if key not in verdict}}, indent=1)
        (folder / RESULT).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise disk_error(error, folder) from error


def _look(store: Store, scenario: Scenario, place: Path, told: dict[str, Any], cores: int) -> tuple[list[Finding], int]:
    """Return what is found in the samples of one tree's run in `place`, and how many figures were worked out."""
    found: list[Finding] = []
    numbers: dict[str, float | None] = {}
    for check in (requests.findings, jobs.findings, returns.findings, phases.findings, silence.findings):
        found += check(store, scenario)
    found += log.findings(store, scenario, place / "logs")
    found += log.fleet_findings(store, place / "logs")
    found += silence.impossible(store, cores)
    found += conditions.findings(store, cores)
    if store.timeline:
        numbers = figures.of_tree(store, scenario)
        found += figures.differences(store.tree, told, numbers)
    return found, len(numbers)


def _medians(trees: dict[str, Any], each: list[dict[str, Any]]) -> Iterator[Finding]:
    """Yield the figures of trees that are not the medians of their repeats."""
    for tree, told in trees.items():
        for name, value in told.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                continue
            found = [one[tree].get(name) for one in each if tree in one]
            middle = statistics.median([number for number in found if number is not None] or [math.nan])
            if not math.isclose(middle, value, abs_tol=1e-3):
                text = f"{name} is {value:g} in the result; the median of its repeats is {middle:g}."
                yield Finding(tree, WRONG, text)


def _result(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / RESULT).read_text(encoding="utf-8"))
        if isinstance(found["trees"], dict):
            return dict(found)
    except (OSError, ValueError, LookupError, TypeError):
        pass
    raise SettingsError(
        f"{folder / RESULT} is missing or broken, so there is nothing to verify: run `python -m harness result` first."
    )


def told(found: Verification) -> Iterator[str]:
    """Yield the verification as lines of text."""
    for weight, word in ((WRONG, "WRONG"), (DOUBT, "DOUBT"), (NOTE, "note")):
        yield from (f"{word}: {finding.told}" for finding in found.of(weight))
    if not found.agrees:
        yield f"{found.run}: the result does NOT agree with what the run left."
    else:
        yield f"{found.run}: {found.figures:,} figures worked out a second time, all sources agree."
    if found.agrees and not found.trustworthy:
        yield "But the measuring was disturbed: repeat the run before you trust its times."
