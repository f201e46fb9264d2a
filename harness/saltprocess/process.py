"""One version of Salt in a process of its own, which does tasks.

Two Salts can't live in one interpreter, and a process for each call would measure the import. So each tree gets one
process that stays. It takes a task as one line of JSON and answers with the seconds that it took. Who compares two
trees asks them in turn.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from harness.errors import SaltProcessError
from harness.paths import ROOT, TREES

if TYPE_CHECKING:
    from collections.abc import Mapping


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
        self._process = subprocess.Popen(
            [sys.executable, "-m", "harness.saltprocess.process", module],
            env={**os.environ, **own},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        prepared = self._ask(dict(settings))
        if not Path(prepared["salt"]).is_relative_to(TREES[tree]):
            self.close()
            raise SaltProcessError(f"{tree} ran the Salt of {prepared['salt']}; run `nox -s apply` and try again.")

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop the process."""
        self.close()

    @property
    def pid(self) -> int:
        """Return its id."""
        return self._process.pid

    def _ask(self, question: object) -> dict[str, Any]:
        pipe_in, pipe_out = self._process.stdin, self._process.stdout
        if pipe_in is None or pipe_out is None:
            raise SaltProcessError("The process has no pipes; this is a fault in harness/saltprocess/process.py.")
        try:
            pipe_in.write(json.dumps(question) + "\n")
            pipe_in.flush()
        except BrokenPipeError:
            pass
        line = pipe_out.readline()
        if not line:
            raise SaltProcessError(f"The {self.tree} process ended early; its traceback stands above.")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def run(self, *args: object) -> tuple[float, Any]:
        """Run the task once; return the seconds it took, and what it returned."""
        answer = self._ask(list(args))
        return answer["seconds"], answer["value"]

    def close(self) -> None:
        """Stop the process; a second call does nothing."""
        if self._process.stdin:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()


def _serve(module: str) -> None:
    """Answer tasks from standard input until it closes."""
    # what Salt prints must not end up between the answers
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    salt = importlib.import_module("salt")
    made = importlib.import_module(module).prepare(json.loads(sys.stdin.readline()))
    print(json.dumps({"salt": salt.__file__}), file=answers, flush=True)
    for line in sys.stdin:
        args = json.loads(line)
        task = made if callable(made) else made[args.pop(0)]
        start = time.perf_counter()
        value = task(*args)
        seconds = time.perf_counter() - start
        # what only the comparison needs is made after the clock has stopped
        value = value() if callable(value) else value
        print(json.dumps({"seconds": seconds, "value": value}), file=answers, flush=True)


if __name__ == "__main__":
    _serve(sys.argv[1])
