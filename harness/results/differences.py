"""What trees of a run differ in by more than chance, and what can't be told.

Two trees, or two runs, differ in a figure only if they differ by more than two runs of the same tree do on the same
machine. Repeats show how much that is. Without them, exact tests compare what clients and minions got, and for times,
CPU, memory and rates there is a margin that pairs of the same tree have not been seen to exceed on a busy machine.

Each run is one observation, however many requests it has: what slows a machine down slows all of them. All orders of
runs of the same tree are equally likely, so of n and m such runs, all n lie above or below all m by chance in 2 of the
(n + m choose n) orders. That is rare enough from five and five on (`rare`); with fewer runs a margin makes up for the
missing ones, and for a single pair it decides alone.

Counts of single events can be compared in one pair of runs too, by tests that know how such counts vary: Fisher's
exact test of two shares, and the binomial test of two rates. Their events have to be independent of each other, so
callers count jobs, not the returns of a job, which are lost together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

from harness import choices as names
from harness import figures
from harness.scenarios import thresholds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.figures import Figure


@dataclass(frozen=True)
class Range:
    """The values that a figure had in the repeats that have it: how many, and from where to where."""

    n: int
    min: float
    median: float
    max: float


def middle(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the result of a tree with the median of each number over its repeats; of one repeat the result itself.

    A repeat that lacks a figure does not count for it; what is true or false is true if it was so in each.
    """
    return dict(results[0]) if len(results) == 1 else _middle(results)


def totals(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the result of a tree as `middle` does, but with the sum of each count and the longest of all waits."""
    counts = [figure.name for figure in figures.FIGURES if not figure.unit and figure.name != "minions"]
    summed = {name: sum(int(value) for value in values(results, name)) for name in counts if values(results, name)}
    waits = values(results, "longest_wait_s")
    return {**middle(results), **summed, **({"longest_wait_s": max(waits)} if waits else {})}


def ranges(results: Sequence[Mapping[str, Any]]) -> dict[str, Range]:
    """Return the range of each figure of a tree over its repeats; a figure that none has is left out."""
    found = {name: values(results, name) for name in fields(results)}
    return {name: range_of(of_one) for name, of_one in found.items() if of_one}


def range_of(found: Sequence[float]) -> Range:
    """Return the range of at least one value."""
    return Range(len(found), min(found), median(found), max(found))


def values(results: Sequence[Mapping[str, Any]], field: str) -> list[float]:
    """Return the values of a figure, in the order of the repeats; those without it are passed over."""
    found = (thresholds.lookup(result, field) for result in results)
    return [value for value in found if value is not None]


def fields(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of all figures of a tree, those by role too."""
    roles = [
        f"{name}.{role}"
        for name in figures.BY_ROLE
        for role in sorted({role for result in results for role in result.get(name, {})})
    ]
    return [*(figure.name for figure in figures.FIGURES if figure.name not in figures.BY_ROLE), *roles]


def _middle(found: Sequence[Any]) -> Any:
    there = [value for value in found if value is not None]
    if not there:
        return None
    first = there[0]
    if isinstance(first, dict):
        keys = dict.fromkeys(key for value in there for key in value)
        return {key: _middle([value[key] for value in there if key in value]) for key in keys}
    if isinstance(first, list | tuple):
        # what is missing in one repeat is named
        return list(dict.fromkeys(entry for value in there for entry in value))
    if isinstance(first, bool):
        return all(there)
    if not isinstance(first, int | float):
        return first
    number = median(there)
    whole = all(isinstance(value, int) for value in there) and number == int(number)
    return int(number) if whole else round(number, 4)


# the share of figures that may be called different between two runs of the same tree
LEVEL = 0.01
# the same for counts: the tests assume independent requests, but those of one bad moment fail together, so the level
# is much stricter
COUNTS_LEVEL = 0.001
# two ranges have to be apart by the wider one's spread, a ratio, to this power; with repeats by less, as for the margin
SPREADS = 2


def probability(one: int, other: int) -> float:
    """Return how probable it is that so many runs of a tree all lie above, or all below, those of the same tree."""
    return 2.0 / math.comb(one + other, one)


def rare(one: int, other: int) -> bool:
    """Return whether so many runs are enough to tell trees apart by their ranges alone."""
    return probability(one, other) <= LEVEL


def margin(wide: float, one: int, other: int) -> float:
    """Return the ratio that the ends of two ranges have to exceed: `wide` for a single pair, 1 where that is rare.

    Between them it follows the evidence (the logarithm of `probability`) that is missing for `LEVEL`.
    """
    if rare(one, other):
        return 1.0
    return math.exp(math.log(wide) * _missing(one, other))


def apart(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the ratio of the two ends between two ranges of values from 0 up; 1 if the ranges touch or overlap."""
    (low, high), (below, above) = (min(one), max(one)), (min(other), max(other))
    if low <= above and below <= high:
        return 1.0
    near, far = (high, below) if high < below else (above, low)
    return far / near if near > 0 else math.inf


def spread(values: Sequence[float]) -> float:
    """Return the ratio of the largest to the smallest of a tree's values, 1 of one value."""
    if min(values) == max(values):
        return 1.0
    return max(values) / min(values) if min(values) > 0 else math.inf


def told_apart(one: Sequence[float], other: Sequence[float], wide: float) -> bool:
    """Return whether the values of two trees' runs differ by more than chance; `wide` is the margin of a single pair.

    With few runs the gap also has to be as wide as the ranges beside it are, by which the runs tell their own noise.
    """
    gap = apart(one, other)
    if gap <= 1:
        return False
    sizes = (len(one), len(other))
    return gap > max(margin(wide, *sizes), margin(max(spread(one), spread(other)) ** SPREADS, *sizes))


def same_share(bad: float, of: float, other_bad: float, other_of: float) -> float:
    """Return the p-value (two-sided) of Fisher's exact test: `bad` of `of` events here, and so many there.

    Numbers with fractions are taken down to whole ones, which never makes a difference of none.
    """
    first, second, total = math.floor(bad), math.floor(other_bad), math.floor(of) + math.floor(other_of)
    drawn = math.floor(of)
    marked = first + second
    if not drawn or drawn == total or not 0 < marked < total:
        return 1.0
    terms = [
        _log_comb(marked, taken) + _log_comb(total - marked, drawn - taken) - _log_comb(total, drawn)
        for taken in (range(first + 1) if first * total <= marked * drawn else range(first, min(marked, drawn) + 1))
        if 0 <= drawn - taken <= total - marked
    ]
    return min(1.0, 2 * math.fsum(math.exp(term) for term in terms))


def same_rate(events: float, exposure: float, other_events: float, other_exposure: float) -> float:
    """Return the p-value (two-sided) of the same rate of events for each unit of exposure here and there."""
    here, there = math.floor(events), math.floor(other_events)
    total = here + there
    if not total or exposure <= 0 or other_exposure <= 0:
        return 1.0
    share = exposure / (exposure + other_exposure)
    # the smaller tail: as few as these, or as many
    tail = _tail(here, total, share) if here <= total * share else _tail(there, total, 1 - share)
    return min(1.0, 2 * tail)


def _missing(one: int, other: int) -> float:
    """Return how much of the evidence is missing that enough runs would give: 1 for a single pair, 0 for enough."""
    return max(0.0, 1 - math.log(probability(one, other)) / math.log(LEVEL))


def _tail(most: int, total: int, share: float) -> float:
    """Return the probability of at most `most` of `total` events that each come here with probability `share`."""
    here, there = math.log(share), math.log1p(-share)
    terms = (_log_comb(total, number) + number * here + (total - number) * there for number in range(most + 1))
    return math.fsum(math.exp(term) for term in terms)


def _log_comb(of: int, taken: int) -> float:
    return math.lgamma(of + 1) - math.lgamma(taken + 1) - math.lgamma(of - taken + 1)


Basis = Literal["ranges", "counts", "margin"]
Rule = Callable[[Mapping[str, Any]], tuple[float, float]]
# ratios that two runs of the same tree do not reach: for CPU and memory, and for times and rates
WIDE = {"ms": 2.0, "KB": 2.0, "MB": 2.0, "s": 5.0, "/s": 5.0}
# the share of all cores that other programs may use. Above it one pair of runs says nothing: other work that comes and
# goes can make most requests of one run fail and none of the next
BUSY = 0.15
# smaller ratios are not reported, however certain, nor differences below the resolution of samples and clocks
SMALL = 1.05
RESOLUTION = {"s": 0.1}
SAMPLED_S = {"settle_s": 2.0, "ramp_up_s": 2.0}
# figures of the simulated minions and the clients, which say nothing about a tree
OF_BED = frozenset(
    {
        "kb_per_minion",
        "fleet_cpu_ms_per_return",
        "fleet_cpu_ms_per_any_return",
        "sent_late_s.max",
        "sent_late_s.p95",
        "sent_late_s.late",
    }
)


@dataclass(frozen=True)
class Difference:
    """One figure of two trees, or of two runs: the range that each had, the ratio of the medians, and what is known.

    `basis` says what tells them apart: `ranges` of enough repeats, an exact test of `counts`, or a `margin` that takes
    the place of missing repeats; it is empty where nothing does. `ratio` is None where the base is zero.
    """

    name: str
    base: Range
    other: Range
    ratio: float | None
    basis: Basis | Literal[""]

    @property
    def differs(self) -> bool:
        """Return whether the two differ by more than chance."""
        return bool(self.basis)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        return {**asdict(self), "differs": self.differs}


@dataclass(frozen=True)
class Pair:
    """Two trees compared, `other` to `base`: the labels under which each ran, and a line for each figure of both.

    In a `control` both are the same tree: what it calls different, the machine has done. `busy` is whether others used
    the machine's processor during one of the runs.
    """

    base: tuple[str, ...]
    other: tuple[str, ...]
    control: bool
    lines: tuple[Difference, ...]
    busy: bool = False

    @property
    def blind(self) -> bool:
        """Return whether nothing can be told: one run each, and others used the machine meanwhile."""
        return self.busy and self.runs == (1, 1)

    @property
    def runs(self) -> tuple[int, int]:
        """Return how often each was run."""
        most = [max((getattr(line, side).n for line in self.lines), default=0) for side in ("base", "other")]
        return most[0], most[1]

    @property
    def different(self) -> tuple[Difference, ...]:
        """Return the lines that differ."""
        return tuple(line for line in self.lines if line.differs)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        lines = [line.to_dict() for line in self.lines]
        facts = {"base": self.base, "other": self.other, "control": self.control, "busy": self.busy}
        return {**facts, "figures": lines}


def from_dict(values: Mapping[str, Any]) -> Pair:
    """Return the pair that `to_dict` made plain values of."""
    lines = tuple(
        Difference(line["name"], Range(**line["base"]), Range(**line["other"]), line["ratio"], line["basis"])
        for line in values["figures"]
    )
    return Pair(tuple(values["base"]), tuple(values["other"]), values["control"], lines, values["busy"])


def pairs(
    each: Sequence[Mapping[str, Mapping[str, Any]]], groups: Sequence[Sequence[str]], cores: int = 1
) -> list[Pair]:
    """Return what is to be compared in a run: every other tree to the base, then each tree to itself.

    `each` holds the results of each repeat by label, `groups` the labels of each tree. The base is stock, or the first.
    A tree that ran under several labels is compared with all of its runs. The machine has so many `cores`.
    """
    ordered = sorted(groups, key=lambda group: names.kind(group[0]) != "stock")
    found = [_pair(each, ordered[0], group, cores) for group in ordered[1:]]
    found += [_pair(each, group[:1], (label,), cores, control=True) for group in ordered for label in group[1:]]
    return found


def judge(figure: Figure, base: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]]) -> Difference | None:
    """Return how a figure of the results `other` compares to `base`; None where it can't or nothing of it is better."""
    here, there = values(base, figure.name), values(other, figure.name)
    if not figure.better or figure.name in OF_BED or not here or not there:
        return None
    if figure.measured:
        return between(figure, here, there)
    # a repeat without the figure is left out of both sides
    counted = tuple([one for one in side if values([one], figure.name)] for side in (base, other))
    return _difference(figure, here, there, _counted(figure, (here, there), (counted[0], counted[1])))


def between(figure: Figure, here: Sequence[float], there: Sequence[float]) -> Difference | None:
    """Return how a measured figure's values of some runs compare to those of others, None where one side has none."""
    if not here or not there:
        return None
    resolution = SAMPLED_S.get(figure.name, RESOLUTION.get(figure.unit, 0.0))
    low, high = sorted((median(here), median(there)))
    apart = high - low > resolution and high > low * SMALL and told_apart(here, there, WIDE[figure.unit])
    basis: Basis = "ranges" if rare(len(here), len(there)) else "margin"
    return _difference(figure, here, there, basis if apart else "")


def _difference(
    figure: Figure, here: Sequence[float], there: Sequence[float], basis: Basis | Literal[""]
) -> Difference:
    first, second = median(here), median(there)
    ratio = round(second / first, 4) if first else None
    return Difference(figure.name, range_of(here), range_of(there), ratio, basis)


def _counted(
    figure: Figure, found: tuple[Sequence[float], Sequence[float]], results: tuple[Sequence[Any], Sequence[Any]]
) -> Basis | Literal[""]:
    """Return what tells two series of a count or a share apart, "" if nothing does.

    With repeats their ranges have to be apart too: the same event may have befallen many of one run's requests.
    """
    sizes = (len(found[0]), len(found[1]))
    if max(sizes) > 1 and apart(*found) <= 1:
        return ""
    if rare(*sizes):
        return "ranges"
    rule = SHARES.get(figure.name) or RATES.get(figure.name)
    if rule is None:
        return ""
    (events, of), (other_events, other_of) = (_total(rule, side) for side in results)
    grown = _badness(figure, median(found[1])) - _badness(figure, median(found[0]))
    # counts say something only if they differ in the direction of the figure: not more events of many more requests
    if grown * (other_events * of - events * other_of) <= 0:
        return ""
    test = same_share if figure.name in SHARES else same_rate
    return "counts" if test(events, of, other_events, other_of) < COUNTS_LEVEL else ""


def _badness(figure: Figure, value: float) -> float:
    """Return how bad a value is: its distance from the best one of a figure that has one, else the value itself."""
    if figure.floor is not None:
        return abs(value - figure.floor)
    return -value if figure.better == "higher" else value


def _pair(
    each: Sequence[Mapping[str, Mapping[str, Any]]],
    base: Sequence[str],
    other: Sequence[str],
    cores: int,
    *,
    control: bool = False,
) -> Pair:
    here, there = ([trees[label] for trees in each for label in side] for side in (base, other))
    found = (judge(figure, here, there) for figure in figures.FIGURES if figure.name not in figures.BY_ROLE)
    pair = Pair(tuple(base), tuple(other), control, tuple(line for line in found if line), busy([*here, *there], cores))
    if pair.blind:
        return replace(pair, lines=tuple(replace(line, basis="") for line in pair.lines))
    return pair


def busy(results: Sequence[Mapping[str, Any]], cores: int) -> bool:
    """Return whether others used much of the machine's cores during one of these runs, as far as that is known."""
    return any((result.get("others_cores") or 0.0) > BUSY * cores for result in results)


def _total(rule: Rule, results: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    counted = [rule(result) for result in results]
    return sum(events for events, _ in counted), sum(of for _, of in counted)


def _jobs(field: str) -> Rule:
    """Return the rule of returns that are missing, counted as whole jobs: those of one job are missing together."""

    def count(result: Mapping[str, Any]) -> tuple[float, float]:
        return result["jobs_accepted"] * result[field] / (result["returns_expected"] or 1), result["jobs_accepted"]

    return count


def _per_job(field: str) -> Rule:
    """Return the rule of a figure that is a ratio of returns or executions, counted as whole jobs."""
    return lambda result: (result["publications"] * (result[field] or 0.0), result["publications"])


def _of(field: str, whole: str) -> Rule:
    """Return the rule of a count, `field`, out of all events, `whole`."""
    return lambda result: (result[field], result[whole])


def _polls(result: Mapping[str, Any]) -> tuple[float, float]:
    """Return find_jobs as polls of as many minions as a job has, for each job that was requested."""
    return result["find_jobs"] * result["jobs_accepted"] / (result["returns_expected"] or 1), result["jobs_requested"]


def _unacknowledged(result: Mapping[str, Any]) -> tuple[float, float]:
    return result["publications"] * (1 - result["acknowledged_ratio"]), result["publications"]


def _repeated(result: Mapping[str, Any]) -> tuple[float, float]:
    """Return the jobs that are more than were requested, or fewer."""
    return abs(result["publications"] - result["jobs_requested"]), result["jobs_requested"]


# how each count is tested, in events that are independent of each other: as a share of a whole, or as a rate
SHARES: dict[str, Rule] = {
    **{one.name: _of(one.name, one.share_of) for one in figures.FIGURES if one.share_of},
    "never_reached": _jobs("never_reached"),
    "returns_unfinished": _jobs("returns_unfinished"),
    "returns_lost": _jobs("returns_lost"),
    "acknowledged_ratio": _unacknowledged,
}
RATES: dict[str, Rule] = {
    "publications_per_job": _repeated,
    "duplicate_ratio": _per_job("duplicate_ratio"),
    "heard_per_execution": _per_job("heard_per_execution"),
    "find_jobs": _polls,
    "find_jobs_per_execution": _per_job("find_jobs_per_execution"),
}
