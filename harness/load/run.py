"""One load run of one tree: bed, fleet, clients, settling, and the raw samples of all of it.

Nothing is computed here: figures come later from the files, see `harness.results.result`.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evil_minions.samples import read_jobs
from harness import samples
from harness.bed import Bed, BedSettings
from harness.errors import RunError, SettingsError, StartError
from harness.load import plan as plans
from harness.load.recorder import Recorder
from harness.processes.deadline import Deadline
from harness.processes.process import PACKAGES
from harness.samples import Timeline

if TYPE_CHECKING:
    from harness.bed.fleet import Fleet
    from harness.processes.process import Process
    from harness.progress import Progress
    from harness.scenarios.scenario import Scenario

SAMPLE_S = 1.0
"""Seconds between two samples of the fleet."""
# what the clients may take beyond the last one's patience before the run counts as stuck
STUCK_S = 60.0
# how long nothing may move before a fleet that has nothing left to send counts as settled
QUIET_S = 2.0
JOB_CACHE_S = 300.0
LOCUST = Path(__file__).with_name("users.py")


@dataclass(frozen=True)
class Job:
    """What is to be run: the tree's name and folder, the scenario and its file, and the folder for what stays of it."""

    name: str
    tree: Path
    scenario: Scenario
    file: Path
    folder: Path

    @property
    def samples(self) -> Path:
        """Return the folder of raw samples."""
        return self.folder / "samples"


def run(job: Job, progress: Progress) -> None:
    """Run the scenario against the tree; raw samples and logs are in the job's folder afterwards, whatever happens.

    Raises HarnessError if the bed, the fleet or the load generator fails. Clients that get no answer are samples, not
    failures.
    """
    job.samples.mkdir(parents=True, exist_ok=True)
    settings = BedSettings(
        tree=job.tree,
        folder=job.folder,
        master_options=job.scenario.master_options(job.name),
        pillar=job.scenario.pillar,
        transport=job.scenario.transport,
        minions=job.scenario.minions,
        seed=job.scenario.seed,
    )
    progress.say(f"{job.name}: starting the bed")
    with Bed(settings) as bed:
        fleet_start = time.time()
        fleet = bed.start_fleet()
        with closing(fleet.control), Recorder(fleet, job.samples, progress, job.name) as recorder:
            _ramp_up(job, recorder)
            ready = time.time()
            progress.say(f"{job.name}: {job.scenario.minions:,} minions ready after {ready - fleet_start:.1f} s")
            locust = _start_clients(job, bed, fleet)
            load_start = _watch_clients(job, recorder, locust)
            in_time = _settle(job, recorder)
            settled = time.time()
            fleet.control.flush()
        rows = list(samples.read_clients(job.samples))
        clients_done = max((row.finished for row in rows), default=settled)
        progress.show(f"{job.name}: reading the job cache")
        _read_job_cache(job, bed)
        # before the bed ends: whatever happens to it then, the samples are complete
        timeline = Timeline(fleet_start, ready, load_start, clients_done, settled, in_time)
        samples.write_timeline(job.samples, timeline)
        progress.show(f"{job.name}: stopping the bed")
    failed = sum(bool(row.error) for row in rows)
    progress.say(f"{job.name}: {len(rows):,} client requests, {failed:,} without a complete answer")


def _ramp_up(job: Job, recorder: Recorder) -> None:
    """Wait until every minion is ready."""
    deadline = Deadline(job.scenario.ready_s)
    while True:
        sample = recorder.sample("ramp-up")
        if sample.ready >= sample.minions:
            return
        if deadline.passed():
            raise StartError(
                f"Only {sample.ready:,} of {sample.minions:,} minions were ready after {job.scenario.ready_s:g} s: "
                f"see the logs in {job.folder}, or raise `ready_s` in the scenario."
            )
        time.sleep(min(SAMPLE_S, deadline.left()))


def _start_clients(job: Job, bed: Bed, fleet: Fleet) -> Process:
    """Start locust with the plan of this run."""
    expected = {entry.name: len(fleet.control.match(entry.tgt, entry.tgt_type)) for entry in job.scenario.clients}
    for name, count in expected.items():
        if not count:
            raise SettingsError(
                f"The clients `{name}` target none of the {job.scenario.minions:,} minions: change `tgt` or `minions`."
            )
    plan = plans.Plan(
        scenario_file=job.file.resolve(),
        minions=job.scenario.minions,
        seed=job.scenario.seed,
        expected=expected,
        samples=job.samples.resolve(),
        url=bed.api.url,
        user=bed.api.user,
        password=bed.api.password,
        eauth=bed.api.eauth,
        command=tuple(bed.command("salt")),
        command_environment=dict(bed.environment),
    )
    users = len(job.scenario.clients)
    argv = [
        sys.executable,
        "-m",
        "locust",
        "--headless",
        "-f",
        str(LOCUST),
        "--users",
        str(users),
        "--spawn-rate",
        str(users),
    ]
    argv += [
        "--stop-timeout",
        "1",
        "--only-summary",
        "--csv",
        str(job.samples.resolve() / "locust"),
        "--csv-full-history",
    ]
    argv += ["--html", str(job.samples.resolve() / "locust.html"), "--json-file", str(job.samples.resolve() / "locust")]
    return bed.spawn("locust", argv, env=plans.to_environment(plan), cwd=job.samples)


def _watch_clients(job: Job, recorder: Recorder, locust: Process) -> float:
    """Sample until the last client has its answer, and return when the load began, in seconds since the epoch."""
    scenario = job.scenario
    limit = scenario.load_s + max(entry.give_up_s for entry in scenario.clients) + STUCK_S
    deadline = Deadline(limit)
    requests = job.samples / "requests.csv"
    code = locust.code()
    while code is None:
        if deadline.passed():
            raise RunError(f"The clients still run {limit:g} s after their start: see {locust.log}.")
        time.sleep(SAMPLE_S)
        answered = max(0, _lines(requests) - 1)
        recorder.sample("load", f"{answered:,} client requests answered")
        code = locust.code()
    zero = plans.read_zero(job.samples)
    if code not in {0, 1} or zero is None:
        raise RunError(f"The clients could not run (locust's exit code is {code}), its last lines are: {locust.tail()}")
    return zero


def _settle(job: Job, recorder: Recorder) -> bool:
    """Sample until no minion has a return left to send, and return whether that was so before the scenario's limit."""
    deadline = Deadline(job.scenario.settle_s)
    quiet = Deadline(QUIET_S)
    before = recorder.sample("settling")
    while not deadline.passed():
        time.sleep(min(SAMPLE_S, deadline.left()))
        sample = recorder.sample("settling")
        moved = (sample.publications, sample.return_sends) != (before.publications, before.return_sends)
        if moved or sample.returns > sample.returns_acked + sample.returns_given_up:
            quiet = Deadline(QUIET_S)
        elif quiet.passed():
            return True
        before = sample
    return False


def _read_job_cache(job: Job, bed: Bed) -> None:
    """Write the returns that the master kept of the jobs that the fleet saw, read by the tree's own Salt."""
    jids = sorted({row.jid for row in read_jobs(job.samples / "fleet") if row.fun in job.scenario.functions})
    asked = bed.temporary / "jids"
    asked.write_text("".join(f"{jid}\n" for jid in jids), encoding="ascii")
    kept = job.samples.resolve() / "kept.csv"
    argv = [sys.executable, "-m", "harness.load.jobcache", str(bed.master.config_dir), str(asked), str(kept)]
    path = os.pathsep.join((bed.environment["PYTHONPATH"], str(PACKAGES)))
    reader = bed.spawn("jobcache", argv, env={**bed.environment, "PYTHONPATH": path}, role="harness")
    if code := reader.wait(JOB_CACHE_S):
        raise RunError(
            f"The master's job cache could not be read (exit code {code}), see {reader.log}: {reader.tail(1)}"
        )


def _lines(path: Path) -> int:
    """Return the number of lines of a file, 0 while there is none."""
    try:
        return path.read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0
