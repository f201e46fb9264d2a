"""One simulated minion: keys, signing in, its own requests and events, its jobs, and its end.

There are thousands of them, so each one is small, and one object: what minions share is in `Shared`, and what a minion
needs for a moment only is made for that moment.

Source: salt/minion.py of Salt 3008.5; of jobs, Minion._handle_decoded_payload_impl and process_process_queue, where the
queue lies on the minion's disk and is looked at every 0.2 s.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import time
from collections import Counter
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from evil_minions import defaults
from evil_minions.behaviour import HEALTHY, NORMAL, NOTHING, STAY
from evil_minions.errors import ExchangeError, PendingError, RejectedError
from evil_minions.functions import job
from evil_minions.minion.runtime import Phase
from evil_minions.network.link import AuthRequest, EncryptedRequest, PillarRequest, Request
from evil_minions.protocol import auth, envelope
from evil_minions.rng import stream
from evil_minions.samples import JobRow, ReturnRow

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence

    from evil_minions.behaviour import Plan
    from evil_minions.functions import Ask
    from evil_minions.inventory.targets import Target
    from evil_minions.minion.publication import Publication
    from evil_minions.minion.shared import Shared
    from evil_minions.network.link import Link, Request, RequestChannel, Subscription
    from evil_minions.protocol.envelope import Load
    from evil_minions.protocol.keys import MasterKey, MinionKey
    from evil_minions.recording.replay import Replay
    from evil_minions.rng import SeededRandom
    from evil_minions.samples import Counters, Journal
    from evil_minions.states.planner import Planner


def ignore(_request: Request, _answer: object) -> None:
    """Take an answer that nobody waits for."""


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

    def __init__(self, host: Minion, publication: Publication, pid: int, plan: Plan = HEALTHY) -> None:
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

    def __init__(self, minion: Minion, most: float, loop: asyncio.AbstractEventLoop) -> None:
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


# of publications that wait for a sign-in: a master that sends nothing else must not fill the memory
_MAX_HELD: Final = 1000
_MAX_HELD_BYTES: Final = 1024 * 1024
_NO_ROOM: Final = (
    f"More than {_MAX_HELD} publications or {_MAX_HELD_BYTES // 1024} KB wait for a minion's sign-in or pillar;"
    " further ones are dropped, and it never runs their jobs: publish less until the fleet is ready."
)


class Minion:
    """A minion; `index` is its place in its worker, `phase` says how far it has come.

    `session` is the key of its requests, `aes` that of publications. `channel` is the connection to the request port
    that stays, once the minion has signed in. `life` grows whenever the minion ends: what was begun in an earlier life
    finds out by it.
    """

    __slots__ = (
        "_draws", "_executions", "_extra", "_held", "_met", "_queue", "_signing", "aes", "channel", "id", "index",
        "key", "life", "phase", "serial", "session", "shared", "subscription",
    )  # fmt: skip

    def __init__(self, shared: Shared, index: int) -> None:
        """Take what all minions of the worker share; stay idle, without any keys of the master, until `sign_in`."""
        self.shared = shared
        self.index = index
        self.id = shared.inventory.ids[index]
        self._draws = 0
        self.key = self.first_key()
        self.session = ""
        self.aes = ""
        self.serial = 0
        self.life = 0
        self.phase = Phase.IDLE
        self.channel: RequestChannel | None = None
        self.subscription: Subscription | None = None
        self._extra: list[RequestChannel] | None = None
        self._met = shared.keys.master.known_at_start
        self._signing: asyncio.Task[None] | None = None
        self._executions: list[Execution] | None = None
        self._queue: JobQueue | None = None
        self._held: list[bytes] | None = None

    @property
    def number(self) -> int:
        """The number of the minion in its fleet, of all workers."""
        return self.shared.inventory.first + self.index

    @property
    def rng(self) -> SeededRandom:
        """The random numbers that belong to no job; shared by all minions of the worker, so use them at once."""
        self._draws += 1
        draws = self.shared.draws
        return draws.rng.at(self.number, draws.own + self._draws)

    def random(self) -> float:
        """Return a number from 0 up to 1 that belongs to no job."""
        return self.rng.random()

    def rng_of(self, publication: Publication, what: int) -> SeededRandom:
        """Return the random numbers for one decision about one job; shared, so use them at once."""
        return self.shared.draws.rng.at(self.number, publication.stream + what)

    @property
    def replay(self) -> Replay | None:
        """What was recorded, if the fleet replays something."""
        return self.shared.replay

    @property
    def planner(self) -> Planner:
        """What runs the master's own states."""
        return self.shared.planner

    def pillar(self) -> dict[str, Any]:
        """Return the pillar that is kept; don't change it."""
        return self.shared.inventory.pillars.get(self.index)

    def pillar_item(self, name: str) -> Any:
        """Return one value of the top level of the pillar that is kept, or None; don't change it."""
        return self.shared.inventory.pillars.item(self.index, name)

    def grains(self) -> dict[str, Any]:
        """Return the grains."""
        return self.shared.inventory.factory.build(self.id, self.number)

    def change_grains(self, changes: Mapping[str, Any], removed: Sequence[str] = ()) -> None:
        """Set grains, and remove others, as a minion's grains file does."""
        self.shared.inventory.factory.change(self.id, changes, removed)

    def is_meant(self, target: Target) -> bool:
        """Return whether a target matches this minion."""
        return bool(self.shared.inventory.targets.select(target)[self.index])

    # questions to the master

    @property
    def master(self) -> MasterKey:
        """The key of the master."""
        return self.shared.keys.master

    @property
    def signed_in_once(self) -> bool:
        """Whether the master has ever let the minion in."""
        return bool(self.aes)

    def first_key(self) -> MinionKey:
        """Return the key that the minion starts with."""
        return self.shared.keys.of(self.number)

    async def exchange_keys(self) -> auth.Credentials:
        """Sign in once over a connection of its own, and keep the keys.

        Raises:
            ExchangeError: if the master doesn't answer or doesn't let the minion in.
        """
        await asyncio.sleep(defaults.SIGN_IN_PAUSE)
        grains = self.shared.keys.grains_of(self.number)
        attempt = auth.question(self.id, self.key, self.master if self._met else None, self.key.secret, grains)
        reply = await self._ask_extra(AuthRequest, attempt.load, defaults.AUTH_TIMEOUT, defaults.AUTH_TRIES)
        credentials = auth.answer(attempt, reply, self.key, self.master)
        if credentials.aes != self.aes:
            self.serial = 0
        self.aes, self.session, self._met = self.shared.keys.intern(credentials.aes), credentials.session, True
        self.shared.runtime.counters.auth_ok += 1
        return credentials

    def introduction(self) -> bytes:
        """Return the message that tells a publish port who listens."""
        return envelope.introduction(self.id, self.key, self.aes)

    def reauthenticate(self, then: Callable[[bool], None]) -> None:
        """Sign in again, then call `then` with whether that went well."""

        async def sign_in() -> None:
            try:
                await self.authenticated()
            except ExchangeError:
                then(False)
            else:
                then(True)

        self.shared.runtime.spawn(sign_in())

    async def authenticated(self) -> None:
        """Wait for the one attempt to sign in again that is under way, or begin it.

        Raises:
            ExchangeError: if the master doesn't let the minion in.
        """
        if self._signing is None:
            self._signing = self.shared.runtime.loop.create_task(self._authenticate())
        await asyncio.shield(self._signing)

    async def _authenticate(self) -> None:
        """Sign in as often as it takes while the key waits to be accepted."""
        life = self.life
        try:
            while True:
                if self.life != life:
                    raise ExchangeError(f"{self.id} has ended.")
                try:
                    await self.exchange_keys()
                except PendingError:
                    await asyncio.sleep(defaults.ACCEPTANCE_WAIT_TIME)
                except RejectedError:
                    if self.life == life:
                        self.shared.lifecycle.refuse(self)
                    raise
                else:
                    return
        finally:
            self._signing = None

    @contextmanager
    def _extra_channel(self) -> Iterator[RequestChannel]:
        """Give a connection of its own, as a real minion has for keys, pillars and files."""
        channel = self.shared.ports.channel(self)
        self._extra = [*(self._extra or ()), channel]
        try:
            yield channel
        finally:
            channel.close(reset=True)
            self._extra = [other for other in self._extra or () if other is not channel] or None

    async def _ask_extra(self, kind: type[Request], load: Load, timeout: float, tries: int) -> Any:  # noqa: ASYNC109 - the protocol's timeout
        """Ask over a connection of its own."""
        with self._extra_channel() as channel:
            return await channel.ask(kind, load, timeout, tries)

    async def fetch_pillar(
        self, *, override: dict[str, Any] | None = None, clean_cache: bool = False
    ) -> dict[str, Any]:
        """Have the master compile the pillar.

        Raises:
            ExchangeError: if the master gives none.
        """
        load = envelope.pillar(self.id, self.grains(), override, clean_cache=clean_cache)
        timeout, tries = defaults.REQUEST_CHANNEL_TIMEOUT, defaults.REQUEST_CHANNEL_TRIES
        pillar = await self._ask_extra(PillarRequest, load, timeout, tries)
        if not isinstance(pillar, dict):
            raise ExchangeError(f"The master gave {type(pillar).__name__} as the pillar of {self.id}.")
        return pillar

    @contextmanager
    def asking(self) -> Iterator[Ask]:
        """Give what asks the master over a connection of its own, as a file client of a real minion has one."""
        timeout, tries = defaults.REQUEST_CHANNEL_TIMEOUT, defaults.REQUEST_CHANNEL_TRIES
        with self._extra_channel() as channel:

            async def ask(load: Mapping[str, Any]) -> Any:
                return await channel.ask(EncryptedRequest, dict(load), timeout, tries)

            yield ask

    def refresh_pillar(self, *, clean_cache: bool) -> asyncio.Task[None]:
        """Fetch the pillar that is kept for targets, then register resources, in the background."""

        async def refresh() -> None:
            try:
                pillar = await self.fetch_pillar(clean_cache=clean_cache)
            except ExchangeError:
                return
            self.shared.inventory.pillars.put(self.index, pillar)
            if self.channel is not None:
                self.channel.submit(self._registration())

        return self.shared.runtime.spawn(refresh())

    def fire(self, tag: str, data: object, done: Callable[[Request, Any], None] | None = None) -> None:
        """Send an event to the master's bus."""
        if self.channel is None:
            return
        self.shared.runtime.counters.events_sent += 1
        load = envelope.event(self.id, self.key.token, tag, data)
        timeout, tries = defaults.REQUEST_CHANNEL_TIMEOUT, defaults.RETURN_RETRY_TRIES
        self.channel.submit(EncryptedRequest(load, timeout, tries, done or ignore))

    def register_resources(self) -> None:
        """Tell the master which resources this minion manages: none."""
        if self.channel is not None:
            self.channel.submit(self._registration())

    def _registration(self) -> EncryptedRequest:
        """Return the request that registers the resources of this minion: none."""
        return EncryptedRequest(
            envelope.registration(self.id, self.key.token), self._retry_timer(), defaults.RETURN_RETRY_TRIES, ignore
        )

    def _retry_timer(self) -> float:
        return float(self.rng.randint(*defaults.RETURN_RETRY_TIMER))

    # jobs

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

    # connections

    @property
    def subscribed(self) -> bool:
        """Whether publications reach this minion."""
        return self.subscription is not None and self.subscription.linked

    @property
    def connected(self) -> bool:
        """Whether both sockets are connected."""
        return self.subscribed and self.channel is not None and self.channel.linked

    def links(self) -> list[Link]:
        """Return the connections that there are."""
        return [link for link in (self.channel, self.subscription, *(self._extra or ())) if link is not None]

    def at_work(self) -> int:
        """Return how many jobs will have a return, unless the minion dies: those that run, wait, or are not read yet.

        A queue of jobs is on a minion's disk; while the minion is dead nothing comes of it.
        """
        return self.busy() + len(self._held or ()) + len(self.queued()) if self.is_up else 0

    def close(self, phase: Phase = Phase.IDLE) -> None:
        """End as a process that is killed: hang up, and forget what only a running minion has."""
        self.life += 1
        self.end_jobs()
        links = self.links()
        self.channel = self.subscription = self._extra = None
        self._held = None
        self.phase = phase
        for link in links:
            link.close()

    # signing in

    async def sign_in(self) -> None:
        """Sign in once, then open subscription and request channel.

        Raises:
            ExchangeError: if the master doesn't answer or doesn't let the minion in.
        """
        life = self.life
        try:
            credentials = await self.exchange_keys()
        except PendingError:
            self._alive(life)
            self.phase = Phase.PENDING
            raise
        self._alive(life)
        shared = self.shared
        if self.number in shared.keys.denied and self.key is self.first_key():
            # like a reinstalled machine: the master knows the id, but not the key that comes next
            self.key = shared.keys.of(self.number + 1)
            shared.lifecycle.restart(self, 0.0, Phase.IDLE)
        self._alive(life)
        self.phase = Phase.AUTHENTICATED
        self.subscription = shared.ports.subscription(credentials.publish_port, self)
        self.subscription.open()
        self.channel = shared.ports.channel(self)
        self.channel.open()

    def _alive(self, life: int) -> None:
        """Raise ExchangeError unless the minion still is in this life."""
        if self.life != life:
            raise ExchangeError(f"{self.id} has ended.")

    # the start

    async def tune_in(self) -> tuple[float, float]:
        """Fetch the pillar, fire the start events, register resources; return the loop's times of pillar and end.

        Raises:
            ExchangeError: if the master gives no pillar.
        """
        shared = self.shared
        life = self.life
        pillar = await self.fetch_pillar()
        self._alive(life)
        shared.inventory.pillars.put(self.index, pillar)
        # unpacked it takes a hundred times what the store keeps, and the master may take its time for what follows
        del pillar
        pillar_time = shared.runtime.loop.time()
        self.phase = Phase.TUNED
        self._release()
        done: asyncio.Future[None] = shared.runtime.loop.create_future()

        def finish(_request: Request, _answer: object) -> None:
            if not done.done():
                done.set_result(None)

        if self.channel is None:
            raise ExchangeError(f"{self.id} was stopped during its start.")
        self._announce(finish)
        await done
        if self.phase == Phase.TUNED:
            self.phase = Phase.READY
            shared.lifecycle.on_ready(self)
        shared.traffic.begin(self)
        return pillar_time, shared.runtime.loop.time()

    def on_return(self) -> None:
        """Announce the start again, as minions do whose transport tells them that the master was gone."""
        if self.phase >= Phase.TUNED:
            self._announce(ignore)

    def _announce(self, done: Callable[[Request, Any], None]) -> None:
        if self.channel is None:
            return
        started = f"Minion {self.id} started at {time.asctime()}"
        self.fire("minion_start", started)
        self.channel.submit(self._registration())
        self.fire(f"salt/minion/{self.id}/start", started, done)

    # publications

    def on_publication(self, frame: bytes) -> None:
        """Count a publication, and run its job if it is for this minion."""
        self.shared.runtime.counters.hear(len(frame))
        self._open(frame)

    def _open(self, frame: bytes) -> None:
        """Run a published job if it is for this minion, when the pillar is there and those before it are open.

        A master numbers its publications, and one that is opened before an earlier one makes that one look old.
        """
        if self.phase < Phase.TUNED or self._held is not None:
            self._hold(frame)
            return
        publication = self.shared.publications.open(frame, self.aes)
        if publication is None:
            self._held = []
            self.shared.runtime.spawn(self._reopen(frame))
        else:
            self._accept(publication)

    def _hold(self, frame: bytes) -> None:
        """Keep a publication for later, or drop and count it where too much waits already."""
        held = self._held = self._held or []
        if len(held) < _MAX_HELD and (not held or sum(map(len, held)) + len(frame) <= _MAX_HELD_BYTES):
            held.append(frame)
        else:
            self.shared.runtime.counters.bad_frames += 1
            self.shared.runtime.warn(_NO_ROOM)

    async def _reopen(self, frame: bytes) -> None:
        """Sign in again for the key of a publication that doesn't open, as after the master has changed it."""
        life = self.life
        try:
            with suppress(ExchangeError):
                await self.authenticated()
                publication = self.shared.publications.open(frame, self.aes)
                if publication is None:
                    self.shared.runtime.counters.bad_frames += 1
                elif self.life == life:
                    self._accept(publication)
        finally:
            if self.life == life:
                self._release()

    def _release(self) -> None:
        """Take the publications that had to wait."""
        held, self._held = self._held, None
        for frame in held or ():
            self._open(frame)

    def _accept(self, publication: Publication) -> None:
        """Start the job of a publication unless it is old, for others, or known."""
        if publication.serial:
            if publication.serial <= self.serial:
                return
            self.serial = publication.serial
        if not publication.chosen or not publication.chosen[self.index] or publication.seen[self.index]:
            return
        publication.seen[self.index] = 1
        self.shared.journal.tallies.reached(publication.tally, self.index)
        self.take(publication)


class JobLog:
    """Writes the samples of publications, and gives each job its stream of random numbers."""

    def __init__(self, minions: Sequence[Minion], journal: Journal, seed: int) -> None:
        """Take the minions by their indexes (the sequence may grow later), the journal and the fleet's seed."""
        self._minions = minions
        self._journal = journal
        self._seed = seed
        self._functions: Counter[str] = Counter()

    def new(self, publication: Publication) -> None:
        """Note a publication, and give its job a stream if the job is new.

        The stream is that of the n-th job with this function: how many find_jobs a slow master caused changes nothing.
        What reaches a minion late, as when its network heals, was counted when the others got it.
        """
        tally = publication.tally
        new = not tally.nth
        if new:
            self._functions[publication.fun] += 1
            tally.nth = self._functions[publication.fun]
            tally.stream = stream(self._seed, "job", publication.fun, tally.nth)
        publication.stream, publication.nth = tally.stream, tally.nth
        meant = [index for index, chosen in enumerate(publication.chosen) if chosen and not tally.asked >> index & 1]
        if not new and not meant:
            return
        targeted = sum(1 for index in meant if self._hears(index))
        self._journal.add(JobRow(time.time(), publication.jid, publication.fun, targeted))
        for index in meant:
            # a master publishes for all whose keys it has accepted, whatever became of them since
            if self._minions[index].signed_in_once:
                tally.asks(index)
        self._journal.tallies.changed(tally)

    def _hears(self, index: int) -> bool:
        """Return whether a minion receives publications and will run them."""
        minion = self._minions[index]
        return minion.phase >= Phase.TUNED and minion.subscribed
