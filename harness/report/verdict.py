"""The verdict in words: whether a run went well, for somebody who has ten seconds.

Thresholds of the scenario decide where it has some. Without them a tree's own figures do, by limits that are printed
here and in the report: they tell a healthy master from one that struggles and from one that has collapsed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

GOOD, WARN, BAD = "good", "warn", "bad"
# a tree has collapsed if half of its clients got no complete answer, or most of what its minions sent was for nothing
COLLAPSED_ERRORS = 0.5
COLLAPSED_ACKNOWLEDGED = 0.5
HEALTHY_ACKNOWLEDGED = 0.95
RULES = (
    "Went well: every client got a complete answer, no return was lost, and at least 95 % of the sends were "
    "acknowledged. "
    "Collapsed: at least half of the clients got no complete answer, or less than half of the sends were acknowledged. "
    "Struggled: anything between."
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
    elif result["client_errors"] or result["returns_lost"] or acknowledged < HEALTHY_ACKNOWLEDGED:
        state, word = WARN, "struggled"
    else:
        state, word = GOOD, "went well"
    if not result["client_requests"]:
        state, word = WARN, "was asked for nothing"
    return TreeVerdict(tree, state, word, tuple(_sentences(result)))


def headline(result: Mapping[str, Any], trees: list[TreeVerdict]) -> Headline:
    """Return the verdict of the run from its `result.json` and the verdicts of its trees.

    Limits of the scenario decide on the state, where it has some.
    """
    missed = [verdict for verdict in result["thresholds"] if not verdict["passed"]]
    text, count = sentence(result["trees"]), len(result["thresholds"])
    worst = next((state for state in (BAD, WARN, GOOD) if any(verdict.state == state for verdict in trees)), GOOD)
    if not count:
        return Headline(worst, text, "")
    limits = f"{count} limits" if count > 1 else "limit"
    if missed:
        return Headline(BAD, text, f"{len(missed)} of the scenario's {limits} missed: {_named(missed)}.")
    return Headline(GOOD, text, f"The scenario's {limits} met.")


def sentence(trees: Mapping[str, Mapping[str, Any]]) -> str:
    """Return in one sentence what clients got of each tree: complete answers, and the longest wait for one."""
    said = []
    for tree, result in trees.items():
        asked = result["client_requests"]
        if not asked:
            said.append(f"{tree}: no request was sent")
            continue
        counts = f"{asked - result['client_errors']:,} of {asked:,}"
        # a result of before has no longest wait
        longest = result.get("longest_wait_s")
        wait = "" if longest is None else duration(longest)
        if said:
            said.append(f"{tree}: {', '.join(filter(None, [counts, wait]))}")
        else:
            wait = f", the longest wait was {wait}" if wait else ""
            said.append(f"{tree}: {counts} requests got a complete answer{wait}")
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
    if result["publications"] > result["jobs_requested"]:
        said.append(f"{result['jobs_requested']:,} requested jobs became {result['publications']:,}.")
    if result["acknowledged_ratio"] is not None:
        sends = f"minions sent each return {1 + result['duplicate_ratio']:.2f} times on average"
        said.append(f"{result['acknowledged_ratio'] * 100:.1f} % of the sends were acknowledged; {sends}.")
    said.append(f"{result['returns_lost']:,} of {result['returns_expected']:,} returns were lost.")
    if not result["settled_in_time"]:
        said.append("Minions still had returns to send when the scenario's limit ended the run.")
    return said
