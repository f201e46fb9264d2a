"""Targets that can be checked before anything starts: globs and lists of minion ids.

What the other kinds match depends on grains and pillars, which only the fleet knows.
"""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING

from harness.scenarios import schedule
from harness.scenarios.faults import Faults

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.scenarios.scenario import Scenario


def check(scenario: Scenario, ids: Sequence[str]) -> None:
    """Raise ScenarioError if clients target none of the minions `ids`, or no client has a request to send."""
    faults = Faults()
    for clients in scenario.clients:
        for name, tgt in clients.targets.items():
            if not matches(tgt, clients.tgt_type, ids):
                faults.add(
                    f"The clients `{name}` target none of the {len(ids):,} minions ({ids[0]} to {ids[-1]}) with "
                    f"{tgt!r}: change `tgt` or `minions`."
                )
    if not schedule.requests(scenario):
        faults.add(
            f"The schedule of {scenario.name} holds no request, so there is nothing to measure: raise `rate` or "
            "`duration_s`, or change `seed`."
        )
    faults.end()


def matches(tgt: str, tgt_type: str, ids: Sequence[str]) -> bool:
    """Return whether a target matches any of `ids`; True for kinds that only the fleet can tell.

    Source: salt.matchers.glob_match and salt.matchers.list_match of Salt 3008.5.
    """
    if tgt_type == "glob":
        return bool(fnmatch.filter(ids, tgt))
    if tgt_type == "list":
        known = set(ids)
        return any(name.strip() in known for name in tgt.split(","))
    return True
