"""The jobs of a minion: from a publication that is for it to the end of its return.

Source: salt/minion.py of Salt 3008.5.
"""

from __future__ import annotations

import math
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from evil_minions import defaults
from evil_minions.behaviour.sequel import STAY
from evil_minions.functions import job
from evil_minions.minion.execution import Execution
from evil_minions.minion.jobqueue import JobQueue
from evil_minions.minion.returns import ReturnRequest
from evil_minions.minion.session import Session, ignore
from evil_minions.network.request import EncryptedRequest
from evil_minions.protocol import loads
from evil_minions.samples.rows import ReturnRow

if TYPE_CHECKING:
    from evil_minions.behaviour.plan import Plan
    from evil_minions.behaviour.sequel import Sequel
    from evil_minions.minion.publication import Publication
    from evil_minions.minion.shared import Shared
    from evil_minions.protocol.envelope import Load
    from evil_minions.rng import SeededRandom

# offsets of a minion's random choices in the random stream of a job; those from 16 on belong to its behaviour
_START: Final = 0
_RETRY: Final = 1
_WORK: Final = 2
_DELAY: Final = 17
_APART: Final = 18


class JobRunner(Session):
    """The part of a minion that runs jobs."""

    __slots__ = ("_executions", "_queue")

    def __init__(self, shared: Shared, index: int) -> None:
        """Begin without jobs."""
        super().__init__(shared, index)
        self._executions: list[Execution] | None = None
        self._queue: JobQueue | None = None

    @property
    def is_up(self) -> bool:
        """Whether the minion can run jobs and send returns."""
        return self.channel is not None

    def limit_jobs(self, most: int) -> None:
        """Let at most so many jobs run at a time (0: no limit); the others wait in the minion's own queue."""
        if self._queue is not None:
            # jobs that wait still do, and start soon if there is no limit any longer
            self._queue.most = most or math.inf
        elif most:
            self._queue = JobQueue(self, most, self.shared.runtime.loop)

    def take(self, publication: Publication) -> None:
        """Start a job, or have it wait in the minion's own queue if there is one."""
        if self._queue is None:
            self.start(publication)
        else:
            self._queue.take(publication)

    def start(self, publication: Publication) -> None:
        """Start the process of a job, whose function begins after some seconds, as its plan says."""
        shared = self.shared
        plan = shared.director.plan(self, publication)
        if plan.delay is not None:
            seconds = plan.delay.draw(self.rng_of(publication, _DELAY))
        else:
            seconds = job.start_delay(publication.load, self.rng_of(publication, _START), self.replay)
        if plan.behaviour:
            shared.journal.add(plan.decision(self.id, f"{publication.fun}#{publication.nth}", seconds))
        execution = Execution(self, publication, next(shared.pids), plan)
        if self._executions is None:
            self._executions = []
        self._executions.append(execution)
        load = publication.load
        if load.get("start_event"):
            self.fire(f"salt/job/{publication.jid}/start/{self.id}", loads.job_start(self.id, load))
        shared.runtime.loop.call_later(seconds, self._execute, execution)

    def _execute(self, execution: Execution) -> None:
        """Run a job whose process has started by now."""
        if self._executions is None or execution not in self._executions:
            return
        counters = self.shared.runtime.counters
        counters.executions += 1
        if execution.publication.fun == "saltutil.find_job":
            counters.find_jobs += 1
        coroutine = execution.run()
        if coroutine is not None:
            self.shared.runtime.spawn(coroutine)

    def finished(self, execution: Execution, load: Load) -> None:
        """Take the job off the list of what runs, and send its return; a job of an earlier life has none."""
        if not self._drop(execution):
            return
        tallies, publication, plan = self.shared.journal.tallies, execution.publication, execution.plan
        if self.channel is None:
            tallies.ended(publication.tally)
            return
        self.shared.runtime.counters.returns += 1
        tallies.returned(publication.tally)
        timer = float(self.rng_of(publication, _RETRY).randint(*defaults.RETURN_RETRY_TIMER))
        done = self._returned if plan.sequel.kind == STAY else partial(self._returned_then, plan, self.life)
        self.channel.submit(ReturnRequest(load, timer, defaults.RETURN_RETRY_TRIES, done, publication))
        if plan.reply.copies > 1:
            self._send_copies(execution, load)

    def _send_copies(self, execution: Execution, load: Load) -> None:
        """Send a return as often again as its plan says, each time a while after the one before."""
        reply, at = execution.plan.reply, 0.0
        rng = self.rng_of(execution.publication, _APART)
        for wait in [reply.apart.draw(rng) for _ in range(reply.copies - 1)]:
            at += wait
            self.shared.runtime.loop.call_later(at, self._repeat, load, self.life)

    def _repeat(self, load: Load, life: int) -> None:
        """Send a return once more, as after a lost acknowledgement, unless the minion has ended since."""
        if self.life == life and self.channel is not None:
            self.shared.runtime.counters.return_copies += 1
            self.channel.submit(EncryptedRequest(load, self._retry_timer(), defaults.RETURN_RETRY_TRIES, ignore))

    def _returned_then(self, plan: Plan, life: int, request: ReturnRequest, answer: object) -> None:
        """Note the end of a return, then do what comes next, unless the minion has ended since."""
        self._returned(request, answer)
        if self.life == life:
            self._follow(plan.sequel, request.publication.stream)

    def _follow(self, sequel: Sequel, begin: int) -> None:
        """Do what comes after a job, whose random numbers begin at `begin`."""
        raise NotImplementedError

    def _returned(self, request: ReturnRequest, _answer: object) -> None:
        """Count and write down what became of a return."""
        runtime, journal, publication = self.shared.runtime, self.shared.journal, request.publication
        if request.failed:
            runtime.counters.returns_given_up += 1
        else:
            runtime.counters.returns_acked += 1
        journal.tallies.over(publication.tally, acknowledged=not request.failed)
        if not request.attempts and journal.tallies.closed:
            # the fleet ended before its turn
            return
        seconds = runtime.loop.time() - request.since if request.attempts else 0.0
        journal.add(
            ReturnRow(
                time.time(), publication.jid, publication.fun, self.id, request.attempts, not request.failed, seconds
            )
        )

    def silent(self, execution: Execution) -> None:
        """End a job that has no return."""
        if self._end(execution):
            self._follow(execution.plan.sequel, execution.publication.stream)

    def stop_job(self, jid: str) -> int | None:
        """End a job for good, without a return; return the process id that it had, None if it doesn't run."""
        for execution in self._executions or ():
            if execution.publication.jid == jid and self._end(execution):
                return execution.pid
        return None

    def end_jobs(self) -> None:
        """End all jobs that run, as when their minion is killed."""
        for execution in self._executions or ():
            self.shared.journal.tallies.ended(execution.publication.tally)
        self._executions = None

    def _end(self, execution: Execution) -> bool:
        """Take a job without a return off the list of what runs; return whether it was there."""
        there = self._drop(execution)
        if there:
            self.shared.journal.tallies.ended(execution.publication.tally)
        return there

    def _drop(self, execution: Execution) -> bool:
        """Take a job off the list of what runs; return whether it was there."""
        if self._executions is None or execution not in self._executions:
            return False
        self._executions.remove(execution)
        if not self._executions:
            self._executions = None
        return True

    def busy(self) -> int:
        """Return how many jobs run."""
        return len(self._executions or ())

    def running(self) -> list[dict[str, Any]]:
        """Return the data of every job that runs now."""
        return [execution.data() for execution in self._executions or ()]

    def queued(self) -> list[dict[str, Any]]:
        """Return the data of every job that waits in the minion's own queue."""
        return self._queue.data() if self._queue is not None else []

    def job_rng(self, pid: int) -> SeededRandom:
        """Return the random numbers of the job that runs with this process id; shared, so use them at once."""
        for execution in self._executions or ():
            if execution.pid == pid:
                return self.rng_of(execution.publication, _WORK)
        return self.rng
