"""A verification: everything that can be said about whether a run's result may be believed.

`verify` looks, `record` writes what it found into `result.json`: `trustworthy`, `why` not, and `disagrees` where
sources contradict each other or the result.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.errors import SettingsError, disk_error
from harness.results import result as results
from harness.results import runs
from harness.results.trees import cores
from harness.verify import conditions, jobs, log, returns, silence
from harness.verify.store import DOUBT, NOTE, WRONG, Finding, Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from harness.results.result import Result
    from harness.scenarios.scenario import Scenario

FORMAT = 1
RESULT = "result.json"


@dataclass(frozen=True)
class Verification:
    """What was found in run `run`; `figures` says how many of the result were compared."""

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


def verify(folder: Path, computed: Result | None = None) -> Verification:
    """Verify the run in `folder`; `computed` is its result where the caller has just computed it from the samples.

    Raises SettingsError if the run has no result.
    """
    run = runs.read(folder)
    result = _result(folder)
    scenario = run.scenario(folder)
    findings: list[Finding] = []
    trees = result["trees"]
    if missing := sorted(set(run.trees) ^ set(trees)):
        findings.append(Finding("", WRONG, f"the result and run.json disagree on the trees: {', '.join(missing)}."))
    for number, places in enumerate(run.places(folder)):
        for tree, place in places.items():
            label = _label(tree, number, run.repeats)
            findings += log.differences(label, place / "samples")
            with Store(label, place / "samples") as store:
                found = _look(store, scenario, place, cores(folder))
                findings += [*store.findings, *found]
    try:
        findings += _differences(result, computed or results.compute(folder))
    except Exception as error:  # noqa: BLE001 - changed samples break the computing in any way; each is a finding
        text = f"the samples give no result any more ({type(error).__name__}: {error})."
        findings.append(Finding("", WRONG, text))
    return Verification(run.id, tuple(findings), len(dict(flattened(trees))))


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


def flattened(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted name of each value in nested tables; of a list how long it is."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from flattened(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", len(value) if isinstance(value, list | tuple) else value


def _label(tree: str, number: int, repeats: int) -> str:
    return tree if repeats == 1 else f"{tree}, repeat {number + 1}"


def _look(store: Store, scenario: Scenario, place: Path, cores: int) -> list[Finding]:
    """Return what is found in the samples of one tree's run in `place`."""
    found: list[Finding] = []
    for check in (
        jobs.of_requests,
        jobs.findings,
        returns.findings,
        conditions.of_phases,
        silence.findings,
    ):
        found += check(store, scenario)
    found += log.findings(store, scenario, place / "logs")
    found += log.fleet_findings(store, place / "logs")
    found += silence.impossible(store, cores)
    found += conditions.findings(store, cores)
    return found


def _differences(told: Mapping[str, Any], computed: Result) -> Iterator[Finding]:
    """Yield the figures of `result.json` that its samples do not give."""
    pairs = [(tree, told["trees"].get(tree), figures) for tree, figures in computed.trees.items()]
    # with one repeat, the figures of `trees` are those of the repeat
    if computed.run.repeats > 1:
        each = [*told.get("repeats", []), *[{}] * len(computed.each)]
        pairs += [
            (_label(tree, number, computed.run.repeats), each[number].get(tree), figures)
            for number, repeat in enumerate(computed.each)
            for tree, figures in repeat.items()
        ]
    for label, values, figures in pairs:
        flat, again = dict(flattened(values or {})), dict(flattened(figures))
        for name in sorted(flat.keys() | again.keys()):
            # that there are no samples of the machine is a doubt of its own
            unmeasured = name == "others_cores" and again.get(name) is None
            if not unmeasured and (name not in flat or name not in again or flat[name] != again[name]):
                text = f"{name} is {flat.get(name)} in the result; its samples give {again.get(name)}."
                yield Finding(label, WRONG, text)


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
        yield f"{found.run}: {found.figures:,} figures agree with the samples, and all sources with each other."
    if found.agrees and not found.trustworthy:
        yield "But the measuring was disturbed: repeat the run before you trust its times."
