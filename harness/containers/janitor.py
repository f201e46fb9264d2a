"""Removes what a run made on engines of Docker: a process of the bed that outlives a harness that is killed.

`python -m harness.containers.janitor RUN URL...` waits for SIGTERM, which the warden sends at the end of
the bed, however that comes; then it removes every container, network and image that carries the run's label.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

from harness.containers import engine
from harness.errors import DockerError
from harness.paths import ROOT
from harness.processes.command import Command, Layer, tail
from harness.processes.deadline import Deadline, until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from harness.processes.processes import Processes

TRIES = 3
JANITOR_S = 60.0


def clean(url: str, run: str) -> list[str]:
    """Remove all of `run` on the engine at `url`, and return what could not be removed.

    A container may have been under way to the engine when the harness ended, so it looks again.
    """
    problems: list[str] = []
    client = engine.connect(url, os.environ)
    try:
        for _ in range(TRIES):
            problems = engine.remove(client, lambda marks: marks.get(engine.RUN) == run)
            if not problems:
                break
    finally:
        client.close()
    return problems


def start(processes: Processes, logs: Path, run: str, engines: Sequence[str], seconds: float) -> Callable[[], None]:
    """Start the program, before there is anything to remove, and return what ends it; `seconds` limit its start.

    What is returned raises DockerError if something of the run could not be removed.
    """
    logs.mkdir(parents=True, exist_ok=True)
    log = logs / "janitor.out"
    command = Command(
        role="harness",
        argv=[sys.executable, "-m", "harness.containers.janitor", run, *engines],
        environment={**os.environ, "PYTHONPATH": str(ROOT)},
        output=log,
        layer=Layer.DATABASE,
        patience=JANITOR_S,
    )
    process = processes.start("janitor", command)

    def ready() -> bool:
        process.check()
        return "ready" in tail(log)

    until(ready, Deadline(seconds), lambda: f"The janitor does not start, see {log}.")

    def stop() -> None:
        if process.stop(JANITOR_S):
            raise DockerError(f"Not everything of this run could be removed: {process.tail(1)} (see {log})")

    return stop


def main(run: str, *engines: str) -> int:
    """Wait for SIGTERM, then clean up."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])
    # loaded now, as there is little time when it has to clean up
    import docker  # noqa: F401, PLC0415 - slow to import, and most beds need none

    print("ready", flush=True)
    signal.sigwait([signal.SIGTERM, signal.SIGINT])
    failed = False
    for url in dict.fromkeys(engines):
        try:
            problems = clean(url, run)
        except DockerError as error:
            problems = [str(error)]
        for problem in problems:
            print(problem, file=sys.stderr)
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
