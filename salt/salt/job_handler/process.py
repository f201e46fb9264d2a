"""
The process that has the queue.

Everything runs in one event loop and nothing in it waits for long, so the parts need no
locks: the private socket, the event bus, the publisher and a step about twice a second.
"""

import asyncio
import logging
import sqlite3

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

log = logging.getLogger(__name__)

TICK_SECONDS = 0.5
COLLECT_SECONDS = 60
CLEAN_SECONDS = 30
BEAT_SECONDS = 0.25

#: The job handler waits so many seconds for somebody who holds the database.
BUSY_SECONDS = 0.1


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
        asyncio.run(self._run())

    async def _run(self):
        try:
            await Handler(self.opts, self.master).run()
        except (
            salt.job_handler.store.StoreError,
            salt.job_handler.store.DamageError,
            *salt.job_handler.store.UNAVAILABLE,
        ) as exc:
            log.critical("The job handler can't use its queue: %s", exc)
            # the process manager starts it again at once
            await asyncio.sleep(5)


class Handler:
    """
    The job handler, inside of an event loop.

    :param dict opts: the master's options
    :param str master: a name that changes when the master is started again
    :param callable clock: returns seconds
    """

    def __init__(self, opts, master, clock=None):
        self.opts = opts
        self.master = master
        self.section = section = salt.job_handler.config.settings(opts)
        self.store = self._open()
        self.clock = clock or self.store.clock
        self.leases = salt.job_handler.leases.Leases(
            section["long_running"],
            section["reconcile_interval"],
            section["reconcile_rate"],
        )
        criteria = salt.job_handler.config.load_criteria(opts, section, self.leases)
        self.queue = salt.job_handler.queue.Queue(
            criteria,
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
        self.report.interval = self.dispatcher.interval
        self.maintenance = salt.job_handler.maintenance.Maintenance(self.dispatcher)
        self.commands = salt.job_handler.control.Commands(
            self.dispatcher, self.report, self.reload
        )
        self.server = self._beating = None
        #: the job handlers of the cluster, or None
        self.group = None
        self.handle = self.commands.handle

    def _open(self):
        """
        Return the store; if it is damaged, a new one with what can be read.
        """
        try:
            store = salt.job_handler.postgres.connect(self.opts, BUSY_SECONDS)
            if store.shared:
                return store
            damage = store.damage()
            if damage is None:
                store.waves()
                store.jobs("queued")
                return store
            store.close()
        except salt.job_handler.store.UNAVAILABLE:
            raise
        except (sqlite3.DatabaseError, salt.job_handler.store.DamageError) as exc:
            damage = str(exc)
        salt.job_handler.store.set_aside(self.opts, damage)
        return salt.job_handler.store.Store(self.opts, BUSY_SECONDS)

    async def run(self):
        """
        Take over what the last one left, then serve.
        """
        await self.bus.connect()
        self._beating = asyncio.ensure_future(self._every(BEAT_SECONDS, self.beat))
        if self.store.shared:
            await self._lead()
        # hear returns before anything is sent
        await self.maintenance.connect()
        await self.start()
        await self.serve()

    async def _lead(self):
        """
        Wait until this master leads the cluster's queue, and pass on what is asked.
        """
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

    async def start(self):
        """
        Take over what the last one left, and open the socket.
        """
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
        await self.dispatcher.resolve_rules()
        # in a cluster most minions are connected to other masters
        wait = salt.job_handler.dispatch.RECONNECT_SECONDS[self.store.shared]
        self.dispatcher.recover(wait if restarted else 0)
        self.queue.criteria.restore(kept.get("criteria") or {}, self.clock())
        if not restarted:
            # minions come back to a master that is started again
            for minion, since in (kept.get("silent") or {}).items():
                self.leases.set_silent(minion, since, self.clock())
        self.queue.counters.update(kept.get("counters") or {})
        self._keep()
        self.handle = self.commands.handle
        await self._open_socket()
        self.dispatcher.wake()
        log.info("The job handler is ready, with %d jobs", len(self.queue))

    async def serve(self):
        """
        Serve for ever.
        """
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
        )

    async def _every(self, seconds, function):
        while True:
            try:
                doing = function()
                if doing is not None:
                    await doing
            except salt.job_handler.store.UNAVAILABLE as exc:
                # the disk may be full, or somebody holds the database
                log.error("The job handler can't use its database: %s", exc)
            except (sqlite3.DatabaseError, salt.job_handler.store.DamageError) as exc:
                if not self.store.shared:
                    self.store.close()
                    salt.job_handler.store.set_aside(self.opts, str(exc))
                # the next process goes on with what could be read
                raise SystemExit("The job handler's queue is damaged") from exc
            except Exception:  # pylint: disable=broad-except
                log.exception("The job handler failed in %s", function.__name__)
            await asyncio.sleep(seconds)

    def beat(self):
        """
        Say that the job handler runs.
        """
        salt.job_handler.control.beat(self.opts)

    async def tick(self):
        """
        Do what time alone brings.
        """
        await self.maintenance.ask()
        await self.dispatcher.tick()
        await self.dispatcher.pump()
        if self.store.log_bytes() > salt.job_handler.store.LOG_BYTES:
            await self._checkpoint()

    async def collect(self):
        """
        Gather, in a thread, what has to be waited for.
        """
        loop = asyncio.get_running_loop()
        criteria = self.queue.criteria
        collected = await loop.run_in_executor(None, criteria.collect, self.opts)
        if collected is not None:
            criteria.learn(collected, self.clock())
        await self.dispatcher.resolve_rules()
        await self.maintenance.forget_deleted()
        self.dispatcher.wake()

    def _keep(self):
        self.store.put_meta(
            "kept",
            {
                "master": self.master,
                "criteria": self.queue.criteria.snapshot() or {},
                "counters": dict(self.queue.counters),
                "silent": self.leases.silent,
            },
        )
        self.store.put_meta("retry_after", self.report.retry_after())
        self.report.count_unavailable()

    async def clean(self):
        """
        Keep what a restart must not forget, and forget what nobody needs.
        """
        self.store.clean(self.opts["keep_jobs_seconds"])
        self.store.clock.keep()
        self._keep()
        await self._checkpoint()

    async def _checkpoint(self):
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self.store.checkpoint)

    async def reload(self):
        """
        Read the settings again.

        :return: what is wrong with them; then nothing changes
        """
        loop = asyncio.get_running_loop()
        opts = await loop.run_in_executor(
            None, salt.config.master_config, self.opts["conf_file"]
        )
        if not opts.get("rate_limiting"):
            return ["rate_limiting is gone: restart the master to turn it off."]
        errors = salt.job_handler.config.errors(opts)
        if errors:
            return errors
        section = salt.job_handler.config.settings(opts)
        self._apply(section)
        self.store.put_meta("section", salt.job_handler.config.public(section))
        await self.collect()
        return []

    def _apply(self, section):
        """
        Go on with other settings.
        """
        criteria = salt.job_handler.config.load_criteria(
            self.opts, section, self.leases
        )
        kept = self.queue.criteria.snapshot() or {}
        self.queue.criteria = salt.job_handler.queue.Guarded(criteria)
        self.queue.criteria.restore(kept, self.clock())
        # the parts share this dictionary
        self.section.clear()
        self.section.update(section)
        self.leases.long_running = section["long_running"]
        self.leases.interval = section["reconcile_interval"]
        self.leases.rate = section["reconcile_rate"]
        self.queue.rules.set(section["rules"])
