"""One simulated minion: its life from signing in to its end.

There are thousands of them, so each one is small: what minions share is in `Shared`, and what a minion needs for a
moment only is made for that moment.
Source: salt/minion.py of Salt 3008.5.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from evil_minions.errors import ExchangeError, PendingError
from evil_minions.minion.jobs import JobRunner
from evil_minions.minion.runtime import Phase
from evil_minions.minion.session import ignore
from evil_minions.rng import stream
from evil_minions.samples.rows import JobRow

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from evil_minions.minion.publication import Publication
    from evil_minions.minion.shared import Shared
    from evil_minions.network.channel import Request
    from evil_minions.network.link import Link, Subscription
    from evil_minions.samples.files import Journal

# of publications that wait for a sign-in: a master that sends nothing else must not fill the memory
_MAX_HELD: Final = 1000
_MAX_HELD_BYTES: Final = 1024 * 1024
_NO_ROOM: Final = (
    f"More than {_MAX_HELD} publications or {_MAX_HELD_BYTES // 1024} KB wait for a minion's sign-in or pillar;"
    " further ones are dropped, and it never runs their jobs: publish less until the fleet is ready."
)


class Minion(JobRunner):
    """A minion; `phase` says how far it has come."""

    __slots__ = ("_held", "phase", "subscription")

    def __init__(self, shared: Shared, index: int) -> None:
        """Stay idle until `sign_in`."""
        super().__init__(shared, index)
        self.phase = Phase.IDLE
        self.subscription: Subscription | None = None
        self._held: list[bytes] | None = None

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
        """Fire the start events and register the resources."""
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
