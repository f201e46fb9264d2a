"""
The process that owns the queue.

Everything runs in one event loop and nothing in it waits for long, so the parts need
no locks: the private socket, the event bus, the publisher and a tick about once a
second. The decisions are those of :mod:`salt.job_handler.manager`; this module brings
it events, and does what it says.
"""

import asyncio
import collections
import contextlib
import logging
import sqlite3
import time

import salt.channel.server
import salt.job_handler
import salt.job_handler.claims
import salt.job_handler.config
import salt.job_handler.feed
import salt.job_handler.gate
import salt.job_handler.ipc
import salt.job_handler.job
import salt.job_handler.manager
import salt.job_handler.report
import salt.job_handler.rounds
import salt.job_handler.store
import salt.job_handler.target
import salt.payload
import salt.utils.event
import salt.utils.jid
import salt.utils.process
from salt.utils.channel import iter_transport_opts

log = logging.getLogger(__name__)

TICK_SECONDS = 0.5

#: After a restart of the master its minions have to find it again. What is published
#: before is lost for them. With the defaults of ``recon_default``, ``recon_max`` and
#: ``recon_randomize``, one that tried just before the master was there waits for 11
#: seconds, and for up to 11 more at random. Then it signs in.
RECONNECT_SECONDS = 30

COLLECT_SECONDS = 60
CLEAN_SECONDS = 30
ALIVE_SECONDS = 0.25

#: A wave is on its way for so long. What publishes it may be killed with it, so it only
#: counts as sent after that, or when all of its minions have returned.
FLIGHT_SECONDS = 3

#: A wave is sent again only if at most so many went out after it. Minions remember the
#: job ids of the last ``minion_jid_queue_hwm`` jobs, 100 by default, and not all of these
#: come out of the queue.
REMEMBERED = 50

#: How long a submission waits for what others have set in motion.
PATIENCE_SECONDS = 0.25

#: So many job ids that were cancelled are remembered.
CANCELLED = 1000

#: At most so many clients are told in each tick that their jobs still wait.
HEARTBEATS = 100


def _end_if_damaged(exc):
    """
    End the process when the database is damaged: the next one keeps what can be read.
    """
    if type(exc) is sqlite3.DatabaseError:  # pylint: disable=unidiomatic-typecheck
        raise SystemExit("The job handler's queue is damaged") from exc


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


class Handler:
    """
    The job handler, inside of an event loop.
    """

    def __init__(self, opts, master, clock=None):
        self.opts = opts
        self.master = master
        self.section = salt.job_handler.config.settings(opts)
        if clock is None:
            # seconds since the epoch, as deadlines outlive the process, but they never
            # go back while it lives
            base = time.time() - time.monotonic()

            def clock():
                return base + time.monotonic()

        self.clock = clock
        self.criteria = salt.job_handler.config.load_criteria(opts)
        self.store = salt.job_handler.store.JobStore(
            salt.job_handler.claims.folder(opts)
        )
        self.manager = salt.job_handler.manager.QueueManager(
            self.criteria,
            self.section["max_queue_size"],
            self.section["fail_mode"],
            time.monotonic,
            self.store.minions_of,
            time.thread_time,
            self.section["max_queue_age"],
        )
        self.rounds = salt.job_handler.rounds.Rounds(
            self.criteria,
            self.section["long_running"],
            self.section["reconcile_interval"],
        )
        self.report = salt.job_handler.report.Report(self)
        self.event = None
        self.channels = []
        self.feed = None
        self.server = None
        # publish requests that have a place in the queue but no job id yet
        self.pending = {}
        # job ids with waves in the database, of which something may still be charged
        self.open_jids = set()
        # when the minions of a restarted master have found it
        self.connected_at = 0
        self._wake = None
        self._pump_lock = None
        # how many wait for the lock who do not wait for the whole queue
        self._hurry = 0
        # waves that the last job handler may not have published any more:
        # {wave: (number of the job, since when, minions, load)}
        self._unsent = {}
        # waves that are on their way: {wave: (job id, until when, whether it is charged)}
        self._flying = {}
        self._heartbeats = collections.OrderedDict()
        # job ids that somebody has cancelled: a batch publishes more than once
        self.cancelled = collections.OrderedDict()

    # ------------------------------------------------------------------
    # Life
    # ------------------------------------------------------------------

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
        self.event = salt.utils.event.get_master_event(
            self.opts,
            self.opts["sock_dir"],
            listen=False,
            io_loop=asyncio.get_running_loop(),
        )
        for _, opts in iter_transport_opts(self.opts):
            self.channels.append(salt.channel.server.PubServerChannel.factory(opts))
        self.feed = salt.job_handler.feed.Feed(self.opts, self)
        # hear returns before anything is sent
        await self.feed.connect()

    async def start(self):
        """
        Take over what the last one left, and open the socket.
        """
        self._wake = asyncio.Event()
        self._pump_lock = asyncio.Lock()
        self.report.register()
        await self._alive()
        await self.recover()
        self.server = await salt.job_handler.ipc.serve(self.opts, self.handle)
        log.info("The job handler is ready, with %d jobs", len(self.manager.queue))

    async def serve(self):
        """
        Serve for ever.
        """
        await asyncio.gather(
            self.feed.run(),
            self._pump_forever(),
            self._tick_forever(),
            self._every(COLLECT_SECONDS, self._collect),
            self._every(CLEAN_SECONDS, self._clean),
            self._every(ALIVE_SECONDS, self._alive),
        )

    async def recover(self):
        """
        Take over what the last job handler left behind: charges first, then waves that
        it may not have published any more, then the jobs that wait.
        """
        now = self.clock()
        for wave, seq, jid, cost, since, minions, owing, load in self.store.waves():
            # the clock may have been set back
            since = min(since, now)
            self.criteria.ledger.charge(jid, owing, cost, since)
            self.open_jids.add(jid)
            if load is not None and not owing:
                self.store.sent([wave])
            elif load is not None and not self._recognised(wave, minions):
                log.warning(
                    "Job %s may have been sent to %s when the job handler ended. It is"
                    " not sent again, as they might not know it any more",
                    jid,
                    ", ".join(sorted(owing)),
                )
                self.store.sent([wave])
            elif load is not None:
                # who has answered does not get it again
                rest = len(owing) < len(minions)
                if rest and not salt.job_handler.target.is_fixed(self.opts, minions):
                    load = salt.job_handler.target.narrow(load, owing, [], True)
                self._unsent[wave] = (seq, since, owing, load)
        snapshot = self.store.get_snapshot("criteria")
        if snapshot is not None:
            self.criteria.restore(snapshot, now)
        if self.store.get_snapshot("master") == self.master:
            # minions come back to a master that is started again
            self.criteria.silent.update(self.store.get_snapshot("silent") or {})
        # returns may have come while nobody listened
        self.rounds.doubt(now)
        self.criteria.ledger.settled = []
        forced = []
        for submission, job in self.store.jobs():
            if not salt.job_handler.claims.claim(
                self.opts, submission, salt.job_handler.claims.HANDLER
            ):
                log.info("Job %s was published by a worker meanwhile", job.jid)
                self.store.remove(job)
            elif job.forced:
                job.minions = self.store.minions_of(job)
                forced.append(job)
            else:
                # who waits has been told so by the last job handler
                job.told = True
                self._set_back(job, now)
                self.manager.submit(job)
                if job.sync:
                    self._heartbeats[job.seq] = job
        self.manager.paused = bool(self.store.get_snapshot("paused"))
        # jobs that are taken over were counted before
        self.manager.counters = collections.Counter(
            self.store.get_snapshot("counters") or {}
        )
        self.cancelled.update(dict.fromkeys(self.store.get_snapshot("cancelled") or []))
        if self.store.get_snapshot("master") not in (None, self.master):
            self.store.put_snapshot("connected_at", now + RECONNECT_SECONDS)
        self.store.put_snapshot("master", self.master)
        # this may be another job handler of the same master
        self.connected_at = min(
            self.store.get_snapshot("connected_at") or 0, now + RECONNECT_SECONDS
        )
        if self._unsent or len(self.manager.queue):
            self._wait_for_minions(now)
        for job in forced:
            await self._do(self.manager.force(job, now))
        await self._send_unsent()
        self._wake.set()

    def _recognised(self, wave, minions):
        """
        Return whether minions that get a wave a second time surely drop it. Those that
        manage resources never do.
        """
        if self.store.waves_since(wave) > REMEMBERED:
            return False
        fixed = salt.job_handler.target.is_fixed(self.opts, minions)
        return bool(self.opts.get("order_masters")) or not fixed

    @staticmethod
    def _set_back(job, now):
        """
        A job from the future was queued before the clock was set back.
        """
        ahead = job.queued - now
        if ahead > 0:
            job.queued, job.moved, job.beaten = now, now, now
            if job.deadline is not None:
                job.deadline -= ahead

    def _wait_for_minions(self, now):
        """
        Hold jobs back if a restarted master does not have its minions yet.
        """
        if now < self.connected_at and self.manager.held_until != self.connected_at:
            self.manager.held_until = self.connected_at
            log.info("Jobs wait %d s for minions to connect", self.connected_at - now)

    async def _send_unsent(self):
        """
        Publish what the last job handler may not have published. Minions drop what they
        have got already.
        """
        if self.manager.held_until is not None and (
            self.clock() < self.manager.held_until
        ):
            return
        async with self._pump_lock:
            while self._unsent:
                wave, (*_, load) = next(iter(self._unsent.items()))
                log.info("Publishing job %s, which may not have been sent", load["jid"])
                await self._publish(load)
                self._fly(wave, load["jid"])
                del self._unsent[wave]

    def _recall_unsent(self, jid):
        """
        Put the minions of a job's waves that may not have been sent back into the queue.
        """
        now = self.clock()
        for wave, (seq, since, minions, load) in list(self._unsent.items()):
            if load["jid"] != jid:
                continue
            self.store.recall(wave)
            del self._unsent[wave]
            job = self.manager.queue.get(seq)
            if job is None:
                job = salt.job_handler.job.Job(
                    seq, jid, load["fun"], 0, [], load.get("user", ""), queued=since
                )
                self.manager.queue.put(job, None, first=True)
            self.manager.take_back(job, minions, now)

    def _fly(self, wave, jid):
        """
        A wave was published just now.
        """
        until = self.clock() + FLIGHT_SECONDS
        self._flying[wave] = (jid, until, self.criteria.ledger.owes(jid))

    async def _every(self, seconds, function):
        while True:
            try:
                await function()
            except Exception as exc:  # pylint: disable=broad-except
                log.exception("The job handler failed in %s", function.__name__)
                _end_if_damaged(exc)
            await asyncio.sleep(seconds)

    # ------------------------------------------------------------------
    # Requests
    # ------------------------------------------------------------------

    async def handle(self, request):
        """
        Serve a request of the private socket.
        """
        try:
            return await getattr(self, f"_cmd_{request['cmd']}")(request)
        except sqlite3.Error as exc:
            _end_if_damaged(exc)
            raise

    async def _cmd_reserve(self, request):
        now = self.clock()
        name = request.get("request")
        if name is not None:
            answer = self.store.answered(name)
            if answer is not None:
                return {"state": "answered", "answer": self._renewed(answer, now)}
            until = self.pending.get(name)
            if until is not None and until > now:
                return {"state": "twin"}
        if not self.manager.reserve(request["token"], now):
            return {
                "state": "full",
                "queued": len(self.manager.queue),
                "retry_after": self.report.retry_after(now),
            }
        if name is not None:
            self.pending[name] = now + salt.job_handler.manager.RESERVED_SECONDS
        return {"state": "reserved"}

    def _renewed(self, answer, now):
        """
        Return the answer to a request that comes again, as things are now.
        """
        state = answer.pop("job_handler", None)
        waiting = self.manager.queue.of_jid(answer["jid"])
        if waiting:
            answer["job_handler"] = self.report.state(waiting[0], now)
        elif state and state.get("excluded"):
            answer["job_handler"] = {
                "state": "dispatched",
                "waiting": 0,
                "excluded": state["excluded"],
            }
        return answer

    async def _cmd_submit(self, request):
        try:
            return await self._submit(request)
        finally:
            # a second try finds an answer now
            self.pending.pop(request.get("request"), None)
            self.manager.unreserve(request["token"])

    async def _submit(self, request):
        now = self.clock()
        load, token = request["load"], request["token"]
        timeout = request["timeout"]
        job = salt.job_handler.job.Job(
            None,
            load["jid"],
            load["fun"],
            request["count"],
            user=load.get("user", ""),
            sync=request["sync"],
            deadline=None if timeout is None else now + timeout,
            queued=now,
            forced=request["forced"],
            fixed=request["fixed"],
        )
        ids = request["ids"]
        if job.jid in self.cancelled:
            # another part of a batch
            return {"state": "accepted", "job_handler": self._cancelled_state(ids)}
        if job.fixed and not job.count:
            # a master of masters that knows none of the targets: count the job itself
            job.count = 1
            ids = salt.payload.dumps(
                [salt.job_handler.manager.UNKNOWN], use_bin_type=True
            )
        refusal = self._keep(request, job, ids)
        if refusal is not None:
            return refusal
        if job.forced:
            job.minions = self.store.minions_of(job)
            async with self._ahead():
                await self._do(self.manager.force(job, now))
        else:
            if not job.sync:
                # who waits for a synchronous job rather has the answers that there are
                self._wait_for_minions(now)
            self.manager.submit(job, token)
            await self._pump(PATIENCE_SECONDS)
        # from here on the caller hears of everything that becomes of it
        job.told = bool(job.count)
        reply = self.report.state(job, self.clock())
        if reply:
            try:
                self._answer(request, job, reply)
            except sqlite3.Error:
                # a second try learns less
                log.exception("The answer for job %s could not be written", job.jid)
        if job.told:
            log.info("Job %s waits: %s", job.jid, job.reason)
            await self._fire(job, "queued", self.report.progress(job, self.clock()))
            if job.sync:
                self._heartbeats[job.seq] = job
        return {"state": "accepted", "job_handler": reply}

    def _keep(self, request, job, ids):
        """
        Write a job down and claim it.

        :return: the reply if there is nothing to publish, or None
        """
        token = request["token"]
        try:
            if not self.store.add(token, job, ids, request["load"]):
                return {"state": "known"}
            try:
                mine = salt.job_handler.claims.claim(
                    self.opts, token, salt.job_handler.claims.HANDLER
                )
                if mine:
                    self._answer(request, job, {})
            except (OSError, sqlite3.OperationalError):
                self.store.remove(job)
                raise
        except (OSError, sqlite3.OperationalError) as exc:
            log.exception("Job %s can't be written down", job.jid)
            return {"state": "unkept", "reason": str(exc)}
        if not mine:
            # the worker did not wait for this, and has published the job
            self.store.remove(job)
            salt.job_handler.claims.drop(self.opts, token)
            return {"state": "late"}
        asyncio.get_running_loop().call_later(
            2 * salt.job_handler.manager.RESERVED_SECONDS,
            salt.job_handler.claims.drop,
            self.opts,
            token,
        )
        return None

    @staticmethod
    def _cancelled_state(ids):
        sentence = salt.job_handler.report.SENTENCES["cancelled"]
        return {
            "state": "dispatched",
            "waiting": 0,
            "excluded": dict.fromkeys(salt.payload.loads(ids), sentence),
        }

    def _answer(self, request, job, state):
        """
        Remember what is answered to a request, for its second try.
        """
        if request.get("request") is not None:
            answer = {"jid": job.jid, "missing": []}
            if state:
                answer["job_handler"] = state
            self.store.answer(request["request"], answer, request["ids"])

    async def _cmd_status(self, request):
        return self.report.status(self.clock())

    async def _cmd_list(self, request):
        return {"jobs": self.report.jobs(self.clock(), request.get("limit"))}

    async def _cmd_show(self, request):
        return self.report.show(request["jid"], self.clock())

    async def _cmd_charges(self, request):
        return {"charges": self.report.charges(self.clock(), request.get("minion"))}

    async def _cmd_cancel(self, request):
        jid = request["jid"]
        # a wave of it may be on its way at this moment, and fail
        async with self._ahead():
            self._recall_unsent(jid)
            actions = self.manager.cancel(jid)
            for action in actions:
                await self._do(action)
            self.cancelled[jid] = None
            while len(self.cancelled) > CANCELLED:
                self.cancelled.popitem(last=False)
            self.store.put_snapshot("cancelled", list(self.cancelled))
        self._wake.set()
        return {"cancelled": sum(action.job.count for action in actions)}

    async def _cmd_pause(self, request):
        self.manager.paused = bool(request["paused"])
        self.store.put_snapshot("paused", self.manager.paused)
        self._wake.set()
        return {"paused": self.manager.paused}

    async def _cmd_reconcile(self, request):
        self.rounds.doubt(self.clock())
        return {"charges": len(self.criteria.ledger)}

    # ------------------------------------------------------------------
    # What the bus says
    # ------------------------------------------------------------------

    def returned(self, jid, minion):
        """
        A minion has returned a job.
        """
        if self.manager.returned(jid, minion, self.clock()):
            self._wake.set()

    def answered(self, jid, minion, answer):
        """
        A minion has answered a question of the maintenance.
        """
        self.rounds.answered(jid, minion, answer, self.clock())
        self._wake.set()

    def started(self, minion):
        """
        A minion has started.
        """
        if self.manager.started(minion, self.clock()):
            self._wake.set()
        self.rounds.forget(minion)

    def peer_published(self, jid, fun, minions):
        """
        Another master of the cluster has published a job. Its returns may come here.
        """
        if jid in self.open_jids or salt.job_handler.gate.exempt(self.section, fun):
            return
        job = salt.job_handler.job.Job(None, jid, fun, len(minions), minions)
        self.criteria.charge(job, minions, self.clock())

    def missed(self):
        """
        Events may have been missed.
        """
        self.rounds.doubt(self.clock())

    # ------------------------------------------------------------------
    # Doing what the manager says
    # ------------------------------------------------------------------

    async def _pump_forever(self):
        while True:
            await self._wake.wait()
            try:
                await self._pump()
            except Exception as exc:  # pylint: disable=broad-except
                log.exception("The job handler failed to publish")
                _end_if_damaged(exc)
                await asyncio.sleep(1)

    async def _pump(self, patience=None):
        """
        Do what is to be done now, or leave it to whoever is at it already if that
        takes longer than ``patience`` seconds.
        """
        try:
            await asyncio.wait_for(self._pump_lock.acquire(), patience)
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
                await self._do(action)
                if self._hurry:
                    self._wake.set()
                    break
        finally:
            self._pump_lock.release()

    @contextlib.asynccontextmanager
    async def _ahead(self):
        """
        Publish, or cancel, between two publications of the queue.
        """
        self._hurry += 1
        try:
            await self._pump_lock.acquire()
        finally:
            self._hurry -= 1
        try:
            yield
        finally:
            self._pump_lock.release()

    async def _do(self, action):
        """
        Carry out an action.
        """
        job = action.job
        if isinstance(action, salt.job_handler.manager.Discard):
            self.store.remove(job)
            self._heartbeats.pop(job.seq, None)
            self.report.discarded(action, self.clock())
            await self._fire(job, "discarded", self.report.discard(action))
            return
        if action.excluded:
            job.left_out.update(action.excluded)
            await self._fire(job, "excluded", {"excluded": action.excluded})
        load = whole = None
        if action.minions:
            load = whole = self.store.load_of(job)
            if not job.fixed:
                load = salt.job_handler.target.narrow(
                    whole,
                    action.minions,
                    action.excluded,
                    job.waves > 1 or not action.last,
                )
        now = self.clock()
        cost = self.criteria.cost(job) if load is not None else 0
        try:
            wave = self.store.dispatch(action, load, cost, now)
        except sqlite3.Error:
            # the disk may be full: what is not written down is not published
            log.exception("Job %s could not be written down, and waits", job.jid)
            self.manager.abort(action, now)
            return
        if load is not None:
            self.open_jids.add(job.jid)
            try:
                await self._publish(load)
            except Exception:  # pylint: disable=broad-except
                log.exception("Job %s could not be published", job.jid)
                self.manager.abort(action, now)
                self.store.failed(wave, f"again-{wave}-{self.master}", job, whole)
                return
            self._fly(wave, job.jid)
            self.report.dispatched(action, now)
        if action.last:
            self._heartbeats.pop(job.seq, None)
        if job.told or not action.last:
            await self._fire(
                job, "dispatched", self.report.progress(job, now, action.minions)
            )

    async def _publish(self, load):
        """
        Send a load on its way as ``ClearFuncs.publish`` would.
        """
        await self.event.fire_event_async(
            dict(load), salt.utils.event.tagify([load["jid"], "publish"], "job")
        )
        await asyncio.gather(
            *[channel.publish(dict(load)) for channel in self.channels]
        )

    async def _fire(self, job, kind, data):
        """
        Tell the event bus about a job.
        """
        try:
            await self.event.fire_event_async(
                {"jid": job.jid, "fun": job.fun, **data},
                salt.utils.event.tagify([job.jid, kind], "job"),
            )
        except Exception:  # pylint: disable=broad-except
            log.exception("The job handler could not fire an event")

    # ------------------------------------------------------------------
    # The tick
    # ------------------------------------------------------------------

    async def _tick_forever(self):
        while True:
            await asyncio.sleep(TICK_SECONDS)
            try:
                await self.tick()
            except Exception as exc:  # pylint: disable=broad-except
                log.exception("The job handler failed in its tick")
                _end_if_damaged(exc)

    async def tick(self):
        """
        Do what time alone brings: deadlines, maintenance, heartbeats.
        """
        now = self.clock()
        if self._unsent:
            await self._send_unsent()
        if self.manager.held_until is None:
            for question in self.rounds.tick(now):
                await self._ask(question, now)
        await self._pump()
        self._note_returns()
        self._settle()
        for name, until in list(self.pending.items()):
            if until <= now:
                del self.pending[name]
        await self._beat(now)
        if self.store.log_bytes() > salt.job_handler.store.LOG_BYTES:
            await self._checkpoint()

    async def _ask(self, question, now):
        """
        Publish a question of the maintenance. It does not go through the queue, which
        may be full of what the answer sets free.
        """
        jid = salt.utils.jid.gen_jid(self.opts)[:20] + salt.job_handler.QUESTION
        self.rounds.asked(jid, question, now)
        load = {
            "fun": question.fun,
            "arg": question.arg,
            "tgt": question.minions,
            "tgt_type": "list",
            "jid": jid,
            "ret": "",
            "user": self.opts["user"],
            # a minion that runs as many jobs as it may would have this wait in its own
            # queue, and look as if it was dead
            "__ignore_process_count_max": True,
        }
        if "master_id" in self.opts:
            load["master_id"] = self.opts["master_id"]
        await self._publish(load)

    def _note_returns(self):
        """
        Keep what has been given back, so that nobody is charged for it after a restart.
        """
        ledger = self.criteria.ledger
        settled, ledger.settled = ledger.settled, []
        settled = [charge for charge in settled if charge[0] in self.open_jids]
        if settled:
            try:
                self.store.returned(settled)
            except sqlite3.Error:
                # after a restart these minions are asked
                log.exception("What came back could not be written down")

    def _settle(self):
        """
        Forget the waves of which everything has come back.
        """
        now = self.clock()
        charged = self.criteria.ledger.jobs()
        waiting = {job.jid for job in self.manager.queue}
        landed = [
            wave
            for wave, (jid, until, owed) in self._flying.items()
            if until <= now or (owed and jid not in charged)
        ]
        for wave in landed:
            del self._flying[wave]
        if landed:
            self.store.sent(landed)
        waiting.update(jid for jid, _, _ in self._flying.values())
        done = [
            jid for jid in self.open_jids if jid not in charged and jid not in waiting
        ]
        if done:
            self.store.settled(done)
            self.open_jids.difference_update(done)

    async def _beat(self, now):
        """
        Tell the clients that wait for queued jobs that they do.
        """
        interval = self.report.heartbeat(len(self._heartbeats))
        for _ in range(min(len(self._heartbeats), HEARTBEATS)):
            seq, job = next(iter(self._heartbeats.items()))
            if job not in self.manager.queue:
                del self._heartbeats[seq]
                continue
            if now - job.beaten < interval:
                break
            job.beaten = now
            self._heartbeats.move_to_end(seq)
            await self._fire(job, "queued", self.report.progress(job, now))

    async def _collect(self):
        """
        Let the criteria module gather what it wants to know, in a thread.
        """
        loop = asyncio.get_running_loop()
        collected = await loop.run_in_executor(None, self.criteria.collect, self.opts)
        if collected is not None:
            self.criteria.learn(collected, self.clock())
            self._wake.set()

    async def _clean(self):
        self.store.clean()
        self.store.put_snapshot("criteria", self.criteria.snapshot())
        self.store.put_snapshot("silent", self.criteria.silent)
        self.store.put_snapshot("counters", dict(self.manager.counters))
        salt.job_handler.claims.clean(self.opts)
        await self._checkpoint()

    async def _checkpoint(self):
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self.store.checkpoint)

    async def _alive(self):
        salt.job_handler.ipc.alive(self.opts)
