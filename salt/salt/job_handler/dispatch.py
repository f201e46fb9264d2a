"""
Doing what the queue says: a wave is written down, published, and followed until nothing of
it is out any more. The only place that publishes.
"""

import asyncio
import collections
import heapq
import logging

import salt.channel.server
import salt.job_handler.client
import salt.utils.event
from salt.defaults import DEFAULT_TARGET_DELIM
from salt.job_handler.handover import is_fixed
from salt.job_handler.leases import UNKNOWN
from salt.job_handler.queue import CANCELLED, GONE, SENTENCES, Discard, Job
from salt.job_handler.store import UNAVAILABLE, TakenError
from salt.utils.channel import iter_transport_opts

log = logging.getLogger(__name__)

#: A wave on its way may be lost by a kill: it counts as sent after so many seconds.
FLIGHT_SECONDS = 3

#: How long a worker waits for the first decision on its job, in seconds.
PATIENCE_SECONDS = 0.5

#: How long minions take to find a master that was restarted, by the defaults of the
#: settings ``recon_*``, or the next leader of a cluster.
RECONNECT_SECONDS = (30, 3)

#: Waves that are older are not sent again: minions that were restarted would not
#: recognise the job.
RESEND_SECONDS = 60

#: So many callers are looked after in each step, and told every so many seconds.
CALLERS = 500
CALLER_SECONDS = 20

#: An event names at most so many minions: the bus trims what is too large.
NAMED = 5000

#: So many characters a target has at most, if it names who does not get the job.
EXCLUDED = 100000


def narrow(load, minions, excluded=()):
    """
    Return a copy of the load for these minions of a job only: as a list, or without the
    ``excluded`` where that is shorter, as the bus has no room for long lists.
    """
    whole = (load["tgt"], load.get("tgt_type", "glob")) == ("*", "glob")
    length = sum(map(len, excluded))
    if excluded and whole and length < min(EXCLUDED, sum(map(len, minions))):
        if not any(set(" \t\r\n(),") & set(minion) for minion in excluded):
            tgt = "* and not L@{}".format(",".join(sorted(excluded)))
            return {**load, "tgt": tgt, "tgt_type": "compound"}
    ret = {**load, "tgt": list(minions), "tgt_type": "list"}
    if ret.get("delimiter", DEFAULT_TARGET_DELIM) == DEFAULT_TARGET_DELIM:
        ret.pop("delimiter", None)
    return ret


def _parts(reasons):
    items = list(reasons.items())
    return [dict(items[at : at + NAMED]) for at in range(0, len(items), NAMED)]


class Bus:
    """The event bus and the publisher of the master."""

    def __init__(self, opts):
        self.opts = opts
        self.event = None
        self.channels = []

    async def connect(self):
        """Connect to both."""
        self.event = salt.utils.event.get_master_event(
            self.opts,
            self.opts["sock_dir"],
            listen=False,
            io_loop=asyncio.get_running_loop(),
        )
        for _, opts in iter_transport_opts(self.opts):
            self.channels.append(salt.channel.server.PubServerChannel.factory(opts))

    async def publish(self, load, minions=None):
        """Publish a load as ``ClearFuncs.publish`` would."""
        loads, more = [load], {}
        if self.opts.get("cluster_id"):
            if isinstance(load["tgt"], list):
                # the other masters publish what the event says
                loads = [
                    {**load, "tgt": load["tgt"][at : at + NAMED]}
                    for at in range(0, len(load["tgt"]), NAMED)
                ]
            elif minions is not None:
                more = {"minions": minions}
        for each in loads:
            tag = salt.utils.event.tagify([load["jid"], "publish"], "job")
            await self.event.fire_event_async({**each, **more}, tag)
            await asyncio.gather(
                *[channel.publish(dict(each)) for channel in self.channels]
            )

    async def fire(self, job, kind, data):
        """Fire the event ``salt/job/<jid>/<kind>``."""
        try:
            await self.event.fire_event_async(
                {"jid": job.jid, "fun": job.fun, "ticket": job.ticket, **data},
                salt.utils.event.tagify([job.jid, kind], "job"),
            )
        except Exception:  # pylint: disable=broad-except
            log.exception("The job handler could not fire an event")


class Dispatcher:
    """Writes down, publishes and follows what the queue says."""

    def __init__(self, opts, bus, queue, store, report, clock):
        self.opts = opts
        self.bus = bus
        self.queue = queue
        self.leases = queue.leases
        self.store = store
        self.report = report
        self.clock = clock
        #: when the minions of a restarted master have found it
        self.connected_at = 0
        self.lock = asyncio.Lock()
        self._wake = asyncio.Event()
        #: say that there may be something to do
        self.wake = self._wake.set
        self._pumping = None
        # {wave: (its job, when it was published)} of those that may not have been sent
        self._flying = {}
        #: waves to publish again after a restart, as Store.waves has them
        self.unsent = []
        self.resend_seconds = RESEND_SECONDS

    # After a restart

    def recover(self, wait):
        """
        Take over what is in the store; it waits for so many seconds for its minions.
        """
        now = self.clock()
        # for as long as it waits itself, what may not have been sent does not grow old
        self.resend_seconds = RESEND_SECONDS + wait
        sent = collections.Counter()
        for row, known in self.store.waves():
            wave, seq, jid, cost, at, is_sent, _, minions, held = row
            cost = int(cost) if cost == int(cost) else cost
            fun, user = known or ("", "")
            job = Job(seq, jid, fun, user=user, minions=minions)
            if known is not None:
                self.queue.adopt(job)
            self.leases.take(jid, held, cost, now, at, job.name)
            sent[seq] += len(minions)
            if not is_sent:
                self._flying[wave] = jid, float("inf")
                self.unsent.append(row)
        self.store.keep_lead()
        self._write_progress(now)
        self.take_direct()
        # returns may have come while nobody listened
        self.leases.doubt()
        self.store.keep_lead()
        if wait:
            self.store.put_meta("connected_at", now + wait)
        self.connected_at = min(
            self.store.get_meta("connected_at", 0), now + max(RECONNECT_SECONDS)
        )
        for row in self.store.jobs("queued"):
            job = self._job(row)
            job.not_before = self.connected_at
            # its caller knows that it waits
            job.notified, job.told = True, now
            job.sent = sent[job.seq]
            self.queue.put(job)

    def take_direct(self):
        """Give leases to the minions of jobs that workers have published themselves."""
        for row in self.store.jobs("direct"):
            job = self._job(row)
            minions = job.minions = self.store.ids_of(job.seq)
            self.queue.adopt(job)
            wave, _ = self.store.wave(job, minions, {}, (), True, "direct")
            self.leases.take(job.jid, minions, job.cost, self.clock(), fun=job.name)
            self._flying[wave] = job.jid, self.clock()
            if job.worker and not salt.job_handler.client.runs(job.worker):
                # it may have been killed before it published the job
                self._flying[wave] = job.jid, float("inf")
                row = (wave, job.seq, job.jid, job.cost, job.queued, False, True)
                self.unsent.append((*row, minions, minions))

    async def _publish_unsent(self):
        while self.unsent:
            now = self.clock()
            wave, seq, jid, _, at, _, whole, minions, _ = self.unsent[0]
            owing = [name for name in minions if self.leases.has(jid, name)]
            why = None
            if now - at > self.resend_seconds:
                why = f"that was {now - at:.0f} s ago"
            elif UNKNOWN not in minions and is_fixed(self.opts, minions):
                why = "minions with resources could run it twice"
            elif owing and (self.queue.is_stopped(now) or now < self.connected_at):
                return
            load = None
            if owing and why:
                log.warning(
                    "Job %s may not have been sent to %s when the job handler ended. It"
                    " is not sent again, as %s",
                    jid,
                    ", ".join(owing),
                    why,
                )
            elif owing:
                # a transaction makes sure that this master still leads
                with self.store.writing():
                    load = self.store.load_of(seq)
            if load is not None:
                if not whole or len(owing) < len(minions):
                    load = narrow(load, owing)
                log.info("Publishing job %s, which may not have been sent", jid)
                if not await self._published(jid, load, owing):
                    self.queue.hold(self.clock())
                    return
                self.leases.sent(jid, owing, self.clock())
            self._land(wave, jid)

    def _land(self, wave, jid):
        """A wave has been published, or will not be again."""
        self._flying[wave] = jid, self.clock()
        self.unsent = [row for row in self.unsent if row[0] != wave]

    async def _published(self, jid, load, minions):
        try:
            await self.bus.publish(load, minions)
        except Exception:  # pylint: disable=broad-except
            log.exception("Job %s could not be published, and is tried again", jid)
            return False
        return True

    # Jobs come

    def _job(self, row):
        seq, jid, user, size, at, count, waves, info, order = row
        timeout = info.pop("timeout")
        if timeout is not None:
            # there is time for a first decision
            info["deadline"] = at + max(1, timeout)
        job = Job(
            seq, jid, count=count, user=user, size=size, queued=at, waves=waves, **info
        )
        job.ordered, job.held, job.cancelled = order[0], *map(bool, order[1:])
        return job

    def take_over(self, seqs):
        """
        Put the jobs with these numbers, unless known, into the queue; return them.
        """
        jobs = []
        for seq in sorted(seq for seq in seqs if self.queue.get(seq) is None):
            for row in self.store.jobs("queued", seq):
                if self.store.shared:
                    # the clock of that master may be late, as its machine stood still
                    row = (*row[:4], self.clock(), *row[5:])
                job = self._job(row)
                jobs.append(job)
                self.report.counters["submitted"] += 1
                if not job.sync:
                    # a caller that waits prefers the answers of those who have connected
                    job.not_before = self.connected_at
                self.queue.put(job)
        return jobs

    async def submitted(self, seq, jid):
        """Return how far a job is that a worker has handed over."""
        self.take_over([seq])
        job = self.queue.get(seq)
        if job is not None and job.forced and not job.cancelled:
            async with self.lock:
                if job in self.queue:
                    await self.do(self.queue.force(job))
        elif job is not None:
            begin = self.clock()
            pumping = asyncio.ensure_future(self.pump())
            await asyncio.wait([pumping], timeout=PATIENCE_SECONDS)
            if pumping.done():
                pumping.result()
            late = self.clock() - begin >= PATIENCE_SECONDS
            # what was discarded still has a count
            if late and not (job in self.queue or job.count or job.notified):
                # its worker has told the caller meanwhile that it waits
                await self.bus.fire(job, "dispatched", self.report.progress(job))
        # others may have published with this job id before
        since = 0 if job is None else job.queued
        state, left_out = {}, self.store.left_out(jid, since)
        if job is not None and job in self.queue:
            await self._notify(job)
            progress = self.report.progress(job)
            state = {**progress, "state": "queued", "ticket": job.ticket}
        elif left_out:
            state = {"publication": seq, "waiting": 0, "state": "dispatched"}
        if left_out:
            state["excluded"] = left_out
        return {"job_handler": state}

    async def _notify(self, job):
        if not job.notified:
            job.notified, job.told = True, self.clock()
            log.info("Job %s waits: %s", job.jid, self.report.reason(job))
            await self.bus.fire(job, "queued", self.report.progress(job))

    # Publishing

    async def run(self):
        """Publish for ever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self.pump()
            except UNAVAILABLE:
                log.exception("The job handler's queue can't be read or written")
                self.queue.hold(self.clock())
                await asyncio.sleep(1)

    def pump(self):
        """Do what is to be done now, and return the task that does so."""
        if self._pumping is None or self._pumping.done():
            self._pumping = asyncio.ensure_future(self._pump())
        return self._pumping

    async def _pump(self):
        while True:
            # others have their turn after each action, and each has a time of its own
            async with self.lock:
                await self._publish_unsent()
                action = self.queue.advance(self.clock())
                if action is not None:
                    await self.do(action)
                elif not self.queue.more:
                    return
            await asyncio.sleep(0)

    async def do(self, action):
        """
        Carry out an action, and return whether that worked; if not, the job waits.
        """
        if isinstance(action, Discard):
            return await self._discard(action)
        job, minions, excluded = action.job, action.minions, action.excluded
        once = not (action.rest or job.waves)
        whole = job.fixed or (once and not excluded)
        row = self._write(action, "wave", job, minions, excluded, action.rest, whole)
        if not row:
            return False
        wave, load = row
        self.report.counters["excluded"] += len(excluded)
        if minions:
            self.report.counters["waves"] += 1
            self._flying[wave] = job.jid, float("inf")
        for part in _parts(excluded):
            await self.bus.fire(job, "excluded", {"excluded": part})
        if minions:
            if not whole:
                load = narrow(load, minions, excluded if once else ())
            if not await self._published(job.jid, load, minions):
                return await self._failed(action, wave, whole)
            self._land(wave, job.jid)
        if not action.rest:
            self.report.count("dispatched", job, self.clock())
        if job.notified or action.rest:
            await self.bus.fire(job, "dispatched", self.report.progress(job))
        return True

    def _write(self, action, name, *args):
        """
        Write an action down, let it hold, and return what the store says; False if that
        did not work.
        """
        job = action.job
        try:
            ret = getattr(self.store, name)(*args)
        except TakenError as exc:
            log.info("%s", exc)
            # a step may have been faster
            if job in self.queue:
                self.queue.remove(job)
            return False
        except UNAVAILABLE:
            # the disk may be full: what is not written down is not published
            log.exception("Job %s could not be written down, and waits", job.jid)
            self.queue.hold(self.clock())
            return False
        self.queue.done(action, self.clock())
        return ret

    async def _failed(self, action, wave, whole):
        job = action.job
        try:
            self.store.failed(wave, job.seq, *self.queue.without(action))
        except UNAVAILABLE:
            log.exception("Job %s is published as after a restart", job.jid)
            # it is known not to have been sent, so it does not grow old
            row = (wave, job.seq, job.jid, job.cost, float("inf"), False, whole)
            self.unsent.append((*row, action.minions, action.minions))
            self.queue.hold(self.clock())
            return True
        del self._flying[wave]
        self.report.counters["waves"] -= 1
        self.queue.undo(action, self.clock())
        for row in self.store.jobs("queued", job.seq):
            # an order may have come meanwhile
            self.queue.order(job.jid, *row[-1])
        await self._notify(job)
        return False

    async def _discard(self, action):
        job = action.job
        if job.minions is None:
            job.minions = self.store.ids_of(job.seq)
        sentence = SENTENCES.get(action.reason, job.reason)
        cancelled = action.reason == CANCELLED
        state = "cancelled" if cancelled else "discarded"
        left_out = dict.fromkeys(job.minions, sentence)
        row = job.seq, job.jid, state, sentence, left_out
        if not self._write(action, "finish", *row):
            return False
        self.report.count(action.reason, job, self.clock())
        data = self.report.progress(job)
        data.update(reason=action.reason, sentence=sentence)
        for part in _parts(left_out) or [{}]:
            await self.bus.fire(job, "discarded", {**data, "targets": list(part)})
        return True

    async def cancel(self, jid, minions):
        """Cancel a job, or a set of its minions; return how many do not get it."""
        count = 0
        async with self.lock:
            self.take_over(self.store.values("seq", "queued"))
            if minions is None:
                # from here on it is not published, even if the rest has to wait
                self.order(jid, None, None, True)
                for wave in [row[0] for row in self.unsent if row[2] == jid]:
                    self._land(wave, jid)
            for action in self.queue.cancel(jid, minions):
                whole = isinstance(action, Discard)
                gone = action.job.count if whole else len(action.excluded)
                # one that is cancelled is taken out later
                if await self.do(action) or (whole and action.job in self.queue):
                    count += gone
                elif action.job in self.queue:
                    raise OSError("the job can't be taken out, see the master's log")
        self.wake()
        return count

    # From time to time

    async def tick(self):
        """Write down what has ended, and look after callers."""
        now = self.clock()
        if self.store.replaced():
            raise SystemExit("The database of the job handler was replaced")
        waiting = self.store.values("seq", "queued")
        new = self.take_over(waiting)
        # not later: others are handed over meanwhile
        for job in set(self.queue).difference(map(self.queue.get, waiting)):
            # a worker has published it
            self.queue.remove(job)
        for job in new:
            if job in self.queue:
                await self._notify(job)
                self.wake()
        self.take_direct()
        for action in self.queue.overdue(now):
            async with self.lock:
                if action.job in self.queue and not await self.do(action):
                    break
        self._write_progress(now)
        await self._look_after_callers(now)

    def _write_progress(self, now):
        old = now - FLIGHT_SECONDS
        sent = [wave for wave, (_, at) in self._flying.items() if at < old]
        busy = {jid for jid, at in self._flying.values() if at >= old}
        out = self.store.jids_out()
        done = out.difference(self.leases.jobs, busy)
        ended = [lease for lease in self.leases.ended if lease[0] in out]
        if sent or ended or done:
            # if this fails it is done the next time; after a restart minions are asked
            self.store.progress(sent, ended, done)
        self.leases.ended.clear()
        for wave in sent:
            del self._flying[wave]

    async def _look_after_callers(self, now):
        callers = [job for job in self.queue if job.sync and job.notified]
        for job in heapq.nsmallest(CALLERS, callers, key=lambda job: job.looked):
            job.looked = now
            if job.caller is not None and not salt.job_handler.client.runs(job.caller):
                async with self.lock:
                    if job in self.queue:
                        await self.do(Discard(job, GONE))
            # not just before it is discarded: rest_tornado hears one event at a time
            elif now - job.told >= CALLER_SECONDS and job.deadline > now + 1:
                job.told = now
                await self.bus.fire(job, "queued", self.report.progress(job))

    def order(self, jid, *order):
        """
        Order a job, see :meth:`Store.order`; return for how many minions it waits.
        """
        self.store.order(jid, *order)
        self.wake()
        return self.queue.order(jid, *order)

    def recover_orders(self):
        """Take over which jobs administrators have paused."""
        rules, kept = self.queue.rules, self.store.get_meta("pauses") or {}
        rules.keep = lambda pauses: self.store.put_meta("pauses", {"rules": pauses})
        rules.pauses = kept.pop("rules", [])
        if kept:
            # an earlier version has written down more
            if kept.get("until") is not None:
                rules.pauses.append({"until": kept["until"], "action": "pause"})
            with self.store.writing():
                for jid, order in kept["orders"]:
                    self.store.order(jid, *order)
                rules.keep(rules.pauses)
        rules.refresh()

    async def resolve_rules(self):
        """Look up the minions of the rules' targets, in a thread."""
        rules = self.queue.rules
        if rules.targets:
            loop = asyncio.get_running_loop()
            rules.learn(await loop.run_in_executor(None, rules.resolve, self.opts))
            self.wake()
