"""One simulated minion: its life from signing in to the last return.

Kept small on purpose, there are thousands of them: everything shared is in the context, everything that is only needed
for a moment is made for that moment.
Source: salt/minion.py of Salt 3008.5.
"""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from evil_minions import defaults
from evil_minions.errors import ExchangeError, PendingError
from evil_minions.fleet.keystates import DENIED
from evil_minions.functions import job
from evil_minions.minion.execution import Execution
from evil_minions.minion.phase import Stage
from evil_minions.minion.returns import ReturnRequest
from evil_minions.minion.session import Session
from evil_minions.network.request import Request, SealedRequest
from evil_minions.protocol import loads
from evil_minions.samples.files import ReturnRow

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from evil_minions.inventory.target import Target
    from evil_minions.minion.context import Context
    from evil_minions.minion.publication import Publication
    from evil_minions.network.channel import RequestChannel
    from evil_minions.network.link import Link
    from evil_minions.network.subscription import Subscription
    from evil_minions.protocol.envelope import Load
    from evil_minions.rng import Dice

_MAX_HELD: Final = 1000

# what a minion draws about a job
START, RETRY, WORK = 0, 1, 2


def _ignore(_request: Request, _answer: object) -> None:
    """Take an answer that nobody waits for."""


class Minion(Session):
    """A minion with a number in its worker; `stage` says how far it has come."""

    __slots__ = ("_executions", "_held", "channel", "stage", "subscription")

    def __init__(self, context: Context, index: int) -> None:
        """Stay idle until `sign_in`."""
        super().__init__(context, index)
        self.stage = Stage.IDLE
        self.channel: RequestChannel | None = None
        self.subscription: Subscription | None = None
        self._held: list[bytes] | None = None
        self._executions: list[Execution] | None = None

    @property
    def subscribed(self) -> bool:
        """Whether publications reach this minion."""
        return self.subscription is not None and self.subscription.linked

    @property
    def connected(self) -> bool:
        """Whether both sockets are connected."""
        subscription, channel = self.subscription, self.channel
        return subscription is not None and subscription.linked and channel is not None and channel.linked

    def links(self) -> list[Link]:
        """Return the connections that there are."""
        return [link for link in (self.channel, self.subscription, *(self._apart or ())) if link is not None]

    def close(self, stage: Stage = Stage.IDLE) -> None:
        """End as a process that is killed: hang up, and forget what only a running minion has."""
        self.life += 1
        for execution in self._executions or ():
            self.context.tallies.ended(execution.publication.tally)
        links = self.links()
        self.channel = self.subscription = self._apart = None
        self._held = self._executions = None
        self.stage = stage
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
            self.stage = Stage.PENDING
            raise
        self._alive(life)
        context = self.context
        if context.key_states.get(self.number) == DENIED and self.key is self.first_key():
            # set up anew: the master knows the id, but not the key that comes next
            self.key = context.keys[(self.number + 1) % len(context.keys)]
            context.restart(self.index, 0.0, Stage.IDLE)
        self._alive(life)
        self.stage = Stage.AUTHENTICATED
        self.subscription = context.subscription(credentials.publish_port, self)
        self.subscription.open()
        self.channel = context.channel(self)
        self.channel.open()

    def _alive(self, life: int) -> None:
        """Raise ExchangeError unless the minion still is in this life."""
        if self.life != life:
            raise ExchangeError(f"{self.id} has ended.")

    def refresh_pillar(self, *, clean_cache: bool) -> asyncio.Task[None]:
        """Fetch the pillar that is kept for targets, then register resources, in the background."""

        async def refresh() -> None:
            try:
                pillar = await self.fetch_pillar(clean_cache=clean_cache)
            except ExchangeError:
                return
            self.context.pillars.put(self.index, pillar)
            if self.channel is not None:
                self.channel.submit(self._registration())

        return self.context.spawn(refresh())

    # the start

    async def tune_in(self) -> tuple[float, float]:
        """Fetch the pillar, fire the start events, register resources; return the loop's times of pillar and end.

        Raises:
            ExchangeError: if the master gives no pillar.

        """
        context = self.context
        life = self.life
        pillar = await self.fetch_pillar()
        self._alive(life)
        context.pillars.put(self.index, pillar)
        # unpacked it takes a hundred times what the store keeps, and the master may take its time for what follows
        del pillar
        pillar_time = context.loop.time()
        self.stage = Stage.TUNED
        self._release()
        done: asyncio.Future[None] = context.loop.create_future()

        def finish(_request: Request, _answer: object) -> None:
            if not done.done():
                done.set_result(None)

        if self.channel is None:
            raise ExchangeError(f"{self.id} was stopped during its start.")
        self._announce(finish)
        await done
        if self.stage == Stage.TUNED:
            self.stage = Stage.READY
            if context.director is not None:
                context.director.on_ready(self)
        context.traffic.begin(self)
        return pillar_time, context.loop.time()

    def on_return(self) -> None:
        """Announce the start again, as minions do whose transport tells them that the master was gone."""
        if self.stage >= Stage.TUNED:
            self._announce(_ignore)

    def _announce(self, done: Callable[[Request, Any], None]) -> None:
        """Fire the start events and register the resources."""
        if self.channel is None:
            return
        started = f"Minion {self.id} started at {time.asctime()}"
        self.fire("minion_start", started)
        self.channel.submit(self._registration())
        self.fire(f"salt/minion/{self.id}/start", started, done)

    def fire(self, tag: str, data: object, done: Callable[[Request, Any], None] | None = None) -> None:
        """Send an event to the master's bus."""
        if self.channel is None:
            return
        self.context.counters.events_sent += 1
        load = loads.event(self.id, self.key.token, tag, data)
        timeout, tries = defaults.REQUEST_CHANNEL_TIMEOUT, defaults.RETURN_RETRY_TRIES
        self.channel.submit(SealedRequest(load, timeout, tries, done or _ignore))

    def register_resources(self) -> None:
        """Tell the master which resources this minion manages: none."""
        if self.channel is not None:
            self.channel.submit(self._registration())

    def _registration(self) -> SealedRequest:
        """Return the request that registers the resources of this minion: none."""
        return SealedRequest(
            loads.registration(self.id, self.key.token), self._retry_timer(), defaults.RETURN_RETRY_TRIES, _ignore
        )

    def _retry_timer(self) -> float:
        """Return the seconds until a return is sent again."""
        return float(self.rng.randint(*defaults.RETURN_RETRY_TIMER))

    # jobs

    def on_publication(self, frame: bytes) -> None:
        """Count a publication, and run its job if it is for this minion."""
        self.context.counters.hear(len(frame))
        self._take(frame)

    def _take(self, frame: bytes) -> None:
        """Run a published job if it is for this minion, when the pillar is there and those before it are open.

        A master numbers its publications, and one that is opened before an earlier one makes that one look old.
        """
        if self.stage < Stage.TUNED or self._held is not None:
            self._held = self._held or []
            if len(self._held) < _MAX_HELD:
                self._held.append(frame)
            return
        publication = self.context.publications.open(frame, self.aes)
        if publication is None:
            self._held = []
            self.context.spawn(self._reopen(frame))
        else:
            self._accept(publication)

    async def _reopen(self, frame: bytes) -> None:
        """Sign in anew for the key of a publication that doesn't open, as after the master has changed it."""
        life = self.life
        try:
            with suppress(ExchangeError):
                await self.authenticated()
                publication = self.context.publications.open(frame, self.aes)
                if publication is None:
                    self.context.counters.bad_frames += 1
                elif self.life == life:
                    self._accept(publication)
        finally:
            if self.life == life:
                self._release()

    def _release(self) -> None:
        """Take the publications that had to wait."""
        held, self._held = self._held, None
        for frame in held or ():
            self._take(frame)

    def _accept(self, publication: Publication) -> None:
        """Start the job of a publication unless it is old, for others, or known."""
        if publication.serial:
            if publication.serial <= self.serial:
                return
            self.serial = publication.serial
        if not publication.chosen or not publication.chosen[self.index] or publication.seen[self.index]:
            return
        publication.seen[self.index] = 1
        self.context.tallies.reached(publication.tally, self.index)
        director = self.context.director
        if director is None or not director.takes(self, publication):
            execution = Execution(self, publication, self.context.next_pid())
            self.begin(execution, self.start_delay(publication))

    def begin(self, execution: Execution, seconds: float) -> None:
        """Start the process of a job, whose function begins after some seconds."""
        if self._executions is None:
            self._executions = []
        self._executions.append(execution)
        load = execution.publication.load
        if load.get("start_event"):
            self.fire(f"salt/job/{execution.publication.jid}/start/{self.id}", loads.job_start(self.id, load))
        self.context.loop.call_later(seconds, self._execute, execution)

    def start_delay(self, publication: Publication) -> float:
        """Return the seconds that the process of a job takes to start."""
        return job.start_delay(publication.load, self.chance_of(publication, START), self.replay)

    def busy(self) -> int:
        """Return how many jobs run."""
        return len(self._executions or ())

    def at_work(self) -> int:
        """Return how many jobs will have a return, unless the minion dies: those that run, wait, or are not read yet.

        A queue of jobs is on a minion's disk; while the minion is dead nothing comes of it.
        """
        if self.channel is None:
            return 0
        return len(self._executions or ()) + len(self._held or ()) + len(self.queued())

    def _execute(self, execution: Execution) -> None:
        """Run a job whose process has started by now."""
        if self._executions is None or execution not in self._executions:
            return
        counters = self.context.counters
        counters.executions += 1
        if execution.publication.fun == "saltutil.find_job":
            counters.find_jobs += 1
        coroutine = execution.run()
        if coroutine is not None:
            self.context.spawn(coroutine)

    def stop_job(self, jid: str) -> int | None:
        """End a job for good, without a return; return the process id that it had, None if it doesn't run."""
        for execution in self._executions or ():
            if execution.publication.jid == jid and self.end(execution):
                return execution.pid
        return None

    def end(self, execution: Execution) -> bool:
        """Take a job without a return off the list of what runs; return whether it was there."""
        there = self.drop(execution)
        if there:
            self.context.tallies.ended(execution.publication.tally)
        return there

    def drop(self, execution: Execution) -> bool:
        """Take a job off the list of what runs; return whether it was there."""
        if self._executions is None or execution not in self._executions:
            return False
        self._executions.remove(execution)
        if not self._executions:
            self._executions = None
        return True

    def finished(self, execution: Execution, load: Load, then: Callable[[], None] | None = None) -> bool:
        """Take the job off the list of what runs, and send its return; return whether that is so.

        A job of an earlier life has none. `then` is called when the master has the return, or never will.
        """
        if not self.drop(execution):
            return False
        if self.channel is None:
            self.context.tallies.ended(execution.publication.tally)
            return False
        self.context.counters.returns += 1
        self.context.tallies.returned(execution.publication.tally)
        timer = float(self.chance_of(execution.publication, RETRY).randint(*defaults.RETURN_RETRY_TIMER))
        tries = defaults.RETURN_RETRY_TRIES
        done = self._returned if then is None else partial(self._returned_then, then)
        self.channel.submit(ReturnRequest(load, timer, tries, done, execution.publication))
        return True

    def repeat(self, load: Load, life: int) -> None:
        """Send a return once more, as after a lost acknowledgement, unless the minion has ended since."""
        if self.life == life and self.channel is not None:
            self.context.counters.return_copies += 1
            self.channel.submit(SealedRequest(load, self._retry_timer(), defaults.RETURN_RETRY_TRIES, _ignore))

    def _returned_then(self, then: Callable[[], None], request: ReturnRequest, answer: object) -> None:
        """Go on after a return."""
        self._returned(request, answer)
        then()

    def _returned(self, request: ReturnRequest, _answer: object) -> None:
        """Count and write down what became of a return."""
        context, publication = self.context, request.publication
        if request.failed:
            context.counters.returns_given_up += 1
        else:
            context.counters.returns_acked += 1
        context.tallies.over(publication.tally, acknowledged=not request.failed)
        if not request.attempts and context.tallies.closed:
            # the fleet ended before its turn
            return
        seconds = context.loop.time() - request.since if request.attempts else 0.0
        row = ReturnRow(
            time.time(), publication.jid, publication.fun, self.id, request.attempts, not request.failed, seconds
        )
        context.sample(context.returns, row)

    def chance_of(self, publication: Publication, what: int) -> Dice:
        """Return this minion's chance for one decision about one job; draw at once."""
        return self.context.dice.at(self.number, publication.lot + what)

    def chance(self, pid: int) -> Dice:
        """Return the chance of the job that runs with this process id; draw at once."""
        for execution in self._executions or ():
            if execution.pid == pid:
                return self.chance_of(execution.publication, WORK)
        return self.rng

    def is_meant(self, target: Target) -> bool:
        """Return whether a target means this minion."""
        return bool(self.context.targets.select(target)[self.index])

    def queued(self) -> list[dict[str, Any]]:
        """Return the data of every job that waits in the minion's own queue."""
        director = self.context.director
        return director.queued(self.index) if director else []

    def running(self) -> list[dict[str, Any]]:
        """Return the data of every job that runs now."""
        return [execution.data() for execution in self._executions or ()]
