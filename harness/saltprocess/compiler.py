"""Compiles pillars and runs runners with one Salt, without a master; one source of pillars after the other."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import salt.cache
import salt.config
import salt.loader
import salt.pillar
from salt import _logging as logs

if TYPE_CHECKING:
    from collections.abc import Callable


class Side:
    """One Salt; its folders lie below `folder`."""

    def __init__(self, folder: Path) -> None:
        """Take the folder of caches and keys."""
        self._folder = folder
        self._compilers: dict[str, Any] = {}

    def options(self, changes: dict[str, Any]) -> dict[str, Any]:
        """Return a master's options without any pillar but what `changes` bring."""
        opts: dict[str, Any] = salt.config.master_config(None)
        own = {name: str(self._folder / name) for name in ("cachedir", "pki_dir", "extension_modules", "sock_dir")}
        opts.update({**own, "pillar_roots": {}, "file_client": "local", "grains": {}, "id": "saltbed", **changes})
        return opts

    def compile(self, changes: dict[str, Any], minions: list[str]) -> list[dict[str, Any]]:
        """Return what `ext_pillar` gives to minions, with errors in `_errors`; one set-up serves them all."""
        key = json.dumps(changes, sort_keys=True)
        if key not in self._compilers:
            # loaded modules have the options of whichever loader came last, so there is one at a time
            self._compilers = {key: salt.pillar.Pillar(self.options(changes), {}, "nobody", "base")}
        compiler, found = self._compilers[key], []
        for minion in minions:
            compiler.minion_id = minion
            pillar, errors = compiler.ext_pillar({}, [])
            found.append({**pillar, "_errors": errors} if errors else pillar)
        return found

    def digests(self, changes: dict[str, Any], minions: list[str]) -> list[str]:
        """Return a digest of each pillar in canonical JSON, for more of them than a pipe should carry."""
        found = (json.dumps(pillar, sort_keys=True) for pillar in self.compile(changes, minions))
        return [hashlib.sha256(text.encode()).hexdigest() for text in found]

    def timed(self, changes: dict[str, Any], minions: list[str]) -> list[tuple[str, list[str], float]]:
        """Return for each minion a digest of its pillar without errors, the errors, and the seconds that it took."""
        found = []
        for minion in minions:
            start = time.monotonic()
            (pillar,) = self.compile(changes, [minion])
            seconds = time.monotonic() - start
            errors = pillar.pop("_errors", [])
            text = json.dumps(pillar, sort_keys=True)
            found.append((hashlib.sha256(text.encode()).hexdigest(), errors, seconds))
        return found

    def whole(self, changes: dict[str, Any], minions: list[str], *, refresh: bool = False) -> list[dict[str, Any]]:
        """Return whole pillars as a master compiles them, pillar cache included; `refresh` is `refresh_pillar`."""
        opts = self.options(changes)
        made = (salt.pillar.get_pillar(opts, {}, minion, "base", clean_cache=refresh) for minion in minions)
        return [compiler.compile_pillar() for compiler in made]

    def refreshed(self, changes: dict[str, Any], minions: list[str]) -> list[dict[str, Any]]:
        """Return whole pillars as after `refresh_pillar`."""
        return self.whole(changes, minions, refresh=True)

    def grains(self, minion: str, grains: dict[str, Any]) -> None:
        """Let the master know grains of a minion."""
        salt.cache.factory(self.options({})).store("grains", minion, grains)

    def run(
        self, changes: dict[str, Any], name: str, arguments: dict[str, Any], user: str | None = None
    ) -> dict[str, Any]:
        """Return the result of a runner, or its error, and the exit code; `user` is who Salt says has called it."""
        runner = salt.loader.runner(self.options(changes), context={})
        # as Salt's client of runners does it
        runner[name].__globals__["__user__"] = user
        try:
            result = runner[name](**arguments)
        except salt.exceptions.SaltException as error:
            return {"error": str(error), "retcode": 1}
        return {"result": result, "retcode": result.get("retcode", 0) if isinstance(result, dict) else 0}


def prepare(settings: dict[str, Any]) -> dict[str, Callable[..., Any]]:
    """Return what can be done."""
    # until logging is set up, as in a master, Salt keeps the last ten thousand lines in memory
    logs.shutdown_temp_handler()
    logs.setup_console_handler(log_level="error")
    side = Side(Path(settings["folder"]))
    actions = (side.compile, side.digests, side.timed, side.whole, side.refreshed, side.grains, side.run)
    return {"pid": os.getpid, **{action.__name__: action for action in actions}}
