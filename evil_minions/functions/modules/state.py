"""The module `state`: results of states as data, and the traffic that a real state run makes.

The master's own states are run by `evil_minions.states`. In a fleet whose states are made up they return what
`evil_minions.functions.tree` says. Either way a run asks the master for options, pillar and files.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import salt.utils.data
import salt.utils.jid

from evil_minions.functions import registry
from evil_minions.functions.registry import CURRENT, Function, ask_all

if TYPE_CHECKING:
    from evil_minions.functions.registry import Call
    from evil_minions.functions.tree import State

_FAILED: Final = 2
COMPILE_ERROR: Final = 1
_ORIGIN: Final = "salt.modules.state"


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
    if call.host.states is None:
        options = {name: value for name, value in kwargs.items() if not name.startswith("__pub_")}
        value, call.retcode = await call.host.planner.run(call, call.host, wanted or None, options)
        return dict(value) if isinstance(value, dict) else value
    tree = {state.sls for state in call.host.states}
    await ask_master(call, wanted or sorted(tree), highstate=not wanted)
    unknown = [name for name in wanted if name not in tree]
    if unknown:
        call.retcode = COMPILE_ERROR
        return [f"No matching sls found for '{name}' in env 'base'" for name in unknown]
    chosen = [state for state in call.host.states if not wanted or state.sls in wanted]
    test = salt.utils.data.is_true(kwargs.get("test"))
    results, seconds = _results(call, chosen, test=test)
    await asyncio.sleep(seconds)
    if any(result["result"] is False for result in results.values()):
        call.retcode = _FAILED
    return results


async def ask_master(call: Call, modules: list[str], *, highstate: bool) -> None:
    """Ask the master for what a state run needs: options, pillar, for a highstate the top file, and state files."""
    await ask_all(call.host, [{"cmd": "_master_opts"}])
    await call.host.fetch_pillar()
    if highstate:
        await ask_all(call.host, [*registry.top(call.host), *registry.modules()])
    await ask_all(call.host, registry.states(modules))


def conflicts(call: Call) -> list[str]:
    """Return what Salt says if another state run is under way on this minion."""
    return [
        f'The function "{data["fun"]}" is running as PID {data["pid"]} and was started at '
        f"{salt.utils.jid.jid_to_time(data['jid'])} with jid {data['jid']}"
        for data in call.others()
        if isinstance(data["fun"], str) and data["fun"].startswith("state.")
    ]


def _results(call: Call, states: list[State], *, test: bool) -> tuple[dict[str, Any], float]:
    """Return the results of some states, and the seconds that they take together."""
    results: dict[str, Any] = {}
    start = datetime.now(UTC).astimezone()
    rng = call.rng
    for number, state in enumerate(states):
        duration = round(state.milliseconds * rng.lognormvariate(0.0, 0.25), 3)
        module, _, function = state.function.partition(".")
        results[f"{module}_|-{state.identifier}_|-{state.name}_|-{function}"] = {
            "name": state.name,
            **(state.dry if test else state.outcome),
            "__sls__": state.sls,
            "__run_num__": number,
            "start_time": start.strftime("%H:%M:%S.%f"),
            "duration": duration,
            "__id__": state.identifier,
        }
        start += timedelta(milliseconds=duration)
    return results, sum(result["duration"] for result in results.values()) / 1000.0


FUNCTIONS: Final = {
    "state.apply": Function(apply_, f"{_ORIGIN}:apply_", "highstate", seconds=0.1),
    "state.highstate": Function(highstate, f"{_ORIGIN}:highstate", "highstate", seconds=0.1),
    "state.sls": Function(sls, f"{_ORIGIN}:sls", "highstate", seconds=0.1),
}
