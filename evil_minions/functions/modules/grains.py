"""The module `grains`: Salt's own functions on the grains of a simulated minion, which may be set and removed.

Setting one has the traffic of a real minion: pillar and resources again. Source: salt/modules/grains.py of Salt 3008.5.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import salt.modules.grains
from salt.exceptions import SaltException

from evil_minions.functions.registry import CURRENT, Function

if TYPE_CHECKING:
    from collections.abc import Callable

_READING: Final = ("items", "item", "get", "ls", "fetch", "has_value", "equals", "filter_by")
_WRITING: Final = ("setval", "append", "remove", "set", "delval", "delkey")


def setvals(grains: Any, destructive: bool = False, refresh_pillar: bool = True) -> dict[str, Any]:
    """Set grains; of a destructive call those without a value go."""
    if not isinstance(grains, Mapping):
        raise SaltException("setvals grains must be a dictionary.")
    removed = [name for name, value in grains.items() if value is None and destructive is True]
    host = CURRENT.get().host
    host.change_grains({name: value for name, value in grains.items() if name not in removed}, removed)
    if refresh_pillar:
        host.refresh_pillar(clean_cache=False)
    return dict(grains)


# Salt's other functions that write call this one, which would write to the machine's own grains file
salt.modules.grains.setvals = setvals


def _on_host(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function` with the grains of the current minion, as Salt's loader would inject them."""

    @functools.wraps(function)
    def call(*args: object, **keywords: object) -> object:
        salt.modules.grains.__grains__ = CURRENT.get().host.grains()
        return function(*args, **keywords)

    return call


def _table(names: tuple[str, ...], seconds: float) -> dict[str, Function]:
    """Return functions of Salt's module, under their names there."""
    outputters = {"items": "nested", "item": "nested"}
    found = {}
    for name in names:
        call = _on_host(getattr(salt.modules.grains, name))
        found[f"grains.{name}"] = Function(call, f"salt.modules.grains:{name}", outputters.get(name), seconds)
    return found


FUNCTIONS: Final = {
    **_table(_READING, 0.0),
    **_table(_WRITING, 0.05),
    "grains.setvals": Function(setvals, "salt.modules.grains:setvals", seconds=0.05),
}
