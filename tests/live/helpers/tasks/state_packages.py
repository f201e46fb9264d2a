"""Package states without a master: the SLS of entries, and what minions answer, put into a database."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from saltext.package_states.compile import sls
from saltext.package_states.errors import PackageStateError
from saltext.package_states.model import item, resolver, version
from saltext.package_states.store import offers, refresh

if TYPE_CHECKING:
    from collections.abc import Callable

Row = tuple[str, ...]


def render(rows: list[Row], platform: str = "apt", name: str = "web", scope: str = "") -> str:
    """Return the SLS of a minion's own state with these entries: package, wanted, version, floor.

    With a scope, it is that of a state which is applied by itself.
    """
    items = item.ordered(item.make(*row) for row in rows)
    source = resolver.Source(name, 1, resolver.OWN, name, 0, items)
    verdicts = resolver.managed(resolver.resolve([source]))
    text: str = sls.render(name, platform, [source], verdicts, scope=scope)
    return text


def contents(platform: str, name: str, packages: dict[str, list[str]]) -> dict[str, Any]:
    """Return what a minion answers of one of its repositories."""
    return {"digest": version.digest(platform, name, packages), "name": name, "packages": packages}


def told(action: Callable[..., Any], *args: object) -> dict[str, Any]:
    """Return the `result` of what the master does with an answer, or the `error`."""
    try:
        return {"result": action(*args)}
    except PackageStateError as error:
        return {"error": str(error)}


def prepare(_: dict[str, Any]) -> dict[str, Callable[..., Any]]:
    """Return what can be done; the last three take a master's options."""
    return {
        "render": render,
        "contents": contents,
        "store": partial(told, refresh.store),
        "mark": partial(told, refresh.mark),
        "offers": partial(told, offers.store),
    }
