"""Which functions of Salt's runners ask minions, and whether their answers name them.

Source: salt/runners/manage.py, jobs.py and state.py of Salt 3008.5.

For most clients the scenario names the function. What the steps of an orchestration publish only the master knows: with
such clients, all jobs count as asked for, except those that master and waiting clients publish by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# polling, not work
OVERHEAD = frozenset({"saltutil.find_job"})
# of the master's own jobs, which no minion hears of
_OF_MASTER = ("runner.", "wheel.")
_ANY = "*"


@dataclass(frozen=True)
class Asked:
    """The functions `names`, and all but the overhead if `any` is true."""

    names: frozenset[str]
    any: bool = False

    def __contains__(self, function: object) -> bool:
        """Return whether a publication of `function` is what clients asked for."""
        if function in self.names:
            return True
        return self.any and function not in OVERHEAD and not str(function).startswith(_OF_MASTER)

    def lines(self) -> list[str]:
        """Return this as lines of text, for `read`."""
        return [*sorted(self.names), *([_ANY] if self.any else [])]

    @staticmethod
    def read(lines: Iterable[str]) -> Asked:
        """Return what `lines` wrote."""
        names = frozenset(lines)
        return Asked(names - {_ANY}, _ANY in names)


@dataclass(frozen=True)
class Expected:
    """How many minions a complete answer names; `steps` has the numbers of an orchestration's steps that differ."""

    minions: int
    steps: dict[str, int] = field(default_factory=dict)


PING = "test.ping"
# these runners ping their target, and name who answered or who did not
STATUS, UP, DOWN = "manage.status", "manage.up", "manage.down"
LIST_JOBS, ACTIVE = "jobs.list_jobs", "jobs.active"
_ORCHESTRATIONS = frozenset({"state.orchestrate", "state.orch", "state.sls"})
_PINGING = frozenset({STATUS, UP, DOWN})
# functions that the master publishes for each of these runners
_PUBLISHED = {
    **dict.fromkeys(_PINGING, frozenset({PING})),
    ACTIVE: frozenset({"saltutil.running"}),
    LIST_JOBS: frozenset[str](),
}


def orchestrates(function: str) -> bool:
    """Return whether a runner's function runs an orchestration."""
    return function in _ORCHESTRATIONS


def asks_minions(function: str) -> bool:
    """Return whether a runner's function takes a target and a timeout of its own."""
    return function in _PINGING


def names_minions(function: str) -> bool:
    """Return whether the answer says which minions answered, so that its completeness can be judged by them."""
    return function in _PINGING or function in _ORCHESTRATIONS


def publishes(function: str) -> frozenset[str] | None:
    """Return the functions that minions are asked for; None if that can't be told from its name."""
    return _PUBLISHED.get(function)
