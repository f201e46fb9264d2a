"""The clients' processes: locust as one process, or as a master with workers over the loopback interface."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.load import plan as plans
from harness.processes.deadline import Deadline
from harness.processes.ports import HOST

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from harness.load.plan import Plan
    from harness.processes.processes import Process

# how long workers that have ended may be ahead of the process that directs them
ALONE_S = 30.0
LOCUST = Path(__file__).with_name("users.py")


@dataclass(frozen=True)
class Locust:
    """One process of locust: its name, command line, and what is added to its environment."""

    name: str
    argv: list[str]
    environment: Mapping[str, str]


class Clients:
    """The clients at work; `process` is the one that ends when the last answer has come."""

    def __init__(self, processes: Sequence[Process], samples: Path) -> None:
        """Take the processes, the leading one first, and the folder of their samples."""
        self._process, *self._workers = processes
        self._samples = samples
        # since when a worker has ended while the one that directs it goes on
        self._alone: Deadline | None = None

    def code(self) -> int | None:
        """Return the exit code, None while they are at work; raise a HarnessError if a worker has failed."""
        code = self._process.code()
        ended = [worker for worker in self._workers if code is None and worker.code() is not None]
        for worker in ended:
            # a worker that is done ends with 0, perhaps a moment before the process that directs it
            if worker.code() or (self._alone and self._alone.passed()):
                worker.check()
        if ended and self._alone is None:
            self._alone = Deadline(ALONE_S)
        return code

    def patience(self, seconds: float) -> Deadline:
        """Return a deadline for what takes `seconds` on a quiet machine, longer as long as they are at work."""
        return self._process.patience(seconds)

    def late(self, what: str, deadline: Deadline) -> str:
        """Return the error text for clients that did not do `what` in time."""
        return self._process.late(f"The clients did not {what}", deadline)

    def zero(self) -> float | None:
        """Return the schedule's zero in seconds since the epoch, None while they are not ready yet."""
        return plans.read_zero(self._samples)

    def answered(self) -> int:
        """Return how many requests have been answered."""
        files = self._samples.glob("requests*.csv")
        return sum(max(0, path.read_bytes().count(b"\n") - 1) for path in files)

    def tail(self) -> str:
        """Return the last lines that they printed."""
        return f"{self._process.tail()} (see {self._process.log})"


def start(plan: Plan, port: int, spawn: Callable[[Locust], Process]) -> Clients:
    """Start the clients with `spawn`; `port` is for locust's master, if there are workers."""
    return Clients([spawn(locust) for locust in commands(plan, port)], plan.samples)


def commands(plan: Plan, port: int) -> list[Locust]:
    """Return the processes of locust that a plan needs, the leading one first."""
    base = [sys.executable, "-m", "locust", "--headless", "-f", str(LOCUST)]
    statistics = str(plan.samples / "locust")
    lead = [*base, "--users", str(plan.share.workers), "--spawn-rate", str(plan.share.workers), "--stop-timeout", "1"]
    lead += ["--only-summary", "--csv", statistics, "--csv-full-history"]
    if plan.share.workers == 1:
        return [Locust("locust", lead, plans.to_environment(plan))]
    lead += ["--master", "--expect-workers", str(plan.share.workers)]
    lead += ["--master-bind-host", HOST, "--master-bind-port", str(port)]
    found = [Locust("locust", lead, plans.to_environment(plan))]
    worker = [*base, "--worker", "--master-host", HOST, "--master-port", str(port)]
    for number in range(plan.share.workers):
        part = replace(plan, share=replace(plan.share, worker=number))
        found.append(Locust(f"locust-{number}", worker, plans.to_environment(part)))
    return found
