"""A verification: everything that can be said about whether a run's result may be believed.

A `Verifier` looks at samples as they are read. What it found goes into `result.json`: `trustworthy`, `why` not, and
`disagrees` where sources contradict each other or the result.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.errors import disk_error
from harness.results import result as results
from harness.results import runs
from harness.results.trees import cores
from harness.verify import conditions, jobs, log, silence
from harness.verify.store import DOUBT, NOTE, WRONG, Finding, Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from harness.results.result import Result
    from harness.samples import Samples

FORMAT = 1


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
        return [finding.sentence for finding in (*self.of(WRONG), *self.of(DOUBT))]

    @property
    def verdict(self) -> dict[str, Any]:
        """Return what `result.json` has of it."""
        disagrees = [finding.sentence for finding in self.of(WRONG)]
        return {"trustworthy": self.trustworthy, "why": self.why, "disagrees": disagrees}

    def of(self, weight: str) -> list[Finding]:
        """Return the findings of a weight."""
        return [finding for finding in self.findings if finding.weight == weight]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        return {
            "format": FORMAT,
            "run": self.run,
            "agrees": self.agrees,
            **self.verdict,
            "notes": [finding.sentence for finding in self.of(NOTE)],
            "figures": self.figures,
        }


class Verifier:
    """Compares the sources of one run, one run of a tree after the other."""

    def __init__(self, folder: Path) -> None:
        """Take the folder of the run."""
        run = runs.read(folder)
        self._id, self._scenario, self._cores = run.id, run.scenario(folder), cores(folder)
        self.findings: list[Finding] = []

    def look(self, label: str, place: Path, samples: Samples) -> None:
        """Compare the samples of the run of a tree, called `label`, in its folder `place`."""
        self.findings += log.differences(label, samples.folder)
        with Store(label, samples) as store:
            self.findings += store.findings
            for check in (jobs.of_requests, jobs.findings, jobs.of_returns, conditions.of_phases, silence.findings):
                self.findings += check(store, self._scenario)
            self.findings += log.findings(store, self._scenario, place / "logs")
            self.findings += log.fleet_findings(store, place / "logs")
            self.findings += silence.impossible(store, self._cores)
            self.findings += conditions.findings(store, self._cores)

    def found(self, trees: Mapping[str, Any]) -> Verification:
        """Return what was found; `trees` has the figures of the result."""
        return Verification(self._id, tuple(self.findings), len(dict(flattened(trees))))


def verify(folder: Path) -> Verification:
    """Verify the run in `folder`: compare its sources with each other, and its result with its samples.

    Raises:
        SettingsError: if the run has no result.
    """
    verifier, result = Verifier(folder), results.load(folder)
    try:
        computed = results.compute(folder, verifier.look)
        if missing := sorted(set(computed.run.trees) ^ set(result["trees"])):
            text = f"the result and run.json disagree on the trees: {', '.join(missing)}."
            verifier.findings.append(Finding("", WRONG, text))
        verifier.findings += _differences(result, computed)
    except Exception as error:  # noqa: BLE001 - changed samples break the computing in any way; each is a finding
        text = f"the samples give no result any more ({type(error).__name__}: {error})."
        verifier.findings.append(Finding("", WRONG, text))
    return verifier.found(result["trees"])


def record(folder: Path, found: Verification) -> None:
    """Write what was found into the result of the run in `folder`.

    Raises:
        SettingsError: if that can't be written.
    """
    try:
        text = json.dumps({**results.load(folder), **found.verdict}, indent=1)
        (folder / results.FILE).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise disk_error(error, folder) from error


def flattened(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted name of each value in nested tables; of a list how long it is."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from flattened(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", len(value) if isinstance(value, list | tuple) else value


def _differences(stored: Mapping[str, Any], computed: Result) -> Iterator[Finding]:
    """Yield the figures of `result.json` that its samples do not give."""
    pairs = [(tree, stored["trees"].get(tree), figures) for tree, figures in computed.trees.items()]
    # with one repeat, the figures of `trees` are those of the repeat
    if computed.run.repeats > 1:
        each = [*stored["repeats"], *[{}] * len(computed.each)]
        pairs += [
            (f"{tree}, repeat {number}", before.get(tree), figures)
            for number, (before, repeat) in enumerate(zip(each, computed.each, strict=False), start=1)
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


def describe(found: Verification) -> Iterator[str]:
    """Yield the verification as lines of text."""
    for weight, word in ((WRONG, "WRONG"), (DOUBT, "DOUBT"), (NOTE, "note")):
        yield from (f"{word}: {finding.sentence}" for finding in found.of(weight))
    if not found.agrees:
        yield f"{found.run}: the result does NOT agree with what the run left."
    else:
        yield f"{found.run}: {found.figures:,} figures agree with the samples, and all sources with each other."
    if found.agrees and not found.trustworthy:
        yield "But the measuring was disturbed: repeat the run before you trust its times."
