"""
The process that owns the queue.

Everything runs in one event loop and nothing in it waits for long, so the parts need
no locks: the private socket, the event bus, the publisher and a tick about once a
second. This module puts the parts together and keeps them going.
"""

import asyncio
import logging
import sqlite3
import time

import salt.job_handler.bus
import salt.job_handler.claims
import salt.job_handler.commands
import salt.job_handler.config
import salt.job_handler.database
import salt.job_handler.dispatch
import salt.job_handler.feed
import salt.job_handler.ipc
import salt.job_handler.journal
import salt.job_handler.maintenance
import salt.job_handler.manager
import salt.job_handler.recovery
import salt.job_handler.report
import salt.job_handler.submissions
import salt.utils.process

log = logging.getLogger(__name__)

TICK_SECONDS = 0.5
COLLECT_SECONDS = 60
CLEAN_SECONDS = 30
ALIVE_SECONDS = 0.25


class JobHandler(salt.utils.process.SignalHandlingProcess):
    """
    The process of the master that decides when jobs are published.
    """

    def __init__(self, opts, master, **kwargs):
        """
        :param dict opts: the master's options
        :param str master: a name that changes when the master is started again
        """
        super().__init__(**kwargs)
        self.opts = opts
        self.master = master

    def run(self):
        """
        Serve until the process is ended.
        """
        asyncio.run(Handler(self.opts, self.master).run())


def _steady():
    """
    Return a clock of seconds since the epoch, as deadlines outlive the process, that
    never goes back while the process lives.
    """
    base = time.time() - time.monotonic()
    return lambda: base + time.monotonic()


class Handler:
    """
    The job handler, inside of an event loop.
    """

    #: who was silent when that was last written down
    _silent = None

    def __init__(self, opts, master, clock=None):
        self.opts = opts
        self.section = section = salt.job_handler.config.settings(opts)
        self.clock = clock or _steady()
        self.criteria = salt.job_handler.config.load_criteria(opts)
        self.journal = salt.job_handler.journal.Journal(
            salt.job_handler.claims.folder(opts)
        )
        self.manager = salt.job_handler.manager.QueueManager(
            self.criteria,
            section["max_queue_size"],
            section["fail_mode"],
            time.monotonic,
            self.journal.minions_of,
            time.thread_time,
            section["max_queue_age"],
            section["max_queue_bytes"],
        )
        self.bus = salt.job_handler.bus.Bus(opts)
        self.report = salt.job_handler.report.Report(
            section, self.manager, self.journal, self.clock
        )
        self.dispatcher = salt.job_handler.dispatch.Dispatcher(
            opts,
            self.bus,
            self.manager,
            self.journal,
            self.report,
            self.clock,
            master,
        )
        self.maintenance = salt.job_handler.maintenance.Maintenance(
            section, self.dispatcher
        )
        self.recovery = salt.job_handler.recovery.Recovery(
            self.dispatcher, self.maintenance
        )
        self.submissions = salt.job_handler.submissions.Submissions(
            self.dispatcher, self.recovery, self.report
        )
        self.commands = salt.job_handler.commands.Commands(
            self.dispatcher,
            self.submissions,
            self.recovery,
            self.maintenance,
            self.report,
        )
        self.feed = salt.job_handler.feed.Feed(opts, self.maintenance)
        self.server = None

    async def run(self):
        """
        Recover what the last one left, then serve.
        """
        await self.connect()
        await self.start()
        await self.serve()

    async def connect(self):
        """
        Connect to the event bus and to the publisher.
        """
        await self.bus.connect()
        # hear returns before anything is sent
        await self.feed.connect()

    async def start(self):
        """
        Take over what the last one left, and open the socket.
        """
        salt.job_handler.claims.prepare(self.opts)
        self.dispatcher.start()
        self.report.metrics.register(self.opts)
        await self._alive()
        await self.recovery.run()
        self.submissions.recover()
        self.server = await salt.job_handler.ipc.serve(self.opts, self.commands.handle)
        log.info("The job handler is ready, with %d jobs", len(self.manager.queue))

    async def serve(self):
        """
        Serve for ever.
        """
        await asyncio.gather(
            self.feed.run(),
            self.dispatcher.run(),
            self._every(TICK_SECONDS, self.tick),
            self._every(COLLECT_SECONDS, self._collect),
            self._every(CLEAN_SECONDS, self.clean),
            self._every(ALIVE_SECONDS, self._alive),
        )

    async def _every(self, seconds, function):
        while True:
            try:
                await function()
            except Exception as exc:  # pylint: disable=broad-except
                log.exception("The job handler failed in %s", function.__name__)
                salt.job_handler.database.end_if_damaged(exc)
            await asyncio.sleep(seconds)

    async def tick(self):
        """
        Do what time alone brings: deadlines, maintenance, heartbeats.
        """
        now = self.clock()
        await self.recovery.send_unsent()
        await self.maintenance.ask(now)
        await self.dispatcher.pump()
        self.submissions.tick(now)
        self.dispatcher.note_returns()
        try:
            self.dispatcher.settle()
            self._keep_silent()
        except sqlite3.OperationalError:
            # the disk may be full, and whoever waits is to hear of it
            log.exception("The job handler could not write down how far jobs are")
        await self.dispatcher.abandon()
        await self.dispatcher.followers.beat(now)
        if self.journal.log_bytes() > salt.job_handler.database.LOG_BYTES:
            await self._checkpoint()

    def _keep_silent(self):
        """
        Write down who is silent, if that has changed: nobody is left out after a restart
        who has been heard of before.
        """
        silent = dict(self.criteria.silent)
        if silent != self._silent:
            self.journal.put_snapshot("silent", silent)
            self._silent = silent

    async def _collect(self):
        """
        Let the criteria module gather what it wants to know, in a thread.
        """
        loop = asyncio.get_running_loop()
        collected = await loop.run_in_executor(None, self.criteria.collect, self.opts)
        if collected is not None:
            self.criteria.learn(collected, self.clock())
            self.criteria.ledger.news.add(None)
            self.dispatcher.wake()

    async def clean(self):
        """
        Keep what a restart must not forget, and forget what nobody needs.
        """
        self.journal.clean(self.opts["keep_jobs_seconds"])
        snapshot = self.manager.judge.snapshot()
        if snapshot is not None:
            self.journal.put_snapshot("criteria", snapshot)
        self.journal.put_snapshot("counters", dict(self.manager.counters))
        salt.job_handler.claims.clean(self.opts)
        await self._checkpoint()

    async def _checkpoint(self):
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self.journal.checkpoint)

    async def _alive(self):
        salt.job_handler.ipc.alive(self.opts)
