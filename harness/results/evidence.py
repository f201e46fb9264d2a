"""All raw samples of one tree's run, read into memory once.

Result and report look at the same samples; a run of a few hundred thousand returns fits easily.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import evil_minions
from harness.results.answers import answers
from harness.samples import files as samples

if TYPE_CHECKING:
    from pathlib import Path

    from evil_minions import JobRow, ReturnRow, StartRow, TallyRow
    from harness.results.answers import Answer
    from harness.samples import rows


@dataclass(frozen=True)
class Evidence:
    """The samples of one tree's run; each list is in order of time, as written."""

    timeline: rows.Timeline
    clients: list[rows.ClientSample]
    processes: list[rows.ProcessSample]
    fleet: list[rows.FleetSample]
    accepted: list[rows.AcceptedJob]
    kept: list[rows.KeptReturn]
    jobs: list[JobRow]
    tallies: list[TallyRow]
    returns: list[ReturnRow]
    starts: list[StartRow]
    moments: list[rows.MomentSample]
    clocks: list[rows.ClockSample]
    runners: list[rows.RunnerSample] = field(default_factory=list)
    logins: list[rows.LoginSample] = field(default_factory=list)
    machine: list[rows.MachineSample] = field(default_factory=list)

    @cached_property
    def answers(self) -> list[Answer]:
        """Return what became of each request of a client, in order of when they were due."""
        return answers(self.clients, self.returns, self.kept, self.runners)

    def load_jobs(self) -> dict[str, list[JobRow]]:
        """Return the rows, one for each worker, of each job that the fleet first saw in the load phase, by job id."""
        jobs: dict[str, list[JobRow]] = {}
        for job in self.jobs:
            if job.time >= self.timeline.load_start:
                jobs.setdefault(job.jid, []).append(job)
        return jobs


def read(folder: Path) -> Evidence:
    """Return the samples in `folder`. Raises SettingsError if the run was not finished."""
    fleet = folder / "fleet"
    return Evidence(
        timeline=samples.read_timeline(folder),
        clients=list(samples.read_clients(folder)),
        processes=list(samples.read_processes(folder)),
        fleet=list(samples.read_fleet(folder)),
        accepted=list(samples.read_accepted(folder)),
        kept=list(samples.read_kept(folder)),
        jobs=sorted(evil_minions.read_jobs(fleet), key=lambda job: job.time),
        tallies=evil_minions.read_tallies(fleet),
        returns=sorted(evil_minions.read_returns(fleet), key=lambda row: row.time),
        starts=list(evil_minions.read_starts(fleet)),
        moments=samples.read_moments(folder),
        clocks=samples.read_clocks(folder),
        runners=samples.read_runners(folder),
        logins=samples.read_logins(folder),
        machine=samples.read_machine(folder),
    )
