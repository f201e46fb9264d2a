"""Compile runs for a worker until it hangs up: `python -m evil_minions.states.compile DESCRIPTOR FOLDER`."""

from __future__ import annotations

import copy
import ctypes
import logging
import os
import signal
import socket
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, Final

import salt.config
import salt.exceptions
import salt.fileclient
import salt.loader
import salt.utils.args
import salt.utils.data
import salt.utils.state

from evil_minions.states.compile import client, templates
from evil_minions.states.compile.client import Line
from evil_minions.states.compile.fetching import World
from evil_minions.states.compile.machine import HighState, Run
from evil_minions.states.compile.templates import Library, Options, TrackedMapping

_PR_SET_PDEATHSIG: Final = 1
_COMPILE_ERROR: Final = 1
_FAILED: Final = 2
_PILLAR_ERROR: Final = 5
# what a real minion takes from the publication to its first question, for modules that it loads
_LOAD_MILLISECONDS: Final = 300.0


class Session:
    """The compiler of one worker: its options, and the files that it has seen."""

    def __init__(self, line: Line, folder: Path) -> None:
        """Read a minion's default options."""
        self._line = line
        self._opts = salt.config.minion_config(None)
        self._opts.update(
            cachedir=str(client.prepare(folder)),
            extension_modules=str(folder / "modules"),
            root_dir=str(folder),
            file_client="remote",
            saltenv=None,
            master_uri="",
        )
        self._client = client.FileClient(self._opts, line)
        self._data: dict[str, Any] = {}
        # nothing here may open a connection of its own
        salt.fileclient.get_file_client = lambda _opts, _pillar=False: self._client

    def run(self, order: dict[str, Any]) -> dict[str, Any]:
        """Compile one run, and return its outcome."""
        options = order["options"]
        grains, pillar = TrackedMapping(order["grains"]), TrackedMapping(order["pillar"])
        opts = copy.deepcopy(dict(self._opts))
        opts.update(id=order["id"], grains=order["grains"], pillar=order["pillar"], __master_opts__=order["opts"])
        opts = salt.utils.state.get_sls_opts(opts, **options)
        opts["test"] = salt.utils.data.is_true(options.get("test")) if "test" in options else False
        self._client.opts = opts
        seen = Options(
            {name: value for name, value in opts.items() if name not in {"grains", "pillar"}}, grains, pillar
        )
        library = Library(grains, pillar, seen, self._client, self._line)
        rendering = templates.Templates(library, seen, self._client)
        held = frozenset(tuple(each) for each in order["held"])
        run = Run(self._line, library, World(self._client, rendering, library, held, opts["test"]))
        opts["__run__"] = run
        self._line.work = _LOAD_MILLISECONDS
        value, retcode = self._outcome(order, opts, run, rendering)
        return {
            "value": value,
            "retcode": retcode,
            "grains": grains.names(grains.seen),
            "pillar": pillar.names(pillar.seen),
            "shown": {"grains": grains.names(grains.shown), "pillar": pillar.names(pillar.shown)},
            "effects": run.world.effects,
            "leaves": run.world.leaves,
            "pause": self._line.pause(),
        }

    def _outcome(self, order: dict[str, Any], opts: dict[str, Any], run: Run, rendering: templates.Templates) -> Any:
        """Return what the run returns, and the exit code."""
        options = order["options"]
        errors = order["pillar"].get("_errors") if not options.get("force") else None
        if errors:
            return ["Pillar failed to render with the following messages:", *errors], _PILLAR_ERROR
        if order["mods"] is not None and opts["saltenv"] is None:
            opts["saltenv"] = "base"
        if not self._data:
            self._data = templates.data_renderers(salt.loader.render(self._opts, {}, file_client=self._client))
        run.prepare(self._data, rendering.render)
        high = HighState(opts, run)
        exclude = options.get("exclude") or []
        high.push_active()
        try:
            if order["mods"] is None:
                value = high.call_highstate(exclude=exclude, whitelist=options.get("whitelist"))
            else:
                found, problems = high.render_highstate({opts["saltenv"]: list(order["mods"])})
                if problems:
                    return problems, _COMPILE_ERROR
                if exclude:
                    found.setdefault("__exclude__", []).extend(salt.utils.args.split_input(exclude))
                value = high.state.call_high(found)
        finally:
            high.pop_active()
        if isinstance(value, list):
            return value, _COMPILE_ERROR
        failed = any(result.get("result") is False for result in value.values() if isinstance(result, dict))
        return value, _FAILED if failed else 0


def main(arguments: list[str]) -> int:
    """Answer orders until the worker hangs up."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(0))
    logging.disable(logging.CRITICAL)
    os.umask(0o077)
    templates.watch()
    line = Line(socket.socket(fileno=int(arguments[0])))
    with tempfile.TemporaryDirectory(prefix="compile-", dir=arguments[1]) as folder:
        session = Session(line, Path(folder))
        while (order := line.receive()) is not None:
            try:
                end = session.run(order)
            except EOFError:
                break
            except Exception as error:  # noqa: BLE001 - one run that fails must not end those of other minions
                text = "".join(traceback.format_exception(error))
                end = {"value": f"The minion function caused an exception: {text}", "retcode": _COMPILE_ERROR}
                end |= {"grains": [], "pillar": [], "effects": [], "leaves": [], "pause": 0.0, "failed": True}
                end |= {"shown": {"grains": [], "pillar": []}}
            line.send({"end": end})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
