"""What states return: what they fetch decides whether they find everything in place.

A state takes effect once: applied again with the same content it finds everything in place.
Source: salt/states/file.py, cmd.py, archive.py, module.py of Salt 3008.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import salt.states.test
from salt.exceptions import SaltRenderError

from evil_minions.states.compile.fetching import Failure, fetch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evil_minions.states.compile.fetching import World

# states that change something each time, those that only look, and milliseconds that some kinds take
_ALWAYS: Final = ("cmd.run", "cmd.script", "cmd.wait", "cmd.call", "module.run", "module.wait", "event.send")
_LOOKS: Final = ("file.exists", "file.missing", "file.not_cached", "file.accumulated", "cmd.wait_script")
_MILLISECONDS: Final = {"pkg": 120.0, "service": 60.0, "cmd": 15.0, "file": 12.0, "user": 20.0, "test": 0.5}


def milliseconds(low: Mapping[str, Any]) -> float:
    """Return what a state takes on average."""
    return _MILLISECONDS.get(str(low["state"]), 20.0)


def apply(world: World, low: Mapping[str, Any], tag: str) -> dict[str, Any]:
    """Return the result of a state, once its files are fetched."""
    if low["state"] == "test" and hasattr(salt.states.test, low["fun"]):
        return _real_test(world, low)
    full = f"{low['state']}.{low['fun']}"
    try:
        print_, changes = fetch(world, low)
    except Failure as failure:
        return _result(low, str(failure), result=False)
    except SaltRenderError as error:
        return _result(low, f"Unable to manage file: {error}", result=False)
    if full in _LOOKS:
        return _result(low, f"{low['name']} is as it should be")
    always = full in _ALWAYS or low["fun"] == "mod_watch"
    return _changed(world, low, None if always else ("state", tag, print_), changes)


def _result(
    low: Mapping[str, Any], comment: str, changes: Mapping[str, Any] | None = None, *, result: bool | None = True
) -> dict[str, Any]:
    """Return the result of a state as Salt has it."""
    return {"name": str(low["name"]), "changes": dict(changes or {}), "result": result, "comment": comment}


def _changed(
    world: World, low: Mapping[str, Any], key: tuple[str, ...] | None, changes: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the result of a state that leaves `key` behind, or changes something each time if it is None."""
    full = f"{low['state']}.{low['fun']}"
    changes = changes or {str(low["name"]): "done" if key is None else {"old": "", "new": "in place"}}
    if key is not None:
        world.effects.append(key)
        if key in world.held:
            return _result(low, _in_place(full, low))
    if world.test:
        return _result(low, _planned(full, low), changes, result=None)
    if key is not None:
        world.leaves.append(key)
    return _result(low, _done(full, low), changes)


def _in_place(full: str, low: Mapping[str, Any]) -> str:
    """Return what a state says that finds everything in place."""
    name = low["name"]
    if full.startswith("file."):
        kind = {"directory": "directory", "recurse": "directory", "absent": ""}.get(str(low["fun"]), "file")
        return {
            "absent": f"File {name} is not present",
            "managed": f"File {name} is in the correct state",
        }.get(str(low["fun"]), f"The {kind} {name} is in the correct state")
    if full.startswith("pkg."):
        return "All specified packages are already installed"
    if full.startswith("service."):
        return f"The service {name} is already running"
    return f"{name} is already in the correct state"


def _done(full: str, low: Mapping[str, Any]) -> str:
    """Return what a state says that has changed something."""
    name = low["name"]
    found = {
        "file.managed": f"File {name} updated",
        "file.recurse": f"Recursively updated {name}",
        "file.directory": "",
        "file.absent": f"Removed file {name}",
        "cmd.run": f'Command "{name}" run',
        "cmd.script": f"Command '{name}' run",
        "pkg.installed": f"The following packages were installed/updated: {name}",
        "service.running": f"Service {name} has been enabled, and is running",
    }
    return found.get(full, f"{name} updated")


def _planned(full: str, low: Mapping[str, Any]) -> str:
    """Return what a state says that would change something."""
    name = low["name"]
    found = {
        "file.managed": f"The file {name} is set to be changed\nNote: No changes made, actual changes may\n"
        "be different due to other states.",
        "cmd.run": f'Command "{name}" would have been executed',
    }
    return found.get(full, f"{name} is set to be changed")


def _real_test(world: World, low: Mapping[str, Any]) -> dict[str, Any]:
    """Return what Salt's own test states return: they do nothing."""
    module = salt.states.test
    module.__opts__ = {"test": world.test}
    module.__salt__ = world.functions
    module.__low__ = dict(low)
    known = module.__dict__[str(low["fun"])]
    names = known.__code__.co_varnames[: known.__code__.co_argcount]
    found = known(**{name: low[name] for name in names if name in low})
    return dict(found)
