"""
Doing what the queue manager says: waves are written down, published, and followed until
all of their minions have returned.
"""

import asyncio
import contextlib
import logging
import sqlite3

import salt.job_handler.database
import salt.job_handler.followers
import salt.job_handler.interval
import salt.job_handler.manager
import salt.job_handler.target
import salt.job_handler.vocabulary as vocabulary

log = logging.getLogger(__name__)

#: A wave is on its way for so long. What publishes it may be killed with it, so it only
#: counts as sent after that, or when all of its minions have returned.
FLIGHT_SECONDS = 3


class Dispatcher:
    """
    :param dict opts: the master's options
    :param Bus bus: publishes
    :param QueueManager manager: decides
    :param Journal journal: remembers
    :param Report report: finds the words
    :param callable clock: returns seconds since the epoch
    :param str master: a name that changes when the master is started again

    :ivar set open_jids: job ids with waves in the journal, of which something may still
        be charged
    """

    def __init__(self, opts, bus, manager, journal, report, clock, master):
        self.opts = opts
        self.bus = bus
        self.manager = manager
        self.journal = journal
        self.report = report
        self.clock = clock
        self.master = master
        self.open_jids = set()
        self.lock = None
        self._wake = None
        # how many wait for the lock who do not wait for the whole queue
        self._hurry = 0
        # waves that are on their way: {wave: (job id, until when, whether it is charged)}
        self._flying = {}
        self.followers = salt.job_handler.followers.Followers(bus, manager, report)

    def start(self):
        """
        Begin, inside of the event loop.
        """
        self._wake = asyncio.Event()
        self.lock = asyncio.Lock()

    def wake(self):
        """
        Something may be there to be done.
        """
        self._wake.set()

    async def run(self):
        """
        Publish for ever.
        """
        while True:
            await self._wake.wait()
            try:
                await self.pump()
            except Exception as exc:  # pylint: disable=broad-except
                log.exception("The job handler failed to publish")
                salt.job_handler.database.end_if_damaged(exc)
                await asyncio.sleep(1)

    async def pump(self, patience=None):
        """
        Do what is to be done now, or leave it to whoever is at it already if that
        takes longer than ``patience`` seconds.
        """
        try:
            await asyncio.wait_for(self.lock.acquire(), patience)
        except asyncio.TimeoutError:
            self._wake.set()
            return
        try:
            self._wake.clear()
            while True:
                # publishing takes its time, so each action has a time of its own
                action = next(self.manager.advance(self.clock()), None)
                if action is None:
                    break
                await self.do(action)
                if self._hurry:
                    self._wake.set()
                    break
        finally:
            self.lock.release()

    @contextlib.asynccontextmanager
    async def ahead(self):
        """
        Publish, or cancel, between two publications of the queue.
        """
        self._hurry += 1
        try:
            await self.lock.acquire()
        finally:
            self._hurry -= 1
        try:
            yield
        finally:
            self.lock.release()

    # ------------------------------------------------------------------
    # One action
    # ------------------------------------------------------------------

    async def do(self, action):
        """
        Carry out an action of the manager.
        """
        job = action.job
        if isinstance(action, salt.job_handler.manager.Discard):
            if job.minions is None:
                job.minions = self.journal.minions_of(job)
            sentence = vocabulary.SENTENCES[action.reason]
            excluded = dict.fromkeys(job.minions, sentence)
            self.journal.remove(job, excluded, self.clock())
            self.followers.forget(job)
            self.report.metrics.discarded(action, self.clock())
            await self.bus.tell(job, vocabulary.DISCARDED, self.report.discard(action))
            return
        if action.excluded:
            job.left_out.update(action.excluded)
            await self.bus.tell(job, vocabulary.EXCLUDED, {"excluded": action.excluded})
        if not await self._send(action):
            return
        if action.last:
            self.followers.forget(job)
        if job.told or not action.last:
            await self.bus.tell(
                job,
                vocabulary.DISPATCHED,
                self.report.progress(job, self.clock(), action.minions),
            )

    async def _send(self, action):
        """
        Write a wave down and publish it.

        :return: whether that worked; if not, the job waits again
        """
        job, now = action.job, self.clock()
        stretch = None
        if not job.fixed and (action.minions or action.excluded):
            stretch = salt.job_handler.interval.stretch(
                job, action.minions, action.excluded
            )
        whole = self.journal.load_of(job) if action.minions else None
        load = self._narrowed(action, whole, stretch)
        cost = 0 if load is None else self.manager.criteria.cost(job)
        try:
            wave = self.journal.dispatch(action, load, cost, now)
        except sqlite3.Error:
            # the disk may be full: what is not written down is not published
            log.exception("Job %s could not be written down, and waits", job.jid)
            self.manager.abort(action, now)
            return False
        if load is None:
            return True
        self.open_jids.add(job.jid)
        try:
            await self.bus.publish(load, action.minions)
        except Exception:  # pylint: disable=broad-except
            log.exception("Job %s could not be published", job.jid)
            self.manager.abort(action, now)
            self.journal.failed(wave, f"again-{wave}-{self.master}", job, whole)
            return False
        self.fly(wave, job.jid)
        self.report.metrics.dispatched(action, now)
        return True

    @staticmethod
    def _narrowed(action, load, stretch):
        """
        Return the load of a wave: that of the job, with a target of its own.
        """
        job = action.job
        if load is None or job.fixed:
            return load
        return salt.job_handler.target.narrow(
            load,
            action.minions,
            action.excluded,
            # others of its minions had their turn before, or have it later
            job.waves > 1 or not action.last,
            stretch,
        )

    # ------------------------------------------------------------------
    # What has been published
    # ------------------------------------------------------------------

    def fly(self, wave, jid):
        """
        A wave was published just now.
        """
        until = self.clock() + FLIGHT_SECONDS
        owed = self.manager.criteria.ledger.owes(jid)
        self._flying[wave] = (jid, until, owed)

    def note_returns(self):
        """
        Keep what has been given back, so that nobody is charged for it after a restart.
        """
        ledger = self.manager.criteria.ledger
        settled, ledger.settled = ledger.settled, []
        settled = [charge for charge in settled if charge[0] in self.open_jids]
        if settled:
            try:
                self.journal.returned(settled)
            except sqlite3.Error:
                # after a restart these minions are asked
                log.exception("What came back could not be written down")

    def settle(self):
        """
        Forget the waves of which everything has come back.
        """
        now = self.clock()
        charged = self.manager.criteria.ledger.jobs()
        waiting = {job.jid for job in self.manager.queue}
        landed = [
            wave
            for wave, (jid, until, owed) in self._flying.items()
            if until <= now or (owed and jid not in charged)
        ]
        for wave in landed:
            del self._flying[wave]
        if landed:
            self.journal.sent(landed)
        waiting.update(jid for jid, _, _ in self._flying.values())
        done = [
            jid for jid in self.open_jids if jid not in charged and jid not in waiting
        ]
        if done:
            self.journal.settled(done)
            self.open_jids.difference_update(done)
