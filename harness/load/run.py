"""One load run of one tree: bed, fleet, clients, settling, and the raw samples of all of it.

Nothing is computed here: figures come later from the files, see `harness.results.result`.
"""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

from evil_minions.samples import read_jobs
from harness import samples
from harness.errors import RunError, SettingsError, StartError
from harness.load.recorder import Recorder
from harness.load.stage import Local
from harness.load.timeline import Player
from harness.processes.deadline import Deadline
from harness.samples import Timeline

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.load.stage import Clients, Fleet, Job, Stage
    from harness.progress import Progress

SAMPLE_S = 1.0
"""Seconds between two samples of the fleet."""
# what the clients may take beyond the last one's patience before the run counts as stuck
STUCK_S = 60.0
# how long nothing may move before a fleet that has nothing left to send counts as settled
QUIET_S = 2.0


def run(job: Job, progress: Progress, stage_of: Callable[[Job], Stage] = Local) -> None:
    """Run the scenario against the tree; raw samples and logs are in the job's folder afterwards, whatever happens.

    `stage_of` makes the place where it runs. Raises HarnessError if the bed, the fleet or the load generator fails, or
    a moment of the timeline can't be played. Clients that get no answer are samples, not failures.
    """
    job.samples.mkdir(parents=True, exist_ok=True)
    progress.say(f"{job.name}: starting the bed")
    with stage_of(job) as stage:
        fleet_start = time.time()
        fleet = stage.start_fleet()
        with closing(fleet), Recorder(fleet, job.samples, progress, job.name) as recorder:
            _ramp_up(job, recorder)
            ready = time.time()
            progress.say(f"{job.name}: {job.scenario.minions:,} minions ready after {ready - fleet_start:.1f} s")
            clients = stage.start_clients(_expected(job, fleet))
            with Player(job.scenario.timeline, fleet.ask, stage, job.samples) as player:
                load_start = _watch_clients(job, recorder, clients, player)
            in_time = _settle(job, recorder)
            settled = time.time()
            fleet.flush()
        stage.collect()
        rows = list(samples.read_clients(job.samples))
        clients_done = max((row.finished for row in rows), default=settled)
        progress.show(f"{job.name}: reading the job cache")
        stage.read_job_cache(_jids(job))
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


def _expected(job: Job, fleet: Fleet) -> dict[str, int]:
    """Return how many minions each block of clients targets; raise SettingsError if one targets none."""
    expected = {entry.name: fleet.match(entry.tgt, entry.tgt_type) for entry in job.scenario.clients}
    for name, count in expected.items():
        if not count:
            raise SettingsError(
                f"The clients `{name}` target none of the {job.scenario.minions:,} minions: change `tgt` or `minions`."
            )
    return expected


def _watch_clients(job: Job, recorder: Recorder, clients: Clients, player: Player) -> float:
    """Sample until the last client has its answer and the timeline is over.

    Return when the load began, in seconds since the epoch.
    """
    scenario = job.scenario
    limit = scenario.load_s + max(entry.give_up_s for entry in scenario.clients) + STUCK_S
    deadline = Deadline(limit)
    code = clients.code()
    while code is None or (player.started and not player.done):
        if player.problem:
            raise RunError(player.problem)
        if deadline.passed():
            raise RunError(f"The clients still run {limit:g} s after their start: {clients.tail()}")
        time.sleep(SAMPLE_S)
        if not player.started and (zero := clients.zero()) is not None:
            player.start(zero)
        recorder.sample("load", f"{clients.answered():,} client requests answered")
        code = clients.code()
    zero = clients.zero()
    if code not in {0, 1} or zero is None:
        raise RunError(
            f"The clients could not run (locust's exit code is {code}), its last lines are: {clients.tail()}"
        )
    if player.problem:
        raise RunError(player.problem)
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


def _jids(job: Job) -> list[str]:
    """Return the ids of the jobs that the fleet saw of the functions that clients ask for."""
    return sorted({row.jid for row in read_jobs(job.samples / "fleet") if row.fun in job.scenario.functions})
