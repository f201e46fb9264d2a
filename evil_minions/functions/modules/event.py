"""The module `event`: events for the master's bus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from evil_minions.functions import CURRENT, Function

_ORIGIN: Final = "salt.modules.event"


def fire_master(data: Any, tag: str, preload: Any = None) -> bool:
    """Send an event to the master."""
    CURRENT.get().host.fire(tag, data or {})
    return True


def fire(data: Mapping[str, Any], tag: str) -> bool:
    """Fire an event on the minion's own bus, where nobody listens."""
    return isinstance(data, Mapping) and bool(tag)


def send(
    tag: str,
    data: Any = None,
    preload: Any = None,
    with_env: Any = False,
    with_grains: Any = False,
    with_pillar: Any = False,
    with_env_opts: Any = False,
    **kwargs: Any,
) -> bool:
    """Send an event to the master, with whatever of grains, pillar and keywords is asked for."""
    host = CURRENT.get().host
    found: dict[str, Any] = {}
    if with_env:
        environment = {"LC_ALL": "C", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        found["environ"] = _part(environment, with_env)
    if with_grains:
        found["grains"] = _part(host.grains(), with_grains)
    if with_pillar:
        found["pillar"] = _part(host.pillar(), with_pillar)
    if with_env_opts:
        found |= {"saltenv": None, "pillarenv": None}
    found |= kwargs
    if isinstance(data, Mapping):
        found |= data
    host.fire(tag, found)
    return True


def _part(whole: Mapping[str, Any], wanted: object) -> dict[str, Any]:
    """Return all of it, or the names in a list."""
    return {name: value for name, value in whole.items() if not isinstance(wanted, list) or name in wanted}


FUNCTIONS: Final = {
    f"event.{name}": Function(call, f"{_ORIGIN}:{name}", seconds=seconds)
    for name, call, seconds in (("send", send, 0.05), ("fire_master", fire_master, 0.05), ("fire", fire, 0.05))
}
