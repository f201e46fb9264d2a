"""Which functions of Salt's runners ask minions, and whether their answers name them.

Source: salt/runners/manage.py, jobs.py and state.py of Salt 3008.5.
"""

from __future__ import annotations

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
