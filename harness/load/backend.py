"""What a load run needs of the place where it runs: a master with all around it, a fleet, and clients.

`harness.load.local` has processes on this machine, `harness.containers.backend` has containers. A run can't tell them
apart: its figures mean the same on both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

from harness.scenarios import fleet as options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from evil_minions import Status
    from harness.load.coordinator import Remote
    from harness.load.watch import Watch
    from harness.processes.deadline import Deadline
    from harness.scenarios.scenario import Scenario


@dataclass(frozen=True)
class Job:
    """What is to be run: the tree's name and folder, the scenario and its file, and the folder for what stays of it.

    `file` is the copy in the run's folder; files that it names are looked for in `beside`. The clients share their
    work among `workers` processes here, and `remote` ones of other hosts.
    """

    name: str
    tree: Path
    scenario: Scenario
    file: Path
    folder: Path
    beside: Path
    workers: int = 1
    remote: Remote | None = None
    # the folder of the page that shows the run
    watch: Path | None = None

    @property
    def samples(self) -> Path:
        """Return the folder of raw samples."""
        return self.folder / "samples"

    @property
    def fleet_options(self) -> tuple[str, ...]:
        """Return the options of the fleet's command."""
        return options.resolve(self.scenario.fleet, self.beside)

    @property
    def master_options(self) -> dict[str, object]:
        """Return the options of the master's configuration."""
        return options.resolve_roots(self.scenario.master_options(self.name), self.beside)


class Fleet(Protocol):
    """Simulated minions at work."""

    def status(self) -> Status:
        """Return their state; raise StartError if they have ended."""

    def match(self, tgt: str, tgt_type: str) -> int:
        """Return how many minions a target matches."""

    def ask(self, request: Mapping[str, object]) -> dict[str, Any]:
        """Send a request to the control socket, while others may be under way, and return the answer."""

    def unseen(self, jids: Sequence[str]) -> list[str]:
        """Return those of the job ids that no minion has heard of."""

    def flush(self) -> None:
        """Have all samples written."""

    def close(self) -> None:
        """Hang up."""


class Clients(Protocol):
    """Clients at work, see `harness.load.clients.Clients`."""

    def code(self) -> int | None:
        """Return the exit code, None while they are at work."""

    def zero(self) -> float | None:
        """Return the schedule's zero, None while they are not ready yet."""

    def answered(self) -> int:
        """Return how many requests have been answered."""

    def patience(self, seconds: float) -> Deadline:
        """Return a deadline for what takes `seconds` on a quiet machine."""

    def late(self, what: str, deadline: Deadline) -> str:
        """Return the error text for clients that did not do `what` in time."""

    def tail(self) -> str:
        """Return the last lines that they printed."""


class Backend(Protocol):
    """A master with all that is around it; a context manager."""

    @property
    def postgresql(self) -> str:
        """Return where the PostgreSQL comes from, "" if there is none; known once everything is started."""

    @property
    def watched(self) -> str:
        """Return where the run may be watched, "" if nowhere; known once everything is started."""

    @property
    def watch(self) -> Watch | None:
        """Return the page that shows the run, None if there is none."""

    @property
    def here(self) -> bool:
        """Return whether all of it is on this machine; known once everything is started."""

    def __enter__(self) -> Self:
        """Start everything but fleet and clients."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop everything; logs and samples are in the job's folder."""

    def start_fleet(self) -> Fleet:
        """Start the simulated minions and return them once they answer."""

    def start_clients(self, expected: Mapping[str, int]) -> Clients:
        """Start the clients; `expected` is the number of minions that each block of them targets."""

    def check(self) -> None:
        """Raise a HarnessError if something of it has ended, or gives no sign of life, that should live."""

    def rotate_keys(self) -> None:
        """Have the master rotate the key that it publishes with, and wait until it has."""

    def restart_master(self) -> None:
        """Stop the master and start it again."""

    def collect(self) -> None:
        """Bring all samples so far into the job's folder."""

    def read_cache(self, what: str, names: Sequence[str]) -> None:
        """Write what the job cache holds of `names` into the samples; `harness.load.salt_side` has the kinds."""

    def running(self) -> list[str]:
        """Return the ids of the master's own jobs that are at work: its runners, and batches that it drives."""
