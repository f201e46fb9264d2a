"""Where a load run takes place: `Stage` says what a run needs of it, `Local` is the bed on this machine.

The other one is made of containers, see `harness.containers.stage`. A run can't tell them apart: its figures mean
the same on both.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

import evil_minions
from harness.bed import Bed, BedSettings
from harness.load import clients, errand
from harness.load.desk import Desk
from harness.load.plan import COMMANDS, Plan
from harness.processes.ports import HOST
from harness.scenarios import fleet as options
from harness.scenarios.clients import CLI, OVER_API

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from evil_minions import Status
    from harness.bed import fleet as bed_fleet
    from harness.load.clients import Locust
    from harness.load.remote import Remote
    from harness.load.runners import RunnerJob
    from harness.processes.deadline import Deadline
    from harness.processes.process import Process
    from harness.scenarios.scenario import Scenario


# where salt-api listens for workers of other hosts
EVERYWHERE = "0.0.0.0"  # noqa: S104 - its password is made anew for each bed


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
        """Return how many minions a target means."""

    def unknown(self, functions: Sequence[str]) -> dict[str, str]:
        """Return the functions that no minion knows, each with the nearest known one, "" if there is none."""

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
        """Return what is to be said of clients that did not do `what` in time."""

    def tail(self) -> str:
        """Return the last lines that they printed."""


class Stage(Protocol):
    """A master with all that is around it; a context manager."""

    @property
    def postgresql(self) -> str:
        """Return where the PostgreSQL comes from, "" if there is none; known once everything is started."""

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
        """Raise a HarnessError if something of the stage has ended, or gives no sign of life, that should live."""

    def rotate_keys(self) -> None:
        """Have the master rotate the key that it publishes with, and wait until it has."""

    def restart_master(self) -> None:
        """Stop the master and start it again."""

    def collect(self) -> None:
        """Bring all samples so far into the job's folder."""

    def read_accepted(self, functions: Sequence[str]) -> None:
        """Write `accepted.csv`: the jobs of `functions` that the master accepted, as its job cache has them."""

    def read_job_cache(self, jids: Sequence[str]) -> None:
        """Write `kept.csv`: the returns of `jids` that the master's job cache holds."""

    def running(self) -> list[str]:
        """Return the ids of the master's own jobs that are at work: its runners, and batches that it drives."""

    def read_runners(self, jobs: Sequence[RunnerJob]) -> None:
        """Write `runners.csv`: the answers of asynchronous runners that the master's job cache holds."""


class LocalFleet:
    """The fleet of a bed on this machine."""

    def __init__(self, fleet: bed_fleet.Fleet) -> None:
        """Take the bed's fleet."""
        self._fleet = fleet

    def status(self) -> Status:
        """Return its state."""
        return self._fleet.status()

    def match(self, tgt: str, tgt_type: str) -> int:
        """Return how many minions a target means."""
        return len(self._fleet.control.match(tgt, tgt_type))

    def unknown(self, functions: Sequence[str]) -> dict[str, str]:
        """Return the functions that no minion knows, each with the nearest known one."""
        return self._fleet.control.unknown(list(functions))

    def ask(self, request: Mapping[str, object]) -> dict[str, Any]:
        """Send a request on a connection of its own."""
        with evil_minions.connect(self._fleet.folder) as connection:
            return connection.ask(**request)

    def unseen(self, jids: Sequence[str]) -> list[str]:
        """Return those of the job ids that no minion has heard of."""
        return self._fleet.control.unseen(list(jids))

    def flush(self) -> None:
        """Have all samples written."""
        self._fleet.control.flush()

    def close(self) -> None:
        """Hang up."""
        self._fleet.control.close()


class Local:
    """The bed on this machine."""

    def __init__(self, job: Job) -> None:
        """Take the job; nothing is started before the context is entered."""
        scenario = job.scenario
        self._job = job
        self._bed = Bed(
            BedSettings(
                tree=job.tree,
                folder=job.folder,
                master_options=job.master_options,
                pillar=scenario.pillar,
                transport=scenario.transport,
                minions=scenario.largest,
                seed=scenario.seed,
                api=scenario.asks_api,
                apis=scenario.salt_api,
                users=scenario.permissions(OVER_API),
                acl=scenario.permissions({CLI}),
                # workers of other hosts call it too
                api_options={"host": EVERYWHERE} if job.remote else {},
            )
        )
        self._desk = Desk(job.remote) if job.remote else None
        self._stack = ExitStack()

    @property
    def postgresql(self) -> str:
        """Return where the bed's PostgreSQL comes from."""
        return self._bed.postgres.source if self._bed.settings.postgres != "none" else ""

    @property
    def here(self) -> bool:
        """Return that it is; workers of other hosts send requests only."""
        return True

    def __enter__(self) -> Self:
        """Start the bed, and wait for nobody yet."""
        with ExitStack() as stack:
            if self._desk:
                stack.enter_context(self._desk)
            stack.enter_context(self._bed)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the bed."""
        self._stack.__exit__(kind, error, traceback)

    def start_fleet(self) -> LocalFleet:
        """Start the simulated minions."""
        return LocalFleet(self._bed.start_fleet(self._job.scenario.minions, self._job.fleet_options))

    def start_clients(self, expected: Mapping[str, int]) -> clients.Clients:
        """Start locust, once all workers of other hosts are there."""
        job, bed = self._job, self._bed
        if self._desk:
            self._desk.gather(bed.check)
        remote = job.remote
        plan = Plan(
            scenario_file=job.file.resolve(),
            minions=job.scenario.minions,
            seed=job.scenario.seed,
            expected=dict(expected),
            samples=job.samples.resolve(),
            urls=tuple(one.url for one in bed.apis),
            user=bed.api.user if bed.apis else "",
            password=bed.api.password if bed.apis else "",
            eauth=bed.api.eauth if bed.apis else "",
            commands={kind: tuple(bed.command(name)) for kind, name in COMMANDS.items()},
            command_environment=dict(bed.environment),
            workers=job.workers + (remote.workers if remote else 0),
            remote=remote.workers if remote else 0,
            address=remote.address if remote else HOST,
        )

        def spawn(locust: Locust) -> Process:
            process = bed.spawn(locust.name, locust.argv, env=locust.environment, cwd=job.samples, role="locust")
            # whether they may end now, they know themselves
            bed.watch(process, "Its requests are not sent at their times: start the run again.", may_end=True)
            return process

        return clients.start(plan, bed.ports.take("locust"), spawn, self._desk)

    def check(self) -> None:
        """Look after the bed's processes."""
        self._bed.check()

    def rotate_keys(self) -> None:
        """Ask for it as Salt's own commands do."""
        errand.rotate_keys(self._bed)

    def restart_master(self) -> None:
        """Stop the master and start it again."""
        self._bed.restart_master()

    def collect(self) -> None:
        """Do nothing: samples are written where they stay."""

    def read_accepted(self, functions: Sequence[str]) -> None:
        """Read the job cache with the tree's own Salt."""
        errand.read_accepted(self._bed, functions, self._job.samples.resolve() / "accepted.csv")

    def read_job_cache(self, jids: Sequence[str]) -> None:
        """Read the job cache with the tree's own Salt."""
        errand.read_job_cache(self._bed, jids, self._job.samples.resolve() / "kept.csv")

    def running(self) -> list[str]:
        """Return the ids of runners and batches at work."""
        return self._bed.master.running()

    def read_runners(self, jobs: Sequence[RunnerJob]) -> None:
        """Read the job cache with the tree's own Salt."""
        errand.read_runners(self._bed, [job.line() for job in jobs], self._job.samples.resolve() / "runners.csv")
