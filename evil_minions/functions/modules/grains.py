"""The modules `grains` and `pillar`: what is known of a minion.

Salt's own functions read the grains of a simulated minion, which may be set and removed. Items of the pillar are
compiled again by the master for every call.

Setting one has the traffic of a real minion: pillar and resources again. Source: salt/modules/grains.py of Salt 3008.5.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import salt.modules.grains
import salt.utils.secret
from salt.exceptions import SaltException

from evil_minions.functions import CURRENT, Function

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


async def _pillar_items(
    *args: str,
    pillar: dict[str, Any] | None = None,
    pillar_enc: str | None = None,
    pillarenv: str | None = None,
    saltenv: str | None = None,
    unmask: bool | None = None,
) -> Any:
    """Return a freshly compiled pillar, masked as Salt 3008 does unless `unmask`; with names only those parts of it."""
    fresh = await CURRENT.get().host.fetch_pillar(override=pillar)
    found = {name: fresh.get(name, "") for name in args} if args else fresh
    return found if unmask else salt.utils.secret.serial(found)


FUNCTIONS: Final = {
    **_table(_READING, 0.0),
    **_table(_WRITING, 0.05),
    "pillar.items": Function(_pillar_items, "salt.modules.pillar:items"),
    "grains.setvals": Function(setvals, "salt.modules.grains:setvals", seconds=0.05),
}
