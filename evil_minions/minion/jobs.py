"""The jobs of a minion: from a publication that is for it to the end of its return.

Source: Minion._handle_decoded_payload_impl and process_process_queue in salt/minion.py of Salt 3008.5, where the queue
lies on the minion's disk and is looked at every 0.2 s.
"""

from __future__ import annotations

import inspect
import math
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from evil_minions import defaults
from evil_minions.behaviour.director import HEALTHY
from evil_minions.behaviour.rule import NORMAL, NOTHING, STAY
from evil_minions.functions import job
from evil_minions.minion.session import Session, ignore
from evil_minions.network.channel import EncryptedRequest
from evil_minions.protocol import envelope
from evil_minions.samples.rows import ReturnRow

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

    from evil_minions.behaviour.director import Plan
    from evil_minions.minion.publication import Publication
    from evil_minions.minion.shared import Shared
    from evil_minions.protocol.envelope import Load
    from evil_minions.rng import SeededRandom
    from evil_minions.samples.tally import Counters


class ReturnRequest(EncryptedRequest):
    """The return of a job; `publication` is the job's."""

    __slots__ = ("publication",)

    def __init__(
        self,
        load: Load,
        timeout: float,
        tries: int,
        done: Callable[[ReturnRequest, Any], None],
        publication: Publication,
    ) -> None:
        """Prepare; a channel sends it."""
        super().__init__(load, timeout, tries, done)
        self.publication = publication

    def count(self, counters: Counters) -> None:
        """Count every send."""
        counters.return_sends += 1


class Execution:
    """One job on one minion, with a process id as a real one has, run as its plan says."""

    __slots__ = ("_host", "pid", "plan", "publication")

    def __init__(self, host: JobRunner, publication: Publication, pid: int, plan: Plan = HEALTHY) -> None:
        """Stand for a process that starts."""
        self._host = host
        self.pid = pid
        self.plan = plan
        self.publication = publication

    def data(self) -> dict[str, Any]:
        """Return what a real minion writes into its file of running jobs."""
        return {"pid": self.pid, **self.publication.load}

    def run(self) -> Coroutine[Any, Any, None] | None:
        """Do what the plan says; a coroutine comes back if that takes time."""
        load, reply = self.publication.load, self.plan.reply
        if reply.kind == NOTHING:
            self._host.silent(self)
            return None
        literal = reply.result(self._host.id)
        if literal is not None:
            self._finish(job.literal_return(load, self._host.id, literal))
            return None
        if job.is_multiple(load):
            return self._run_multiple()
        result = job.begin(self._host, load, self.pid, load["fun"], load["arg"])
        if inspect.iscoroutine(result):
            return self._run_single(result)
        self._finish(job.single_return(load, self._host.id, result))
        return None

    def _finish(self, load: Load) -> None:
        """Hand the return over, with the exit code of the plan if that has one."""
        reply = self.plan.reply
        if reply.retcode is not None and reply.kind == NORMAL and isinstance(load["retcode"], int):
            load = {**load, "retcode": reply.retcode, "success": reply.retcode == 0}
        self._host.finished(self, load)

    async def _run_single(self, result: Coroutine[Any, Any, job.Result]) -> None:
        load = self.publication.load
        self._finish(job.single_return(load, self._host.id, await result))

    async def _run_multiple(self) -> None:
        self._finish(await job.multiple_return(self._host, self.publication.load, self.pid))


LOOK_SECONDS: Final = 0.2
BYPASS: Final = "__ignore_process_count_max"


class JobQueue:
    """The jobs that wait on one minion; `most` is how many may run at a time."""

    def __init__(self, minion: JobRunner, most: float, loop: asyncio.AbstractEventLoop) -> None:
        """Begin empty."""
        self.most = most
        self._minion = minion
        self._loop = loop
        self._waiting: list[Publication] = []

    def take(self, publication: Publication) -> None:
        """Start a job, or have it wait if enough run and its publisher does not say that it must not."""
        if self._minion.busy() < self.most or publication.load.get(BYPASS):
            self._minion.start(publication)
            return
        self._waiting.append(publication)
        if len(self._waiting) == 1:
            self._look_later()

    def data(self) -> list[dict[str, Any]]:
        """Return what saltutil.find_job tells of the jobs that wait."""
        return [
            {**publication.load, "pid": 0, "queued": True, "queue_type": "job_queue"} for publication in self._waiting
        ]

    def _look_later(self) -> None:
        """Look again after a while."""
        self._loop.call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        """Start as many waiting jobs as there are free processes; while the minion is down its queue waits on disk."""
        if self._minion.is_up:
            while self._waiting and self._minion.busy() < self.most:
                self._minion.start(self._waiting.pop(0))
        if self._waiting:
            self._look_later()


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
            self.fire(f"salt/job/{publication.jid}/start/{self.id}", envelope.job_start(self.id, load))
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
            self.shared.lifecycle.follow(self, plan.sequel, request.publication.stream)

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
            self.shared.lifecycle.follow(self, execution.plan.sequel, execution.publication.stream)

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
