"""CPU time of each role of a process for each return."""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import TYPE_CHECKING, Any

from harness import figures
from harness.report import spreads, theme
from harness.report.rows import shown
from harness.results import comparison, differences
from harness.scenarios.asked import OVERHEAD

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.results.comparison import Change
    from harness.results.differences import Pair


# CPU time for each return below which a comparison says nothing
SEEN_MS = 0.02


def cpu_rows(
    each: Sequence[Mapping[str, Mapping[str, Any]]], roles: list[str], pairs: Sequence[Pair]
) -> list[tuple[str, dict[str, str], Change | None]]:
    """Return (role, each tree's CPU time for each distinct return and returns for each second of it, how they compare).

    `each` has the trees' results of each repeat; the times are medians, and of the load phase.
    """
    figure = figures.BY_NAME["master_cpu_ms_per_return"]
    rows = []
    for role in [*roles, "all of the master"]:
        found = {tree: [_cpu(one[tree], role, roles) for one in each] for tree in each[0]}
        known_ms = {tree: [value for value in values if value is not None] for tree, values in found.items()}
        shares = {tree: median(values) if values else None for tree, values in known_ms.items()}
        changed = None
        if pairs and role not in theme.GREYS and any((value or 0.0) >= SEEN_MS for value in shares.values()):
            sides = ([value for tree in side for value in known_ms[tree]] for side in (pairs[0].base, pairs[0].other))
            changed = comparison.change(differences.between(figure, *sides))
            changed = comparison.UNTOLD if changed and pairs[0].blind else changed
        rows.append((role, {tree: shown(figure, value) + _rate(value) for tree, value in shares.items()}, changed))
    return rows


def _rate(ms: float | None) -> str:
    """Return how many returns a second of CPU is enough for; "" where too little was used to say."""
    return f" ({1000 / ms:,.0f}/s)" if ms and ms >= SEEN_MS else ""


def _cpu(values: Mapping[str, Any], role: str, roles: list[str]) -> float | None:
    """Return the CPU time of a role for each return of one run, None where there is no such process."""
    # those of jobs that runners and batches published as well, not those of polling
    returns: int = sum(row["returns"] for name, row in values["per_function"].items() if name not in OVERHEAD)
    used = used_by_role(values)
    of_role = [role] if role in roles else spreads.master_roles(list(used))
    if not returns or not any(name in used for name in of_role):
        return None
    return sum(used.get(name, 0.0) for name in of_role) * 1000 / returns


def used_by_role(values: Mapping[str, Any]) -> dict[str, float]:
    """Return the CPU seconds of a tree's result by the roles that the page shows."""
    used: Counter[str] = Counter()
    for role, seconds in values["cpu_s"].items():
        used[theme.group(role)] += seconds
    return dict(used)
