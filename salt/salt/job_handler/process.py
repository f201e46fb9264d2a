"""
The process that has the queue.

Everything runs in one event loop and nothing in it waits for long, so the parts need no
locks: the private socket, the event bus, the publisher and a step about twice a second.
"""

import asyncio
import logging
import time

import salt.config
import salt.job_handler.config
import salt.job_handler.control
import salt.job_handler.dispatch
import salt.job_handler.leases
import salt.job_handler.maintenance
import salt.job_handler.policy
import salt.job_handler.postgres
import salt.job_handler.queue
import salt.job_handler.report
import salt.job_handler.store
import salt.utils.process
from salt.job_handler.store import UNAVAILABLE, DamageError, StoreError, is_damage

log = logging.getLogger(__name__)

TICK_SECONDS = 0.5
#: If a step begins so much later than the one before has ended, the process stood still.
STILL_SECONDS = 2
COLLECT_SECONDS = 60
CLEAN_SECONDS = 30
CHECKPOINT_SECONDS = 5
BEAT_SECONDS = 0.25

#: The job handler waits so many seconds for somebody who holds the database.
BUSY_SECONDS = 0.1


class JobHandler(salt.utils.process.SignalHandlingProcess):
    """The process of the master that decides when jobs are published."""

    def __init__(self, opts, master, **kwargs):
        super().__init__(**kwargs)
        self.opts = opts
        self.master = master

    def run(self):
        """Serve until the process is ended."""
        asyncio.run(self._run())

    async def _run(self):
        try:
            await Handler(self.opts, self.master).run()
        except (StoreError, DamageError, *UNAVAILABLE) as exc:
            log.critical("The job handler can't use its queue: %s", exc)
            # the process manager starts it again at once
            await asyncio.sleep(5)


class Handler:
    """The job handler, inside of an event loop.

    :param str master: a name that changes when the master is started again
    """

    def __init__(self, opts, master, clock=None):
        self.opts = opts
        self.master = master
        self.section = section = salt.job_handler.config.settings(opts)
        self.store = self._open()
        self.clock = clock or self.store.clock
        self.leases = salt.job_handler.leases.Leases(
            section["long_running"], section["reconcile_interval"]
        )
        self.queue = salt.job_handler.queue.Queue(
            salt.job_handler.config.load_criteria(opts, section, self.leases),
            self.leases,
            salt.job_handler.policy.Rules(section["rules"]),
            section,
            lambda job: self.store.ids_of(job.seq),
        )
        self.report = salt.job_handler.report.Report(
            section, self.queue, self.store, self.clock
        )
        self.bus = salt.job_handler.dispatch.Bus(opts)
        self.dispatcher = salt.job_handler.dispatch.Dispatcher(
            opts, self.bus, self.queue, self.store, self.report, self.clock
        )
        self.maintenance = salt.job_handler.maintenance.Maintenance(self.dispatcher)
        self.commands = salt.job_handler.control.Commands(self.dispatcher, self.reload)
        self.server = self._beating = None
        self._ticked = time.monotonic()
        #: the job handlers of the cluster, or None
        self.group = None
        self.handle = self.commands.handle

    def _open(self):
        try:
            store = salt.job_handler.postgres.connect(self.opts, BUSY_SECONDS)
            if not store.shared:
                store.check()
            return store
        except Exception as exc:  # pylint: disable=broad-except
            if not is_damage(exc):
                raise
            salt.job_handler.store.set_aside(self.opts, str(exc))
        return salt.job_handler.store.Store(self.opts, BUSY_SECONDS)

    async def run(self):
        """Take over what the last one left, then serve."""
        await self.bus.connect()
        if self.store.shared:
            await self._lead()
        # hear returns before anything is sent
        await self.maintenance.connect()
        await self.start()
        await self.serve()

    async def _lead(self):
        self.group = salt.job_handler.postgres.Group(self.store, self.master)
        self.handle = self.group.relay
        await self._open_socket()
        await self.group.lead()
        log.info("This master leads the queue of the cluster")

    async def _handle(self, request):
        return await self.handle(request)

    async def _open_socket(self):
        if self.server is None:
            self.server = await salt.job_handler.control.serve(self.opts, self._handle)
            self.beat()
            every = self._every(BEAT_SECONDS, self.beat)
            self._beating = asyncio.ensure_future(every)

    async def start(self):
        """Take over what the last one left, and open the socket."""
        self.report.register(self.opts)
        kept = self.store.get_meta("kept") or {}
        restarted = kept.get("master") not in (None, self.master)
        section = self.store.get_meta("section")
        if section and kept.get("master") == self.master:
            # they were read again since the master was started
            self._apply(section)
        else:
            self.store.put_meta("section", None)
        self.dispatcher.recover_orders()
        await self.collect()
        # in a cluster most minions are connected to other masters
        wait = salt.job_handler.dispatch.RECONNECT_SECONDS[self.store.shared]
        self.dispatcher.recover(wait if restarted else 0)
        self.queue.criteria.restore(kept.get("criteria") or {}, self.clock())
        if not restarted:
            # minions come back to a master that is started again
            for minion, since in (kept.get("silent") or {}).items():
                self.leases.set_silent(minion, since, self.clock())
        self.report.counters.update(kept.get("counters") or {})
        self._keep()
        self.handle = self.commands.handle
        await self._open_socket()
        self.dispatcher.wake()
        log.info("The job handler is ready, with %d jobs", len(self.queue))

    async def serve(self):
        """Serve for ever."""
        parts = []
        if self.group is not None:
            parts = [self.group.serve(self.handle), self._every(1, self.store.sign)]
        await asyncio.gather(
            *parts,
            self.maintenance.listen(),
            self._every(0, self.dispatcher.run),
            self._every(TICK_SECONDS, self.tick),
            self._every(COLLECT_SECONDS, self.collect),
            self._every(CLEAN_SECONDS, self.clean),
            self._every(1, self.report.observe),
            self._every(CHECKPOINT_SECONDS, self.checkpoint),
        )

    async def _every(self, seconds, function):
        while True:
            try:
                doing = function()
                if doing is not None:
                    await doing
            except UNAVAILABLE as exc:
                # the disk may be full, or somebody holds the database
                log.error("The job handler can't use its database: %s", exc)
            except StoreError:
                # a newer version has the database
                raise
            except Exception as exc:  # pylint: disable=broad-except
                if is_damage(exc):
                    if not self.store.shared:
                        self.store.close()
                        salt.job_handler.store.set_aside(self.opts, str(exc))
                    # the next process goes on with what could be read
                    raise SystemExit("The job handler's queue is damaged") from exc
                log.exception("The job handler failed in %s", function.__name__)
            await asyncio.sleep(seconds)

    def beat(self):
        """Say that the job handler runs."""
        try:
            salt.job_handler.control.beat(self.opts)
        except FileNotFoundError as exc:
            # the next process makes it again
            raise SystemExit("The job handler's socket is gone") from exc

    async def tick(self):
        """Do what time alone brings."""
        passed = time.monotonic() - self._ticked
        try:
            if passed > STILL_SECONDS:
                # answers may be unread
                self.leases.stood_still(passed)
            else:
                await self.maintenance.ask()
            await self.dispatcher.tick()
            self.dispatcher.wake()
        finally:
            self._ticked = time.monotonic()

    @staticmethod
    async def _in_thread(function, *args):
        return await asyncio.get_running_loop().run_in_executor(None, function, *args)

    async def collect(self):
        """Gather, in a thread, what has to be waited for."""
        criteria = self.queue.criteria
        collected = await self._in_thread(criteria.collect, self.opts)
        if collected is not None:
            criteria.learn(collected, self.clock())
        await self.dispatcher.resolve_rules()
        await self.maintenance.forget_deleted()
        self.dispatcher.wake()

    def _keep(self):
        kept = {
            "master": self.master,
            "criteria": self.queue.criteria.snapshot(),
            "counters": dict(self.report.counters),
            "silent": self.leases.silent,
        }
        self.store.put_meta("kept", kept)

    async def clean(self):
        """Keep what a restart must not forget, and forget what nobody needs."""
        self.store.clean(self.opts["keep_jobs_seconds"])
        self.store.clock.keep()
        self._keep()

    async def checkpoint(self):
        """Move the log of the database into it."""
        await self._in_thread(self.store.checkpoint)

    async def reload(self):
        """Read the settings again, and return what is wrong with them."""
        opts = await self._in_thread(salt.config.master_config, self.opts["conf_file"])
        if not opts.get("rate_limiting"):
            return ["rate_limiting is gone: restart the master to turn it off."]
        errors = salt.job_handler.config.errors(opts)
        if errors:
            return errors
        section = salt.job_handler.config.settings(opts)
        # not what may hold a password
        kept = {key: value for key, value in section.items() if key != "postgresql"}
        self.store.put_meta("section", kept)
        self._apply(section)
        await self.collect()
        for number, job in enumerate(self.queue):
            if job in self.queue:
                self.queue.place(job)
            if not number % 100:
                # others have their turn
                await asyncio.sleep(0)
        self.dispatcher.wake()
        return []

    def _apply(self, section):
        kept = self.queue.criteria.snapshot()
        self.queue.criteria = salt.job_handler.queue.Guarded(
            salt.job_handler.config.load_criteria(self.opts, section, self.leases)
        )
        self.queue.criteria.restore(kept, self.clock())
        # the parts share this dictionary
        self.section.clear()
        self.section.update(section)
        self.leases.long_running = section["long_running"]
        self.leases.interval = section["reconcile_interval"]
        self.queue.rules.set(section["rules"])
