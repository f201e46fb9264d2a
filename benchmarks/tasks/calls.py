"""Calls of what both trees have: a publication, the minions of a target, a runner, the loader of execution modules.

`prepare` takes `what` is called, and what that needs.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import salt.config
import salt.loader

if TYPE_CHECKING:
    from collections.abc import Callable


def publish(settings: dict[str, Any]) -> Callable[[], str]:
    """Return the publication of an asynchronous client; `settings` has the path of the master's `config`."""
    from salt.client import LocalClient  # noqa: PLC0415 - `modules` measures what it has to import

    client = LocalClient(c_path=settings["config"])
    return lambda: str(client.cmd_async("*", "test.version"))


def runner(settings: dict[str, Any]) -> Callable[[str, dict[str, Any]], Any]:
    """Return what calls a function of a runner, with the modules loaded; `settings` has more `options` of a master."""
    functions = salt.loader.runner({**salt.config.master_config(None), **settings["options"]}, context={})
    return lambda name, arguments: functions[name](**arguments)


def targets(settings: dict[str, Any]) -> Callable[[str], list[int]]:
    """Return what finds a kind of target as a worker of the master does: how many minions and missing names it has.

    `settings` has `folder` with the keys in `pki` and the data in `cache`, and the numbers of `minions` and `unknown`.
    """
    from salt.utils.minions import CkMinions  # noqa: PLC0415 - `modules` measures what it has to import

    folder = Path(settings["folder"])
    opts = salt.config.master_config(None)
    opts.update({"root_dir": str(folder), "pki_dir": str(folder / "pki"), "cachedir": str(folder / "cache")})
    opts["sock_dir"] = str(folder / "sock")
    minions = CkMinions(opts)
    known: dict[str, tuple[str | list[str], str]] = {
        "list": ([f"minion-{number:05d}" for number in range(settings["minions"])], "list"),
        "all": ("*", "glob"),
        "unknown": ([f"nobody-{number}" for number in range(settings["unknown"])], "list"),
    }

    def find(kind: str) -> list[int]:
        found = minions.check_minions(*known[kind])
        return [len(found["minions"]), len(found["missing"])]

    return find


def modules(settings: dict[str, Any]) -> Callable[..., tuple[float, Any]]:
    """Return what loads or calls execution modules, and returns the CPU seconds of it; `settings` has `smi`."""
    opts: dict[str, Any] = salt.config.minion_config(None)
    opts.update({"smi": settings["smi"], "file_client": "local"})
    opts["grains"] = salt.loader.grains(opts)
    loader = salt.loader.minion_mods(opts, utils=salt.loader.utils(opts))

    def calls(name: str, count: int) -> int:
        """Look a function up and call it, so often."""
        for _ in range(count):
            loader[name]("bash")
        return count

    known: dict[str, Callable[..., Any]] = {
        "everything": lambda: len(list(loader)),
        "function": lambda name: repr(loader[name]),
        "calls": calls,
        # functions that the module lacks are looked up, so often each
        "misses": lambda names, count: sum(name in loader for _ in range(count) for name in names),
    }

    def act(action: str, *args: Any) -> tuple[float, Any]:
        """Do one action; what else the machine does is not in the figure."""
        before = time.process_time()
        value = known[action](*args)
        return time.process_time() - before, value

    return act


def prepare(settings: dict[str, Any]) -> Callable[..., Any]:
    """Return the call that `what` in the settings names."""
    known: dict[str, Callable[[dict[str, Any]], Callable[..., Any]]] = {
        one.__name__: one for one in (publish, runner, targets, modules)
    }
    return known[settings["what"]](settings)
