"""What a load run needs of the place where it runs: a master with all around it, a fleet, and clients.

`LocalBackend` has processes on this machine, `harness.containers.backend` has containers. A run can't tell them apart:
its figures mean the same on both.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

from harness.bed import Bed, BedSettings, master
from harness.bed.settings import ApiSettings, check_acl
from harness.errors import RunError
from harness.load import clients
from harness.load.plan import COMMANDS, ApiAccess, Plan, Share
from harness.load.watch import Watch
from harness.paths import ROOT
from harness.scenarios.clients import CLI, OVER_API
from harness.scenarios.fleet import resolve, resolve_roots

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from evil_minions import Status
    from harness.bed.fleet import Fleet as BedFleet
    from harness.load.clients import Locust
    from harness.processes.deadline import Deadline
    from harness.processes.processes import Process
    from harness.scenarios.scenario import Scenario


@dataclass(frozen=True)
class Job:
    """What is to be run: the tree's name and folder, the scenario and its file, and the folder for what stays of it.

    `file` is the copy in the run's folder; files that it names are looked for in `beside`. The clients share their
    work among `workers` processes.
    """

    name: str
    tree: Path
    scenario: Scenario
    file: Path
    folder: Path
    beside: Path
    workers: int = 1
    # the folder of the page that shows the run
    watch: Path | None = None

    @property
    def samples(self) -> Path:
        """Return the folder of raw samples."""
        return self.folder / "samples"

    @property
    def fleet_options(self) -> tuple[str, ...]:
        """Return the options of the fleet's command."""
        return resolve(self.scenario.fleet, self.beside)

    @property
    def master_options(self) -> dict[str, object]:
        """Return the options of the master's configuration."""
        return resolve_roots(self.scenario.master_options(self.name), self.beside)


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
    """A master with all that is around it; a context manager.

    Once everything is started, `postgresql` says where the PostgreSQL comes from ("" if there is none), `watched` where
    the run may be watched ("" if nowhere), `watch` is the page that shows it, `here` whether all is on this machine.
    """

    postgresql: str
    watched: str
    watch: Watch | None
    here: bool
    _stack: ExitStack

    def __enter__(self) -> Self:
        """Start everything but fleet and clients, and leave to `_stack` how to stop it."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop everything; logs and samples are in the job's folder."""
        self._stack.__exit__(kind, error, traceback)

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


JOB_CACHE_S = 300.0
# the master's maintenance looks for the request once every `loop_interval`, which is a minute unless told otherwise
ROTATE_S = 90.0
START_S = 30.0


def rotate_keys(bed: Bed) -> None:
    """Have the bed's master rotate its publication key, and wait until it has; raise RunError if it does not."""
    _run(bed, "rotate", ["rotate", str(ROTATE_S)], ROTATE_S + START_S)


def read_cache(bed: Bed, what: str, names: Sequence[str]) -> None:
    """Write what the master's job cache holds of `names`, see `harness.load.salt_side`, into the bed's samples."""
    asked = bed.temporary / what
    asked.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    _run(bed, "jobcache", [what, str(asked), str(bed.samples / f"{what}.csv")], JOB_CACHE_S)


def _run(bed: Bed, name: str, argv: Sequence[str], seconds: float) -> None:
    """Run `harness.load.salt_side` to its end; raise RunError, with the last line that it printed, if it fails."""
    # a Salt with an environment of its own needs no path, but its own Python
    found = (bed.environment.get("PYTHONPATH"), str(ROOT))
    environment = {**bed.environment, "PYTHONPATH": os.pathsep.join(filter(None, found))}
    process = bed.spawn(
        name,
        [bed.tree.python(), "-m", "harness.load.salt_side", str(bed.master.config_dir), *argv],
        env=environment,
        role="harness",
    )
    if code := process.wait(seconds):
        raise RunError(f"The program {name} failed (exit code {code}), see {process.log}: {process.tail(1)}")


class LocalBackend(Backend):
    """The bed on this machine."""

    def __init__(self, job: Job) -> None:
        """Take the job; nothing is started before the context is entered."""
        scenario = job.scenario
        self.postgresql = self.watched = ""
        self.watch = Watch(job.watch, job.folder) if job.watch else None
        self.here = True
        acl = scenario.permissions({CLI})
        check_acl(acl)
        self._job = job
        self._bed = Bed(
            BedSettings(
                tree=job.tree,
                folder=job.folder,
                master_options={**master.acl_options(acl), **job.master_options},
                pillar=scenario.pillar,
                transport=scenario.transport,
                minions=scenario.largest,
                seed=scenario.seed,
                api=self._api_settings() if scenario.asks_api or self.watch else None,
            )
        )
        self._stack = ExitStack()

    def _api_settings(self) -> ApiSettings:
        scenario = self._job.scenario
        options = self.watch.options() if self.watch else {}
        return ApiSettings(scenario.salt_api, scenario.permissions(OVER_API), options)

    def __enter__(self) -> Self:
        """Start the bed, and wait for nobody yet."""
        with ExitStack() as stack:
            stack.enter_context(self._bed)
            if self._bed.settings.postgres != "none":
                self.postgresql = self._bed.postgres.source
            if self.watch:
                self.watched = self.watch.instructions(self._bed.api)
            self._stack = stack.pop_all()
        return self

    def start_fleet(self) -> BedFleet:
        """Start the simulated minions."""
        return self._bed.start_fleet(self._job.scenario.minions, self._job.fleet_options)

    def start_clients(self, expected: Mapping[str, int]) -> clients.Clients:
        """Start locust."""
        job, bed = self._job, self._bed
        plan = Plan(
            scenario_file=job.file.resolve(),
            minions=job.scenario.minions,
            seed=job.scenario.seed,
            expected=dict(expected),
            samples=job.samples.resolve(),
            api=self._api_access(),
            commands={kind: tuple(bed.command(name)) for kind, name in COMMANDS.items()},
            command_environment=dict(bed.environment),
            share=Share(job.workers),
        )

        def spawn(locust: Locust) -> Process:
            process = bed.spawn(locust.name, locust.argv, env=locust.environment, cwd=job.samples, role="locust")
            # `code` finds out whether a process of locust has ended too early
            bed.watch(process, "Its requests are not sent at their times: start the run again.", may_end=True)
            return process

        return clients.start(plan, bed.ports.take("locust"), spawn)

    def _api_access(self) -> ApiAccess:
        bed = self._bed
        if not bed.apis:
            return ApiAccess()
        return ApiAccess(tuple(one.url for one in bed.apis), bed.api.user, bed.api.password, bed.api.eauth)

    def check(self) -> None:
        """Look after the bed's processes."""
        self._bed.check()

    def rotate_keys(self) -> None:
        """Ask for it as Salt's own commands do."""
        rotate_keys(self._bed)

    def restart_master(self) -> None:
        """Stop the master and start it again."""
        self._bed.restart_master()

    def collect(self) -> None:
        """Do nothing: samples are written where they stay."""

    def read_cache(self, what: str, names: Sequence[str]) -> None:
        """Read the job cache with the tree's own Salt."""
        read_cache(self._bed, what, names)

    def running(self) -> list[str]:
        """Return the ids of runners and batches at work."""
        return self._bed.master.running()
