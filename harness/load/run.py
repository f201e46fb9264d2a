"""One load run of one tree: bed, fleet, clients, settling, and the raw samples of all of it.

Nothing is computed here: figures come later from the files, see `harness.results.result`.

A run settles after the last client has its answer. It is over when nothing of it is on its way any more: every job that
the master accepted has been published, every minion that got one has had its return, and every return is acknowledged
or given up. Minions that wait in silence are no sign of it: a job may take as long as it likes, and a master may keep
jobs in a queue of its own.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, ExitStack, closing
from typing import TYPE_CHECKING

from evil_minions import JobRow
from harness import samples
from harness.errors import MasterError, RunError, SettingsError, StartError
from harness.load.backend import LocalBackend
from harness.load.reading import RunnerJob
from harness.load.timeline import Player
from harness.processes.deadline import Deadline, Patience
from harness.samples import (
    AcceptedJob,
    ClientSample,
    FleetSample,
    MachineSample,
    RunnerSample,
    SampleFile,
    Timeline,
    monitor,
)
from harness.scenarios.clients import RUNNERS
from harness.scenarios.fleet import network_targets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from harness.load.backend import Backend, Clients, Fleet, Job
    from harness.progress import Progress


class Recorder(AbstractContextManager["Recorder"]):
    """Takes a sample of the fleet every second, writes it and shows the run's progress."""

    def __init__(
        self,
        fleet: Fleet,
        folder: Path,
        progress: Progress,
        name: str,
        check: Callable[[], None] = lambda: None,
        *,
        here: bool = True,
    ) -> None:
        """Sample `fleet` into a file in `folder`; `name` is that of the tree.

        `check` raises an error if something that the run can't do without has ended; it is called before each sample.
        This machine is sampled only if the whole bed is `here`: what other machines do besides is not known.
        """
        self._here = here
        self._check = check
        self._fleet = fleet
        self._file = SampleFile(folder / "fleet.csv", FleetSample)
        self._machine = SampleFile(folder / "machine.csv", MachineSample)
        self._progress = progress
        self._name = name
        # hears the phase, what is said of the clients, and each sample
        self.shown: Callable[[str, str, FleetSample], None] = lambda *_: None

    def __exit__(self, *_error: object) -> None:
        """Close the files of samples."""
        self._file.close()
        self._machine.close()

    def sample(self, phase: str, clients: str = "") -> FleetSample:
        """Take a sample now; `phase` and `clients` go into the line of progress."""
        self._check()
        now = time.time()
        if self._here:
            self._machine.write(monitor.machine(now))
        sample = fleet_sample(self._fleet, now)
        self._file.write(sample)
        self.shown(phase, clients, sample)
        minions = f"{sample.connected:,} connected, {sample.ready:,} of {sample.minions:,} ready"
        sent = (
            f"{sample.publications:,} jobs, {sample.return_sends:,} returns sent, {sample.returns_acked:,} acknowledged"
        )
        self._progress.show(
            f"{self._name}: {phase}: {minions if phase == 'ramp-up' else ', '.join(filter(None, [clients, sent]))}"
        )
        return sample


# of the fleet's counters, those that are sampled
COUNTERS = ("publications", "heard", "heard_bytes", "executions", "find_jobs", "returns", "return_sends",
            "returns_acked", "returns_given_up")  # fmt: skip


def fleet_sample(fleet: Fleet, when: float) -> FleetSample:
    """Return the fleet's state as a sample taken at `when`, in seconds since the epoch."""
    status = fleet.status()
    return FleetSample(
        time=when,
        minions=status.minions,
        connected=status.connected,
        authenticated=status.authenticated,
        ready=status.ready,
        rss_kb=sum(process.rss_kb for process in status.processes),
        base_rss_kb=sum(process.base_rss_kb for process in status.processes),
        cpu_s=sum(process.cpu_s for process in status.processes),
        executing=status.executing,
        **{name: getattr(status.counters, name) for name in COUNTERS},
    )


SAMPLE_S = 1.0
"""Seconds between two samples of the fleet."""
# seconds without any change after which a fleet with nothing left to send counts as settled
QUIET_S = 2.0


class Queue:
    """What waits in the master: runners and batches at work, and accepted jobs that no minion has heard of."""

    def __init__(self, job: Job, backend: Backend, fleet: Fleet, expected: Mapping[str, int]) -> None:
        """Look at nothing yet; `expected` are the sizes of the clients' targets."""
        self._expected = expected
        self._ended = 0
        self._job = job
        self._backend = backend
        self._fleet = fleet
        self._waiting: list[str] = []

    def empty(self) -> bool:
        """Return whether there is none.

        The master's job cache is read only when those that waited last time are out: that is a process of its own.
        """
        if self._backend.running() or not self._runners_ended():
            return False
        if self._waiting:
            self._waiting = self._fleet.unseen(self._waiting)
        if not self._waiting:
            self._backend.read_cache("accepted", self._job.scenario.asked.lines())
            self._waiting = self._fleet.unseen(accepted(self._job))
        return not self._waiting

    def _runners_ended(self) -> bool:
        """Return whether the job cache has the answer of every asynchronous runner that clients were told the id of."""
        started = runners(self._job, self._expected)
        if len(started) > self._ended:
            self._backend.read_cache("runners", [job.line() for job in started])
            self._ended = len({row.jid for row in samples.read(self._job.samples, RunnerSample)})
        return len(started) <= self._ended


def accepted(job: Job) -> list[str]:
    """Return the ids of all jobs that the master accepted: those of its job cache, and those that clients were told."""
    given = (jid for row in _requests(job) if row.kind not in RUNNERS for jid in row.jids.split())
    return sorted({*given, *(row.jid for row in samples.read(job.samples, AcceptedJob))})


def runners(job: Job, expected: Mapping[str, int]) -> list[RunnerJob]:
    """Return the asynchronous runners whose ids clients were told; `expected` are the sizes of their targets."""
    asked = {entry.name: entry for entry in job.scenario.clients if entry.kind in RUNNERS and entry.mode == "async"}
    return [
        RunnerJob(jid, row.function, asked[row.clients].expects(expected))
        for row in _requests(job)
        if row.clients in asked
        for jid in row.jids.split()
    ]


def _requests(job: Job) -> list[ClientSample]:
    """Return the requests so far; those of containers are fetched later, until then the job cache has to be enough."""
    return samples.read(job.samples, ClientSample)


def at_work(sample: FleetSample) -> bool:
    """Return whether minions have something to do or to send."""
    return sample.executing > 0 or sample.returns > sample.returns_acked + sample.returns_given_up


def _moved(before: FleetSample, sample: FleetSample) -> bool:
    return (sample.publications, sample.return_sends) != (before.publications, before.return_sends)


def settle(
    seconds: float,
    recorder: Recorder,
    empty: Callable[[], bool],
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[float, bool]:
    """Sample until nothing is on its way, for at most `seconds`.

    `empty` says whether no job waits in the master. Returns when it was so, in seconds since the epoch, and whether
    that was before the limit.
    """
    # not lengthened on a busy machine: the time is one of the figures
    deadline = Deadline(seconds, clock)
    quiet = Deadline(QUIET_S, clock)
    before = recorder.sample("settling")
    while not deadline.passed():
        sleep(min(SAMPLE_S, deadline.left()))
        sample = recorder.sample("settling")
        if _moved(before, sample) or at_work(sample):
            quiet = Deadline(QUIET_S, clock)
        elif quiet.passed() and empty():
            # that took a while, and the master may have published a job meanwhile
            after = recorder.sample("settling")
            if not _moved(sample, after) and not at_work(after):
                return after.time, True
            quiet, sample = Deadline(QUIET_S, clock), after
        before = sample
    return before.time, False


# what the clients may take to begin, and beyond the last one's patience, before the run counts as stuck
BEGIN_S = 60.0
STUCK_S = 120.0


def run(
    job: Job,
    progress: Progress,
    backend_of: Callable[[Job], Backend] = LocalBackend,
    notify: Callable[[str], None] | None = None,
) -> None:
    """Run the scenario against the tree; raw samples and logs are in the job's folder afterwards, whatever happens.

    `backend_of` makes the place where it runs; `notify` is called with the source of its PostgreSQL. Clients that get
    no answer are samples, not failures.

    Raises:
        HarnessError: if the bed, the fleet or the load generator fails, or a moment of the timeline can't be played.
    """
    job.samples.mkdir(parents=True, exist_ok=True)
    progress.say(f"{job.name}: starting the bed")
    with ExitStack() as stack:
        backend = _enter(job, backend_of, stack)
        if notify and backend.postgresql:
            notify(backend.postgresql)
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
        rows = samples.read(job.samples, ClientSample)
        clients_done = max((row.finished for row in rows), default=settled)
        backend.read_cache("kept", _jids(job))
        if started := runners(job, expected):
            backend.read_cache("runners", [one.line() for one in started])
        # before the bed ends: whatever happens to it then, the samples are complete
        timeline = Timeline(fleet_start, ready, load_start, clients_done, settled, in_time)
        samples.write_timeline(job.samples, timeline)
        progress.show(f"{job.name}: stopping the bed")
    # the bed's monitor writes until the bed ends
    samples.write(job.samples)
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

    Raises:
        SettingsError: if one targets none, or a network is none's.
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
    seen = {row.jid for row in samples.read(job.samples, JobRow) if row.fun in job.scenario.asked}
    return sorted({*accepted(job), *seen})
