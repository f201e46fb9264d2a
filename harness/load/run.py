"""One load run of one tree: bed, fleet, clients, settling, and the raw samples of all of it.

Nothing is computed here: figures come later from the files, see `harness.results.result`.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from evil_minions import JobRow
from harness.errors import MasterError, RunError, SettingsError, StartError
from harness.load.local import LocalBackend
from harness.load.settling import SAMPLE_S, Queue, Recorder, accepted, runners, settle
from harness.load.timeline import Player
from harness.processes.deadline import Deadline, Patience
from harness.samples import files
from harness.samples.rows import ClientSample, Timeline
from harness.scenarios.fleet import network_targets

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.load.backend import Backend, Clients, Fleet, Job
    from harness.progress import Progress

# what the clients may take to begin, and beyond the last one's patience, before the run counts as stuck
BEGIN_S = 60.0
STUCK_S = 120.0


def run(
    job: Job,
    progress: Progress,
    backend_of: Callable[[Job], Backend] = LocalBackend,
    told: Callable[[str], None] | None = None,
) -> None:
    """Run the scenario against the tree; raw samples and logs are in the job's folder afterwards, whatever happens.

    `backend_of` makes the place where it runs; `told` hears where its PostgreSQL comes from. Raises HarnessError if the
    bed, the fleet or the load generator fails, or a moment of the timeline can't be played.
    Clients that get no answer are samples, not failures.
    """
    job.samples.mkdir(parents=True, exist_ok=True)
    progress.say(f"{job.name}: starting the bed")
    with ExitStack() as stack:
        backend = _enter(job, backend_of, stack)
        if told and backend.postgresql:
            told(backend.postgresql)
        if backend.watched:
            progress.say(f"{job.name}: {backend.watched}")
        fleet_start = time.time()
        fleet = backend.start_fleet()
        with closing(fleet), _recorder(job, fleet, backend, progress) as recorder:
            _ramp_up(job, recorder)
            ready = time.time()
            progress.say(f"{job.name}: {job.scenario.minions:,} minions ready after {ready - fleet_start:.1f} s")
            expected = _expected(job, fleet)
            clients = backend.start_clients(expected)
            with Player(job.scenario.timeline, fleet.ask, backend, job.samples) as player:
                load_start = _watch_clients(job, recorder, clients, player)
            settled, in_time = settle(job.scenario.settle_s, recorder, Queue(job, backend, fleet, expected).empty)
            fleet.flush()
        progress.show(f"{job.name}: reading the job cache")
        if not in_time:
            backend.read_cache("accepted", job.scenario.asked.lines())
        backend.collect()
        rows = files.read(job.samples, ClientSample)
        clients_done = max((row.finished for row in rows), default=settled)
        backend.read_cache("kept", _jids(job))
        if started := runners(job, expected):
            backend.read_cache("runners", [one.line() for one in started])
        # before the bed ends: whatever happens to it then, the samples are complete
        timeline = Timeline(fleet_start, ready, load_start, clients_done, settled, in_time)
        files.write_timeline(job.samples, timeline)
        progress.show(f"{job.name}: stopping the bed")
    # the bed's monitor writes until the bed ends
    files.write(job.samples)
    progress.say(f"{job.name}: {len(rows):,} client requests are over")


def _recorder(job: Job, fleet: Fleet, backend: Backend, progress: Progress) -> Recorder:
    recorder = Recorder(fleet, job.samples, progress, job.name, backend.check, here=backend.here)
    if watch := backend.watch:
        recorder.shown = lambda phase, clients, sample: watch.show(job.name, phase, clients, sample, job.samples)
    return recorder


def _enter(job: Job, backend_of: Callable[[Job], Backend], stack: ExitStack) -> Backend:
    """Start the backend; if the master does not start, the error names the scenario's own options first."""
    try:
        return stack.enter_context(backend_of(job))
    except MasterError as error:
        options = job.scenario.master_options(job.name)
        if not options:
            raise
        raise MasterError(
            f"The master of {job.name} did not start with the scenario's table `[master]` ({', '.join(options)}): "
            f"check these options first. {error}"
        ) from error


def _ramp_up(job: Job, recorder: Recorder) -> None:
    """Wait until every minion is ready: longer than the scenario says as long as more of them get ready."""
    sample = recorder.sample("ramp-up")
    deadline = Patience(job.scenario.ready_s, lambda: sample.connected + sample.authenticated + sample.ready, least=1)
    while sample.ready < sample.minions:
        if deadline.passed():
            raise StartError(
                f"Only {sample.ready:,} of {sample.minions:,} minions were ready after {deadline.waited()}: "
                f"see the logs in {job.folder}, or raise `ready_s` in the scenario."
            )
        time.sleep(min(SAMPLE_S, deadline.left()))
        sample = recorder.sample("ramp-up")


def _expected(job: Job, fleet: Fleet) -> dict[str, int]:
    """Return how many minions each block of clients targets.

    Raises SettingsError if one targets none, or a network is none's.
    """
    expected = {
        name: fleet.match(tgt, entry.tgt_type) for entry in job.scenario.clients for name, tgt in entry.targets.items()
    }
    for name, count in expected.items():
        if not count:
            raise SettingsError(
                f"The clients `{name}` target none of the {job.scenario.minions:,} minions: change `tgt` or `minions`."
            )
    # minions that the timeline adds later are not there yet
    grows = job.scenario.largest > job.scenario.minions
    for tgt, tgt_type in () if grows else network_targets(job.scenario.fleet):
        if not fleet.match(tgt, tgt_type):
            raise SettingsError(
                f"The network of `{tgt}` is that of none of the {job.scenario.minions:,} minions: change its `tgt`, or "
                "leave it out."
            )
    return expected


def _watch_clients(job: Job, recorder: Recorder, clients: Clients, player: Player) -> float:
    """Sample until the last client has its answer and the timeline is over.

    Return when the load began, in seconds since the epoch.
    """
    scenario = job.scenario
    limit = scenario.load_s + max(entry.give_up_s for entry in scenario.clients) + STUCK_S
    deadline = clients.patience(BEGIN_S)
    code, zero = clients.code(), clients.zero()
    while code is None or (player.started and not player.done):
        if player.problem:
            raise RunError(player.problem)
        if deadline.passed():
            raise RunError(clients.late("begin" if zero is None else "come to an end", deadline))
        time.sleep(SAMPLE_S)
        if zero is None and (zero := clients.zero()) is not None:
            deadline = Deadline(limit)
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


def _jids(job: Job) -> list[str]:
    """Return the ids of the jobs that clients asked for: accepted by the master, or seen by the fleet."""
    seen = {row.jid for row in files.read(job.samples, JobRow) if row.fun in job.scenario.asked}
    return sorted({*accepted(job), *seen})
