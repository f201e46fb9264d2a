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
from salt.job_handler.waves import Unsent, Waves

log = logging.getLogger(__name__)


class Dispatcher(Waves):
    """
    :param dict opts: the master's options
    :param Bus bus: publishes
    :param QueueManager manager: decides
    :param Journal journal: remembers
    :param Report report: finds the words
    :param callable clock: returns seconds since the epoch
    :param str master: a name that changes when the master is started again
    """

    def __init__(self, opts, bus, manager, journal, report, clock, master):
        super().__init__(manager, journal, clock, master)
        self.opts = opts
        self.bus = bus
        self.report = report
        self.lock = None
        self._wake = None
        # how many wait for the lock who do not wait for the whole queue
        self._hurry = 0
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
                if action is None and self.manager.more:
                    # others have their turn
                    await asyncio.sleep(0)
                    continue
                if action is None:
                    break
                await self.do(action)
                if self._hurry:
                    self._wake.set()
                    break
        finally:
            self.lock.release()

    async def abandon(self):
        """
        Give up the jobs whose callers have gone.
        """
        gone = self.followers.gone(self.clock())
        if not gone:
            return
        async with self.ahead():
            for job in gone:
                if job in self.manager.queue:
                    await self.do(self.manager.abandon(job, self.clock()))

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

        :return: whether that worked; if not, the job waits again
        """
        if isinstance(action, salt.job_handler.manager.Discard):
            return await self._discard(action)
        job = action.job
        written = self._write(action)
        if written is None:
            return False
        if action.excluded:
            job.left_out.update(action.excluded)
            await self.bus.tell(job, vocabulary.EXCLUDED, {"excluded": action.excluded})
        if not await self._send(action, *written):
            return False
        if action.last:
            self.followers.forget(job)
        if job.told or not action.last:
            await self.bus.tell(
                job,
                vocabulary.DISPATCHED,
                self.report.progress(job, self.clock(), action.minions),
            )
        return True

    async def _discard(self, action):
        """
        Give up a job.
        """
        job = action.job
        if job.minions is None:
            job.minions = self.journal.minions_of(job)
        sentence = vocabulary.SENTENCES[action.reason]
        excluded = dict.fromkeys(job.minions, sentence)
        try:
            self.journal.remove(job, excluded, self.clock())
        except sqlite3.OperationalError:
            # the disk may be full: after a restart it would be there again
            log.exception("Job %s could not be taken out of the queue", job.jid)
            self.manager.keep(action, self.clock())
            return False
        self.followers.forget(job)
        self.report.metrics.discarded(action, self.clock())
        await self.bus.tell(job, vocabulary.DISCARDED, self.report.discard(action))
        return True

    def _write(self, action):
        """
        Write down a wave, and who is left out.

        :return: the number of the wave, its load and that of the job, or None if they
            can't be written, and the job waits again
        """
        job, now = action.job, self.clock()
        stretch = None
        if not job.fixed and (action.minions or action.excluded):
            stretch = salt.job_handler.interval.stretch(
                job, action.minions, action.excluded
            )
        whole = self.journal.load_of(job) if action.minions else None
        load = self._narrowed(action, whole, stretch)
        cost = 0 if load is None else self.manager.judge.cost(job)
        try:
            wave = self.journal.dispatch(action, load, cost, now)
        except sqlite3.OperationalError:
            # the disk may be full: what is not written down is not published
            log.exception("Job %s could not be written down, and waits", job.jid)
            self.manager.abort(action, now, written=False)
            return None
        return wave, load, whole

    async def _send(self, action, wave, load, whole):
        """
        Publish a wave.
        """
        job, now = action.job, self.clock()
        if load is None:
            return True
        self.open_jids.add(job.jid)
        try:
            await self.bus.publish(load, action.minions)
        except Exception:  # pylint: disable=broad-except
            log.exception("Job %s could not be published", job.jid)
            return self._failed(action, wave, load, whole)
        self.fly(wave, job.jid)
        self.report.metrics.dispatched(action, now)
        return True

    def _failed(self, action, wave, load, whole):
        """
        Put the minions of a wave that could not be published back into the queue.

        :return: whether the wave stays instead, as even that could not be written down
        """
        job, now = action.job, self.clock()
        minions = sorted([*job.minions, *action.minions])
        try:
            self.journal.failed(wave, self.again(wave), job, whole, minions)
        except sqlite3.OperationalError:
            log.exception("Job %s will be published as after a restart", job.jid)
            self.unsent[wave] = Unsent(job.seq, now, action.minions, load)
            self.back.setdefault(job.jid, set())
            self.manager.hold(now)
            return True
        self.manager.abort(action, now)
        return False

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
