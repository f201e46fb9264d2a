"""Package states without a master or a database: the SLS of entries, and what a thousand minions cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saltext.package_states import item, resolver, sls

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


def prepare(_: dict[str, Any]) -> Callable[..., Any]:
    """Return what does one of: render."""
    actions = {"render": render}

    def act(action: str, *args: Any) -> Any:  # noqa: ANN401 - whatever the action takes and gives
        """Do one action."""
        return actions[action](*args)

    return act
