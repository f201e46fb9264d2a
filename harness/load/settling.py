"""Settling: what a run waits for after the last client has its answer.

A run is over when nothing of it is on its way any more: every job that the master accepted has been published, every
minion that got one has had its return, and every return is acknowledged or given up. Minions that wait in silence are
no sign of it: a job may take as long as it likes, and a master may keep jobs in a queue of its own.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

from harness.load.reading import RunnerJob
from harness.processes import kernel
from harness.processes.deadline import Deadline
from harness.samples import files as samples
from harness.samples.files import SampleFile
from harness.samples.rows import AcceptedJob, ClientSample, FleetSample, MachineSample, RunnerSample
from harness.scenarios.clients import RUNNERS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from harness.load.backend import Backend, Fleet, Job
    from harness.progress import Progress


class Recorder:
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

    def __enter__(self) -> Self:
        """Return the recorder."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Close the files of samples."""
        self._file.close()
        self._machine.close()

    def sample(self, phase: str, clients: str = "") -> FleetSample:
        """Take a sample now; `phase` and `clients` go into the line of progress."""
        self._check()
        now = time.time()
        if self._here:
            self._machine.write(kernel.sample(now))
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
    told = (jid for row in _requests(job) if row.kind not in RUNNERS for jid in row.jids.split())
    return sorted({*told, *(row.jid for row in samples.read(job.samples, AcceptedJob))})


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
