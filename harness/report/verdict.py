"""The verdict in words: whether a run went well, for somebody who has ten seconds.

Thresholds of the scenario decide where it has some. Without them a tree's own figures do, by limits that are printed
here and in the report: they tell a healthy master from one that struggles and from one that has collapsed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness import figures
from harness.results import differences

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.results.differences import Difference, Pair

GOOD, WARN, BAD = "good", "warn", "bad"
# a tree has collapsed if half of its clients got no complete answer, or most of what its minions sent was for nothing
COLLAPSED_ERRORS = 0.5
COLLAPSED_ACKNOWLEDGED = 0.5
HEALTHY_ACKNOWLEDGED = 0.95
# figures of which a healthy master has none
MISSING = ("client_errors", "returns_lost", "jobs_unpublished")
RULES = (
    "Went well: every client got a complete answer, every job was published, no return was lost, and at least 95 % of "
    "the sends were acknowledged. "
    "Collapsed: at least half of the clients got no complete answer, or less than half of the sends were acknowledged. "
    "Struggled: anything between."
)
ONE_PAIR = (
    f"counts are compared by exact tests; a time or rate differs beyond {differences.WIDE['s']:g}×, CPU and memory "  # noqa: RUF001 - a multiplication sign
    f"beyond {differences.WIDE['ms']:g}×."  # noqa: RUF001 - a multiplication sign
)


@dataclass(frozen=True)
class TreeVerdict:
    """How one tree fared: the state, one word or two for it, and the figures behind it in sentences."""

    tree: str
    state: str
    word: str
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Headline:
    """The verdict of the whole run: the state, the sentence that says what came of it, and what limits say to that."""

    state: str
    text: str
    limits: str


def of_tree(tree: str, result: Mapping[str, Any]) -> TreeVerdict:
    """Return how `tree` fared by its result."""
    errors = result["client_errors"] / max(1, result["client_requests"])
    acknowledged = result["acknowledged_ratio"]
    acknowledged = 1.0 if acknowledged is None else acknowledged
    if errors >= COLLAPSED_ERRORS or acknowledged < COLLAPSED_ACKNOWLEDGED:
        state, word = BAD, "collapsed"
    elif any(result[name] for name in MISSING) or acknowledged < HEALTHY_ACKNOWLEDGED:
        state, word = WARN, "struggled"
    else:
        state, word = GOOD, "went well"
    if not result["client_requests"]:
        state, word = WARN, "was asked for nothing"
    return TreeVerdict(tree, state, word, tuple(_sentences(result)))


def headline(result: Mapping[str, Any], trees: list[TreeVerdict], repeats: int = 1) -> Headline:
    """Return the verdict of the run from its `result.json` and the verdicts of its trees.

    `repeats` says over how many runs of each tree its counts go.
    Limits of the scenario decide on the state, where it has some.
    """
    missed = [verdict for verdict in result["thresholds"] if not verdict["passed"]]
    text, count = sentence(result["trees"], repeats), len(result["thresholds"])
    worst = next((state for state in (BAD, WARN, GOOD) if any(verdict.state == state for verdict in trees)), GOOD)
    if not count:
        return Headline(worst, text, "")
    limits = f"{count} limits" if count > 1 else "limit"
    if missed:
        return Headline(BAD, text, f"{len(missed)} of the scenario's {limits} missed: {_named(missed)}.")
    return Headline(GOOD, text, f"The scenario's {limits} met.")


def compared(pair: Pair) -> str:
    """Return in one sentence in how many figures two trees differ by more than chance."""
    base, other = " and ".join(pair.base), " and ".join(pair.other)
    one, two = pair.runs
    runs = f"{one} run{'s' if one > 1 else ''} each" if one == two else f"{two} runs against {one}"
    if pair.blind:
        return f"Whether {other} differs from {base} can't be told: {runs}, and others used the machine meanwhile."
    found = pair.different
    count = f"{len(found)} of {len(pair.lines)} figures"
    named = f": {_labels(found)}" if found else ""
    if pair.control:
        end = f"{named}. The machine alone does that" if found else ""
        verb = "is" if len(found) == 1 else "are"
        return f"{other} is {base} once more ({runs}), and {count} {verb} called different{end}."
    return f"{other} differs from {base} by more than chance in {count} ({runs}){named}."


def grounds(pairs: Sequence[Pair]) -> str:
    """Return by what rule figures are called different, as the number of runs allows."""
    if not pairs:
        return ""
    if pairs[0].blind:
        return (
            "Others used the processor meanwhile: one run of each tree on a busy machine tells nothing, whatever the "
            "figures are. Repeat it on a quiet one, or with `--repeat 5`."
        )
    one, two = (max(1, runs) for runs in pairs[0].runs)
    if differences.rare(one, two):
        once_in = 1 / differences.probability(one, two)
        return (
            "A figure differs if each run of one tree is beyond each run of the other, and the medians are more than "
            f"{differences.SMALL - 1:.0%} apart; by chance that comes once in {once_in:.0f} figures."
        )
    margins = [f"{differences.margin(wide, one, two):.1f}×" for wide in (differences.WIDE["s"], differences.WIDE["ms"])]  # noqa: RUF001 - a multiplication sign
    if one == two == 1:
        return f"Of one pair of runs, {ONE_PAIR} Smaller differences take repeats: `--repeat 5`."
    return (
        "With so few repeats, the ranges have to be apart: counts as an exact test of all runs wants it, a time or "
        f"rate by {margins[0]}, CPU and memory by {margins[1]}, and by more than the ranges are wide. Smaller "
        "differences take more repeats: `--repeat 5`."
    )


def _labels(lines: Sequence[Difference]) -> str:
    labels = [figures.BY_NAME[line.name].label for line in lines]
    return ", ".join(
        label if label[1:2].isupper() or "_" in label else label[:1].lower() + label[1:] for label in labels
    )


def sentence(trees: Mapping[str, Mapping[str, Any]], repeats: int = 1) -> str:
    """Return in one sentence what clients got of each tree: complete answers, and the longest wait for one."""
    said = []
    for tree, result in trees.items():
        asked = result["client_requests"]
        if not asked:
            said.append(f"{tree}: no request was sent")
            continue
        counts = f"{asked - result['client_errors']:,} of {asked:,}"
        # results of older versions have no longest wait
        longest = result.get("longest_wait_s")
        wait = "" if longest is None else duration(longest)
        if said:
            said.append(f"{tree}: {', '.join(filter(None, [counts, wait]))}")
        else:
            wait = f", the longest wait was {wait}" if wait else ""
            times = f" in {repeats} runs" if repeats > 1 else ""
            said.append(f"{tree}: {counts} requests got a complete answer{times}{wait}")
    return f"{'; '.join(said)}."


def duration(seconds: float) -> str:
    """Return a time in words, as exact as somebody who waits would tell it."""
    if seconds < 9.95:  # noqa: PLR2004  # below, a tenth of a second tells something
        return f"{seconds:.1f} s"
    if seconds < 119.5:  # noqa: PLR2004  # two minutes, rounded
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"


def _named(missed: list[Mapping[str, Any]]) -> str:
    """Return the missed limits, each once with its trees."""
    trees: dict[str, list[str]] = {}
    for limit in missed:
        trees.setdefault(limit["field"], []).append(limit["tree"])
    return ", ".join(f"{field} ({' and '.join(names)})" for field, names in trees.items())


def _sentences(result: Mapping[str, Any]) -> list[str]:
    if not result["client_requests"]:
        return ["No request was sent."]
    answered = result["client_requests"] - result["client_errors"]
    said = [f"{answered:,} of {result['client_requests']:,} client requests got a complete answer."]
    if (result["publications_per_job"] or 0) > 1:
        requested = result["jobs_requested"]
        said.append(f"{requested:,} requested jobs became {round(requested * result['publications_per_job']):,}.")
    # results of older versions have no log-ins
    if logins := result.get("logins"):
        median = result["login_s"]["p50"]
        wait = "" if median is None else f", half of them within {duration(median)}"
        said.append(f"{logins - result['login_errors']:,} of {logins:,} log-ins worked{wait}.")
    if result["acknowledged_ratio"] is not None:
        sends = f"minions sent each return {1 + result['duplicate_ratio']:.2f} times on average"
        said.append(f"{result['acknowledged_ratio'] * 100:.1f} % of the sends were acknowledged; {sends}.")
    said.append(f"{result['returns_lost']:,} of {result['returns_expected']:,} returns were lost after execution.")
    if result["never_reached"]:
        said.append(f"{result['never_reached']:,} times a targeted minion never got its job.")
    if result["returns_unfinished"]:
        said.append(f"{result['returns_unfinished']:,} times a minion got its job and had sent no return at the end.")
    if result["jobs_unpublished"]:
        unpublished = f"{result['jobs_unpublished']:,} of {result['jobs_accepted']:,}"
        said.append(f"{unpublished} accepted jobs reached nobody: they were published to nobody, or not at all.")
    if not result["settled_in_time"]:
        said.append("As far as can be told, jobs or returns were on their way when the scenario's limit ended the run.")
    return said
