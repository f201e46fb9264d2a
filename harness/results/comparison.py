"""Two runs side by side: what became better, what worse, and whether the two can be compared at all.

A ratio of two runs means something only if the same was asked of the same machine; what differs is said before any
figure is shown.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from harness import figures
from harness.errors import SettingsError
from harness.results import result as results
from harness.scenarios import thresholds

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from harness.figures import Figure

FORMAT = 1
# two runs of the same tree differ by so much on a machine that does other work too
NOISE = 0.15
GOOD, BAD = "good", "bad"
# of environment.json's section `machine`: what makes another machine of it
MACHINE = ("processor", "cores", "memory_gb", "system")


@dataclass(frozen=True)
class Change:
    """How a value compares to an earlier one: the state (good, bad or "" for no verdict) and words."""

    state: str
    text: str


ALIKE = Change("", "alike")


@dataclass(frozen=True)
class Line:
    """One figure of one tree in both runs; `ratio` is now divided by before, None where there is none."""

    tree: str
    name: str
    before: float | None
    now: float | None
    ratio: float | None
    change: Change | None

    def worse_than(self, bound: float) -> bool:
        """Return whether the figure became worse by more than `bound`, a share of its earlier value."""
        better = figures.BY_NAME[self.name].better
        if not better or self.now is None or self.before is None or self.now == self.before:
            return False
        if (self.now < self.before) == (better == "lower"):
            return False
        return not self.before or abs(self.now / self.before - 1) > bound


@dataclass(frozen=True)
class Comparison:
    """Run `run` compared to the earlier run `against`; `differences` say why they can't be compared, if so."""

    run: str
    against: str
    differences: tuple[str, ...]
    lines: tuple[Line, ...]

    @property
    def comparable(self) -> bool:
        """Return whether the same was asked of the same machine."""
        return not self.differences

    def worse(self, bound: float) -> tuple[Line, ...]:
        """Return the figures that became worse by more than `bound`."""
        return tuple(line for line in self.lines if line.worse_than(bound))

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        return {"format": FORMAT, "comparable": self.comparable, **asdict(self)}


def compare(folder: Path, against: Path) -> Comparison:
    """Compare the run in `folder` to that in `against`, both with a result.

    Raises SettingsError if one has none, or if they have no tree in common.
    """
    now, before = results.load(folder), results.load(against)
    pairs = _pairs(now["trees"], before["trees"])
    lines = [
        _line(tree, figure, before["trees"][earlier], now["trees"][tree])
        for tree, earlier in pairs.items()
        for figure in figures.FIGURES
        if figure.name not in figures.BY_ROLE
    ]
    differences = [*_scenarios(now["scenario"], before["scenario"]), *_machines(_facts(folder), _facts(against))]
    return Comparison(now["run"]["id"], before["run"]["id"], tuple(differences), tuple(lines))


def told(found: Comparison) -> list[str]:
    """Return the comparison as lines of text."""
    lines = [f"{found.run} against {found.against}"]
    lines += [f"NOT COMPARABLE: {difference}" for difference in found.differences]
    for line in found.lines:
        if line.before is not None and line.now is not None:
            ratio = "" if line.ratio is None else f"{line.ratio:.2f}"
            words = line.change.text if line.change else ""
            label = figures.BY_NAME[line.name].label
            lines.append(f"  {line.tree:8} {label:26} {line.before:>12g} {line.now:>12g} {ratio:>8}  {words}".rstrip())
    return lines


def change(figure: Figure, before: float | None, now: float | None) -> Change | None:
    """Return how `now` compares to `before`, None unless both are there and more or less of it is better."""
    if before is None or now is None or not figure.better:
        return None
    if before == now or (before and abs(now / before - 1) < NOISE):
        return ALIKE
    better = (now < before) == (figure.better == "lower")
    word = "better" if better else "worse"
    if figure.unit == "%":
        return Change(GOOD if better else BAD, f"{(now - before) * 100:+.1f} points, {word}")
    if not before or not now:
        return Change(GOOD if better else BAD, f"{'up from' if now else 'down to'} none")
    factor = max(before, now) / min(before, now)
    # one pair of runs can't tell a better time from chance, so it gets words, but no verdict's colour
    state = "" if figure.measured else GOOD if better else BAD
    return Change(state, f"{factor:.{1 if factor < 10 else 0}f}× {word}")  # noqa: PLR2004, RUF001


def _pairs(now: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, str]:
    """Return the earlier tree for each tree; runs of one tree each are compared whatever the trees."""
    common = {tree: tree for tree in now if tree in before}
    if not common and len(now) == len(before) == 1:
        common = dict(zip(now, before, strict=True))
    if not common:
        raise SettingsError(
            f"The runs have no tree in common ({', '.join(now)}; {', '.join(before)}): compare runs of the same tree."
        )
    return common


def _line(tree: str, figure: Figure, before: Mapping[str, Any], now: Mapping[str, Any]) -> Line:
    earlier, later = (thresholds.lookup(values, figure.name) for values in (before, now))
    ratio = round(later / earlier, 4) if earlier and later is not None else None
    return Line(tree, figure.name, earlier, later, ratio, change(figure, earlier, later))


def _scenarios(now: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    """Return what the scenarios differ in; words and limits change nothing of what was measured."""
    keys = sorted((now.keys() | before.keys()) - {"description", "thresholds", "name"})
    # a key that an older result lacks is one that nobody gave
    found = [key for key in keys if (now.get(key) or None) != (before.get(key) or None)]
    if now["name"] != before["name"] and found:
        return [f"another scenario: {now['name']}, not {before['name']} (different: {', '.join(found)})"]
    return [f"the scenario's `{key}` differs" for key in found]


def _machines(now: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    """Return what the machines differ in, by `environment.json`."""
    found = [
        f"another machine: {key.replace('_', ' ')} {now['machine'].get(key)}, not {before['machine'].get(key)}"
        for key in MACHINE
        if now["machine"].get(key) != before["machine"].get(key)
    ]
    if now["bed"] != before["bed"]:
        found.append(f"another bed: {now['bed']}, not {before['bed']}")
    return found


def _facts(folder: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((folder / "environment.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = {}
    return {"machine": found.get("machine", {}), "bed": found.get("bed", {}).get("made_of", "processes")}
