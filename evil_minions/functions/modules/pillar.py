"""The module `pillar`: items, which the master compiles again for every call."""

from __future__ import annotations

from typing import Any, Final

import salt.utils.secret

from evil_minions.functions.registry import CURRENT, Function


async def items(
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


FUNCTIONS: Final = {"pillar.items": Function(items, "salt.modules.pillar:items")}
