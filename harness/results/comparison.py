"""Two runs side by side: what became better, what worse, and whether the two can be compared at all.

A ratio of two runs means something only if both had the same load on the same machine; other differences are shown
before any figure. The runs did not take turns, so their times, CPU and memory count as one pair, however often each was
repeated: the machine may have changed between them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any

from harness import figures
from harness.errors import SettingsError
from harness.results import differences, trees
from harness.results import result as results
from harness.results.differences import values

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from harness.figures import Figure
    from harness.results.differences import Difference

FORMAT = 1
GOOD, BAD = "good", "bad"
# keys of the section `machine` of environment.json that have to be equal for the same machine
MACHINE = ("processor", "cores", "memory_gb", "system")


@dataclass(frozen=True)
class Change:
    """How a value compares to an earlier one: the state (good, bad or "" for no verdict) and words."""

    state: str
    text: str


ALIKE = Change("", "alike")
UNTOLD = Change("", "not told apart")


@dataclass(frozen=True)
class Line:
    """One figure of one tree in both runs; `ratio` is now divided by before, None where there is none."""

    tree: str
    name: str
    before: float | None
    now: float | None
    ratio: float | None
    change: Change | None


@dataclass(frozen=True)
class Comparison:
    """Run `run` compared to the earlier run `against`; `differences` say why they can't be compared, if so."""

    run: str
    against: str
    differences: tuple[str, ...]
    lines: tuple[Line, ...]

    @property
    def comparable(self) -> bool:
        """Return whether both had the same load on the same machine."""
        return not self.differences

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        return {"format": FORMAT, "comparable": self.comparable, **asdict(self)}


def compare(folder: Path, against: Path) -> Comparison:
    """Compare the run in `folder` to that in `against`, both with a result.

    Raises:
        SettingsError: if one has none, or if they have no tree in common.
    """
    now, before = results.load(folder), results.load(against)
    pairs = _pairs(now["trees"], before["trees"])
    cores = trees.cores(folder)
    lines = [
        _line(tree, figure, _series(figure, before, earlier), _series(figure, now, tree), cores)
        for tree, earlier in pairs.items()
        for figure in figures.FIGURES
        if figure.name not in figures.BY_ROLE
    ]
    differences = [
        *_scenarios(now["scenario"], before["scenario"]),
        *_machines(trees.environment(folder), trees.environment(against)),
    ]
    return Comparison(now["run"]["id"], before["run"]["id"], tuple(differences), tuple(lines))


def describe(found: Comparison) -> list[str]:
    """Return the comparison as lines of text."""
    lines = [f"{found.run} against {found.against}"]
    lines += [f"NOT COMPARABLE: {difference}" for difference in found.differences]
    for line in found.lines:
        if line.before is not None or line.now is not None:
            before, now = ("-" if value is None else f"{value:g}" for value in (line.before, line.now))
            ratio = "" if line.ratio is None else f"{line.ratio:.2f}"
            words = line.change.text if line.change else ""
            label = figures.BY_NAME[line.name].label
            lines.append(f"  {line.tree:8} {label:26} {before:>12} {now:>12} {ratio:>8}  {words}".rstrip())
    return lines


def change(found: Difference | None) -> Change | None:
    """Return in words how two compare, None where nothing of the figure is better or one of them lacks it.

    A difference that only its size vouches for gets words, but no verdict's colour.
    """
    if found is None:
        return None
    figure, before, now = figures.BY_NAME[found.name], found.base.median, found.other.median
    if not found.differs:
        return ALIKE if (found.base.min, found.base.max) == (found.other.min, found.other.max) else UNTOLD
    if figure.floor is not None and min(before, now) < figure.floor:
        text = f"below {figure.floor:g}" if now < figure.floor else f"below {figure.floor:g} before"
        return Change(BAD if now < figure.floor else GOOD, text)
    better = (now < before) == (figure.better == "lower")
    word = "better" if better else "worse"
    state = GOOD if better else BAD
    if figure.unit == "%":
        return Change(state, f"{(now - before) * 100:+.1f} points, {word}")
    if not before or not now:
        return Change(state, f"{'up from' if now else 'down to'} none")
    factor = max(before, now) / min(before, now)
    text = f"{factor:.{1 if factor < 10 else 0}f}×"  # noqa: PLR2004, RUF001 - a multiplication sign
    return Change("", f"differs {text}") if found.basis == "margin" else Change(state, f"{text} {word}")


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


def _series(figure: Figure, result: Mapping[str, Any], tree: str) -> list[Mapping[str, Any]]:
    """Return the results of a tree that count: of a measured figure the medians of its repeats, as one run."""
    return [result["trees"][tree]] if figure.measured else [one[tree] for one in result["repeats"]]


def _line(tree: str, figure: Figure, before: list[Mapping[str, Any]], now: list[Mapping[str, Any]], cores: int) -> Line:
    earlier, later = (median(found) if (found := values(side, figure.name)) else None for side in (before, now))
    ratio = round(later / earlier, 4) if earlier and later is not None else None
    line = differences.judge(figure, before, now)
    if line and len(before) == len(now) == 1 and differences.busy([*before, *now], cores):
        line = replace(line, basis="")
    return Line(tree, figure.name, earlier, later, ratio, change(line))


def _scenarios(now: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    """Return what the scenarios differ in; descriptions and thresholds do not count, as they change no measurement."""
    keys = sorted((now.keys() | before.keys()) - {"description", "thresholds", "name"})
    # a key that an older result lacks was not given there
    found = [key for key in keys if (now.get(key) or None) != (before.get(key) or None)]
    if now["name"] != before["name"] and found:
        return [f"another scenario: {now['name']}, not {before['name']} (different: {', '.join(found)})"]
    return [f"the scenario's `{key}` differs" for key in found]


def _machines(now: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    """Return what the machines differ in, by `environment.json`."""
    mine, theirs = now.get("machine", {}), before.get("machine", {})
    found = [
        f"another machine: {key.replace('_', ' ')} {mine.get(key)}, not {theirs.get(key)}"
        for key in MACHINE
        if mine.get(key) != theirs.get(key)
    ]
    made, other = (facts.get("bed", {}).get("made_of", "processes") for facts in (now, before))
    if made != other:
        found.append(f"another bed: {made}, not {other}")
    return found
