"""The backend of processes on this machine; `harness.load.backend` says what each method has to do."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from harness.bed import Bed, BedSettings, master
from harness.bed.settings import ApiSettings, check_acl
from harness.errors import RunError
from harness.load import clients
from harness.load.coordinator import Coordinator
from harness.load.plan import COMMANDS, ApiAccess, Plan, Share
from harness.load.watch import Watch
from harness.paths import ROOT
from harness.scenarios.clients import CLI, OVER_API

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from harness.bed.fleet import Fleet
    from harness.load.backend import Job
    from harness.load.clients import Locust
    from harness.processes.processes import Process

# where salt-api listens for workers of other hosts
EVERYWHERE = "0.0.0.0"  # noqa: S104 - its password is made anew for each bed
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


class LocalBackend:
    """The bed on this machine."""

    def __init__(self, job: Job) -> None:
        """Take the job; nothing is started before the context is entered."""
        scenario = job.scenario
        self.watch = Watch(job.watch, job.folder) if job.watch else None
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
        self._coordinator = Coordinator(job.remote) if job.remote else None
        self._stack = ExitStack()

    def _api_settings(self) -> ApiSettings:
        scenario = self._job.scenario
        # workers of other hosts call it too
        options: dict[str, object] = {"host": EVERYWHERE} if self._job.remote else {}
        if self.watch:
            options |= self.watch.options()
        return ApiSettings(scenario.salt_api, scenario.permissions(OVER_API), options)

    @property
    def watched(self) -> str:
        """Return where the run may be watched, "" if nowhere."""
        return self.watch.told(self._bed.api) if self.watch else ""

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
            if self._coordinator:
                stack.enter_context(self._coordinator)
            stack.enter_context(self._bed)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the bed."""
        self._stack.__exit__(kind, error, traceback)

    def start_fleet(self) -> Fleet:
        """Start the simulated minions."""
        return self._bed.start_fleet(self._job.scenario.minions, self._job.fleet_options)

    def start_clients(self, expected: Mapping[str, int]) -> clients.Clients:
        """Start locust, once all workers of other hosts are there."""
        job, bed = self._job, self._bed
        if self._coordinator:
            self._coordinator.gather(bed.check)
        remote = job.remote
        plan = Plan(
            scenario_file=job.file.resolve(),
            minions=job.scenario.minions,
            seed=job.scenario.seed,
            expected=dict(expected),
            samples=job.samples.resolve(),
            api=self._api_access(),
            commands={kind: tuple(bed.command(name)) for kind, name in COMMANDS.items()},
            command_environment=dict(bed.environment),
            share=Share(job.workers + remote.workers, remote=remote.workers, address=remote.address)
            if remote
            else Share(job.workers),
        )

        def spawn(locust: Locust) -> Process:
            process = bed.spawn(locust.name, locust.argv, env=locust.environment, cwd=job.samples, role="locust")
            # `code` finds out whether a process of locust has ended too early
            bed.watch(process, "Its requests are not sent at their times: start the run again.", may_end=True)
            return process

        return clients.start(plan, bed.ports.take("locust"), spawn, self._coordinator)

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
