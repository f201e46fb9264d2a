"""The module `state`: runs of the master's own states, by way of `evil_minions.states`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import salt.utils.jid

from evil_minions.functions import CURRENT, MODULE_KINDS, Function, ask_all

if TYPE_CHECKING:
    from evil_minions.functions import Call

COMPILE_ERROR: Final = 1
_ORIGIN: Final = "salt.modules.state"
_LIST: Final = {"saltenv": "base", "prefix": "", "cmd": "_file_list"}


async def apply_(mods: Any = None, **kwargs: Any) -> Any:
    """Return the results of the states named, or of all of them."""
    return await _run(mods, kwargs)


async def highstate(test: Any = None, queue: Any = None, state_events: Any = None, **kwargs: Any) -> Any:
    """Return the results of all states."""
    return await _run(None, {"test": test, **kwargs})


async def sls(mods: Any, test: Any = None, **kwargs: Any) -> Any:
    """Return the results of the states named."""
    return await _run(mods, {"test": test, **kwargs})


async def _run(mods: Any, kwargs: dict[str, Any]) -> dict[str, Any] | list[str]:
    call = CURRENT.get()
    conflict = conflicts(call)
    if conflict and not kwargs.get("concurrent"):
        call.retcode = COMPILE_ERROR
        return conflict
    wanted = mods.split(",") if isinstance(mods, str) else list(mods or [])
    options = {name: value for name, value in kwargs.items() if not name.startswith("__pub_")}
    value, call.retcode = await call.host.planner.run(call, call.host, wanted or None, options)
    return dict(value) if isinstance(value, dict) else value


async def ask_master(call: Call, modules: list[str], *, highstate: bool) -> None:
    """Ask the master for what a recorded run needed: options, pillar, for a highstate the top file, and state files."""
    await ask_all(call.host, [{"cmd": "_master_opts"}])
    await call.host.fetch_pillar()
    if highstate:
        host = call.host
        top: list[dict[str, Any]] = [
            {"cmd": "_file_envs"},
            {"path": "top.sls", "saltenv": "base", "cmd": "_file_hash"},
            {"cmd": "_master_tops", "id": host.id, "opts": {"id": host.id, "grains": host.grains()}},
        ]
        await ask_all(host, [*top, *[_LIST] * len(MODULE_KINDS)])
    files = [{"path": f"{name.replace('.', '/')}.sls", "saltenv": "base", "cmd": "_file_hash"} for name in modules]
    await ask_all(call.host, [_LIST, *files])


def conflicts(call: Call) -> list[str]:
    """Return what Salt says if another state run is under way on this minion."""
    return [
        f'The function "{data["fun"]}" is running as PID {data["pid"]} and was started at '
        f"{salt.utils.jid.jid_to_time(data['jid'])} with jid {data['jid']}"
        for data in call.others()
        if isinstance(data["fun"], str) and data["fun"].startswith("state.")
    ]


FUNCTIONS: Final = {
    "state.apply": Function(apply_, f"{_ORIGIN}:apply_", "highstate", seconds=0.1),
    "state.highstate": Function(highstate, f"{_ORIGIN}:highstate", "highstate", seconds=0.1),
    "state.sls": Function(sls, f"{_ORIGIN}:sls", "highstate", seconds=0.1),
}
