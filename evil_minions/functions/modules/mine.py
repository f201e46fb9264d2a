"""The module `mine`: what a minion gives to the mine on the master, and takes from it.

Source: salt/modules/mine.py and Minion._mine_send in salt/minion.py of Salt 3008.5.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any, Final

import salt.utils.args
import salt.utils.mine

from evil_minions.functions import CURRENT, Function, ask_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from evil_minions.functions import Call

_ORIGIN: Final = "salt.modules.mine"
# a minion's bus takes no receipt, so Salt waits
_SETTLE_S: Final = 0.5


async def _run(call: Call, name: str, args: Any, keywords: Any) -> Any:
    """Run a function for the mine.

    Raises:
        LookupError: if there is none of that name.
    """
    value = call.table[name].call(*args, **keywords)
    return await value if inspect.iscoroutine(value) else value


async def _store(call: Call, load: dict[str, Any]) -> bool:
    """Send something to the mine, as a minion does it from its job."""
    await ask_all(call.host, [{**load, "id": call.host.id}])
    await asyncio.sleep(_SETTLE_S)
    return True


async def update(clear: bool = False, mine_functions: Any = None) -> bool | None:
    """Run the functions named, or those that the pillar names, and send what they return; nothing if there are none."""
    call = CURRENT.get()
    wanted = mine_functions or call.host.pillar_item("mine_functions")
    if isinstance(wanted, list):
        wanted = {name: {} for name in wanted}
    if not wanted or not isinstance(wanted, dict):
        return None
    data: dict[str, Any] = {}
    for alias, definition in wanted.items():
        name, args, keywords, access = salt.utils.mine.parse_function_definition(definition)
        try:
            value = await _run(call, name or alias, args, keywords)
        except Exception:  # noqa: BLE001, S112 - a minion logs it and goes on
            continue
        data[alias] = salt.utils.mine.wrap_acl_structure(value, **access) if access.get("allow_tgt") else value
    return await _store(call, {"cmd": "_mine", "data": data, "clear": clear})


async def send(name: str, *args: object, **kwargs: object) -> bool:
    """Run one function and send what it returns."""
    call = CURRENT.get()
    keywords = salt.utils.args.clean_kwargs(**kwargs)
    function = keywords.pop("mine_function", None) or name
    target, kind = keywords.pop("allow_tgt", None), keywords.pop("allow_tgt_type", None)
    try:
        value = await _run(call, function, args, keywords)
    except Exception:  # noqa: BLE001 - a minion logs it
        return False
    if target:
        value = salt.utils.mine.wrap_acl_structure(value, allow_tgt=target, allow_tgt_type=kind)
    return await _store(call, {"cmd": "_mine", "data": {name: value}, "clear": False})


async def get(tgt: Any, fun: Any, tgt_type: str = "glob", exclude_minion: bool = False) -> Any:
    """Ask the master for what minions gave to the mine."""
    host = CURRENT.get().host
    load = {"cmd": "_mine_get", "id": host.id, "tgt": tgt, "fun": fun, "tgt_type": tgt_type}
    (found,) = await ask_all(host, [load])
    if exclude_minion and host.id in found:
        del found[host.id]
    return found


async def delete(fun: str) -> bool:
    """Remove one function's data from the mine."""
    return await _store(CURRENT.get(), {"cmd": "_mine_delete", "fun": fun})


async def flush() -> bool:
    """Remove all data of this minion from the mine."""
    return await _store(CURRENT.get(), {"cmd": "_mine_flush"})


_CALLS: Final[tuple[Callable[..., Any], ...]] = (update, send, get, delete, flush)
FUNCTIONS: Final = {
    f"mine.{call.__name__}": Function(call, f"{_ORIGIN}:{call.__name__}", seconds=0.03) for call in _CALLS
}
