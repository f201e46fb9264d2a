"""The loader of execution modules: its first load of all modules, of pkg alone, calls and missed look-ups."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import salt.config
import salt.loader

if TYPE_CHECKING:
    from collections.abc import Callable


def prepare(settings: dict[str, Any]) -> Callable[..., Any]:
    """Return what loads or calls, and returns the CPU seconds of it; `settings` has `smi`."""
    opts: dict[str, Any] = salt.config.minion_config(None)
    opts.update({"smi": settings["smi"], "file_client": "local"})
    opts["grains"] = salt.loader.grains(opts)
    utils = salt.loader.utils(opts)
    modules = salt.loader.minion_mods(opts, utils=utils)

    def everything() -> int:
        """Load all modules."""
        return len(list(modules))

    def function(name: str) -> str:
        """Load one module, as for a call of its function."""
        return repr(modules[name])

    def calls(name: str, count: int) -> int:
        """Look a function up and call it, so often."""
        for _ in range(count):
            modules[name]("bash")
        return count

    def misses(names: list[str], count: int) -> int:
        """Look functions up that the module lacks, so often each."""
        return sum(name in modules for _ in range(count) for name in names)

    known: dict[str, Callable[..., Any]] = {
        "everything": everything,
        "function": function,
        "calls": calls,
        "misses": misses,
    }

    def act(action: str, *args: Any) -> tuple[float, Any]:
        """Do one action; what else the machine does is not in the figure."""
        before = time.process_time()
        value = known[action](*args)
        return time.process_time() - before, value

    return act
