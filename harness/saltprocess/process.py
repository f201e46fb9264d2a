"""One version of Salt in a process of its own, which does tasks.

Two Salts can't live in one interpreter, and a process for each call would measure the import. So each tree gets one
process that stays. It takes a task as one line of JSON and answers with the seconds that it took. Who compares two
trees asks them in turn.
"""

from __future__ import annotations

import importlib
import os
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import evil_minions
from harness.errors import SaltProcessError
from harness.paths import ROOT, TREES
from harness.processes.line import Child

if TYPE_CHECKING:
    from collections.abc import Mapping

# for tasks of the largest benchmarks, and the preparation of them
TASK_S = 3600.0
STOP_S = 10.0


class SaltProcess:
    """A process that runs the task `module` with the Salt of `tree` ("stock" or "patched"); a context manager.

    `module` is the full name of a module with a function `prepare(settings)`, which returns a callable, or several by
    name: then the first argument of a run is a name. Each run calls it, and the time of the call is what is measured.
    What it returns is handed back beside the time. If that is callable, it is called after the clock has stopped, and
    its result is handed back.
    """

    def __init__(self, tree: str, module: str, settings: Mapping[str, Any], folder: Path = ROOT) -> None:
        """Start the process and let it prepare itself; raises SaltProcessError when it can't.

        The module's name counts from `folder`.
        """
        self.tree = tree
        # byte code is kept, as where Salt is installed, whatever the one who runs this has set
        own = {
            "PYTHONPATH": os.pathsep.join(map(str, (TREES[tree], ROOT, folder))),
            "PYTHONPYCACHEPREFIX": str(ROOT / "build" / "pycache"),
            "PYTHONDONTWRITEBYTECODE": "",
        }
        self._child = Child(
            f"The {tree} process of {module}",
            "harness.saltprocess.process",
            [module],
            SaltProcessError,
            "its last lines may say why",
            env={**os.environ, **own},
        )
        try:
            used = self._child.ask({"settings": dict(settings)}, TASK_S)["salt"]
        except BaseException:
            self.close()
            raise
        if not Path(used).is_relative_to(TREES[tree]):
            self.close()
            raise SaltProcessError(f"{tree} ran the Salt of {used}; run `nox -s apply` and try again.")

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop the process."""
        self.close()

    @property
    def pid(self) -> int:
        """Return its id."""
        return self._child.pid

    def run(self, *args: object, seconds: float = TASK_S) -> tuple[float, Any]:
        """Run the task once; return the seconds it took, and what it returned.

        Raises:
            SaltProcessError: if the process ends, or takes longer than `seconds`.
        """
        answer = self._child.ask({"arguments": args}, seconds)
        return answer["seconds"], answer["value"]

    def close(self) -> None:
        """Stop the process; a second call does nothing."""
        self._child.close(STOP_S)


def _serve(descriptor: str, module: str) -> None:
    line = evil_minions.Line(socket.socket(fileno=int(descriptor)))
    salt = importlib.import_module("salt")
    made = importlib.import_module(module).prepare(line.receive()["settings"])
    line.send({"salt": salt.__file__})
    while True:
        try:
            args = line.receive()["arguments"]
        except ConnectionError:
            return
        task = made if callable(made) else made[args.pop(0)]
        start = time.perf_counter()
        value = task(*args)
        seconds = time.perf_counter() - start
        # what only the comparison needs is made after the clock has stopped
        value = value() if callable(value) else value
        line.send({"seconds": seconds, "value": value})


if __name__ == "__main__":
    _serve(*sys.argv[1:])
