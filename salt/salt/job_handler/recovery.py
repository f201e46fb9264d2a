"""
Taking over what the last job handler left in the journal: charges, waves that it may not
have published any more, and the jobs that wait.
"""

import logging

import salt.job_handler.claims
import salt.job_handler.job
import salt.job_handler.target
import salt.job_handler.waves

log = logging.getLogger(__name__)

#: After a restart of the master its minions have to find it again. What is published
#: before is lost for them. With the defaults of ``recon_default``, ``recon_max`` and
#: ``recon_randomize``, one that tried just before the master was there waits for 11
#: seconds, and for up to 11 more at random. Then it signs in.
RECONNECT_SECONDS = 30

#: A wave is sent again only if at most so many went out after it. Minions remember the
#: job ids of the last ``minion_jid_queue_hwm`` jobs, 100 by default, and not all of these
#: come out of the queue.
REMEMBERED = 50


def _unknown(jid, minions):
    """
    Say who may not have got a job.
    """
    log.warning(
        "Job %s may have been sent to %s when the job handler ended. It is not sent again,"
        " as they might not know it any more",
        jid,
        ", ".join(sorted(minions)),
    )


class Recovery:
    """
    :param Dispatcher dispatcher: publishes, and knows the queue and the journal
    :param Maintenance maintenance: checks charges
    """

    def __init__(self, dispatcher, maintenance):
        self.dispatcher = dispatcher
        self.maintenance = maintenance
        self.opts = dispatcher.opts
        self.clock = dispatcher.clock
        self.journal = dispatcher.journal
        self.manager = dispatcher.manager
        self.criteria = dispatcher.manager.criteria
        maintenance.on_start = self.started
        # when the minions of a restarted master have found it
        self.connected_at = 0

    async def run(self):
        """
        Take everything over.
        """
        now = self.clock()
        self._recover_waves(now)
        snapshot = self.journal.get_snapshot("criteria")
        if snapshot is not None:
            self.manager.judge.restore(snapshot, now)
        # whether this is another job handler of the same master
        last = self.journal.get_snapshot("master")
        if last == self.dispatcher.master:
            # minions come back to a master that is started again
            self.criteria.silent.update(self.journal.get_snapshot("silent") or {})
        # returns may have come while nobody listened
        self.maintenance.missed()
        self.criteria.ledger.settled = []
        orders = self.journal.get_snapshot("orders")
        if orders is not None:
            self.manager.orders.restore(orders)
        forced = self._recover_jobs(now)
        # jobs that are taken over were counted before
        self.manager.counters.clear()
        self.manager.counters.update(self.journal.get_snapshot("counters") or {})
        if last not in (None, self.dispatcher.master):
            self.journal.put_snapshot("connected_at", now + RECONNECT_SECONDS)
        self.journal.put_snapshot("master", self.dispatcher.master)
        self.connected_at = min(
            self.journal.get_snapshot("connected_at") or 0, now + RECONNECT_SECONDS
        )
        if self.dispatcher.unsent or len(self.manager.queue):
            self.wait_for_minions(now)
        for job in forced:
            await self.dispatcher.do(self.manager.force(job, now))
        await self.send_unsent()
        self.dispatcher.wake()

    def _recover_waves(self, now):
        """
        Charge what is still owed, and find out what may not have been sent.
        """
        for wave, seq, jid, cost, since, minions, owing, load in self.journal.waves():
            # the clock may have been set back
            since = min(since, now)
            self.criteria.ledger.charge(jid, owing, cost, since)
            self.dispatcher.open_jids.add(jid)
            if load is None:
                continue
            if not owing:
                self.journal.sent([wave])
            elif not self._recognised(wave, minions):
                _unknown(jid, owing)
                self.journal.sent([wave])
            else:
                # who has answered does not get it again
                back = self.dispatcher.back.setdefault(jid, set())
                back.update(set(minions).difference(owing))
                self.dispatcher.unsent[wave] = salt.job_handler.waves.Unsent(
                    seq, since, minions, load
                )

    def _recover_jobs(self, now):
        """
        Put the jobs that wait back into the queue.

        :return: the jobs that are to be published at once
        """
        forced = []
        for submission, job in self.journal.jobs():
            if not salt.job_handler.claims.claim(
                self.opts, submission, salt.job_handler.claims.HANDLER
            ):
                log.info("Job %s was published by a worker meanwhile", job.jid)
                self.journal.remove(job)
            elif job.forced:
                job.minions = self.journal.minions_of(job)
                forced.append(job)
            else:
                # who waits has been told so by the last job handler
                job.told = True
                self._set_back(job, now)
                self.manager.submit(job)
                self.dispatcher.followers.follow(job)
        return forced

    def _recognised(self, wave, minions):
        """
        Return whether minions that get a wave a second time surely drop it. Those that
        manage resources never do.
        """
        if self.journal.waves_since(wave) > REMEMBERED:
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

    def wait_for_minions(self, now):
        """
        Hold jobs back if a restarted master does not have its minions yet.
        """
        if now < self.connected_at and self.manager.held_until != self.connected_at:
            self.manager.held_until = self.connected_at
            log.info("Jobs wait %d s for minions to connect", self.connected_at - now)

    async def send_unsent(self):
        """
        Publish what may not have been published. Minions drop what they have got already.
        """
        unsent, manager = self.dispatcher.unsent, self.manager
        if not unsent or (
            manager.held_until is not None and self.clock() < manager.held_until
        ):
            return
        async with self.dispatcher.lock:
            for wave in list(unsent):
                load = self._load(wave)
                if load is None:
                    self.journal.sent([wave])
                else:
                    log.info(
                        "Publishing job %s, which may not have been sent", load["jid"]
                    )
                    try:
                        await self.dispatcher.bus.publish(load)
                    except Exception:  # pylint: disable=broad-except
                        log.exception("Job %s could not be published", load["jid"])
                        manager.hold(self.clock())
                        return
                self._sent(wave)

    def _owing(self, wave):
        """
        Return the minions of a wave that have not returned it meanwhile.
        """
        unsent = self.dispatcher.unsent[wave]
        back = self.dispatcher.back[unsent.load["jid"]]
        return [minion for minion in unsent.minions if minion not in back]

    def _load(self, wave):
        """
        Return what is to be published of a wave, or None for nothing.
        """
        unsent, owing = self.dispatcher.unsent[wave], self._owing(wave)
        if not owing:
            return None
        if not self._recognised(wave, unsent.minions):
            _unknown(unsent.load["jid"], owing)
            return None
        if len(owing) < len(unsent.minions) and not salt.job_handler.target.is_fixed(
            self.opts, unsent.minions
        ):
            return salt.job_handler.target.narrow(unsent.load, owing, [], True)
        return unsent.load

    def _sent(self, wave):
        """
        A wave has been published, or does not have to be.
        """
        jid, now = self.dispatcher.unsent[wave].load["jid"], self.clock()
        for minion in self._owing(wave):
            self.criteria.ledger.renew(jid, minion, now, begins=True)
        self.dispatcher.fly(wave, jid)
        self._forget(wave, jid)

    def _forget(self, wave, jid):
        unsent = self.dispatcher.unsent
        del unsent[wave]
        if not any(other.load["jid"] == jid for other in unsent.values()):
            del self.dispatcher.back[jid]

    def started(self, minion):
        """
        A minion has started, and would not recognise what it has got before.
        """
        for jid, back in self.dispatcher.back.items():
            if minion not in back and any(
                minion in unsent.minions
                for unsent in self.dispatcher.unsent.values()
                if unsent.load["jid"] == jid
            ):
                _unknown(jid, [minion])
                back.add(minion)

    def recall(self, jid):
        """
        Put the minions of a job's waves that may not have been sent back into the queue.
        """
        now = self.clock()
        for wave, (seq, since, _, load) in list(self.dispatcher.unsent.items()):
            if load["jid"] != jid:
                continue
            minions = self._owing(wave)
            if not minions:
                # the next tick finds that out
                continue
            job = self.manager.queue.get(seq)
            if job is None:
                job = salt.job_handler.job.Job(
                    seq, jid, load["fun"], 0, [], load.get("user", ""), queued=since
                )
                job.fixed = salt.job_handler.target.is_fixed(self.opts, minions)
                job.waves = 1
            else:
                load = self.journal.load_of(job)
                job.minions = job.minions or self.journal.minions_of(job)
            waiting = sorted([*job.minions, *minions])
            again = self.dispatcher.again(wave)
            self.journal.failed(wave, again, job, load, waiting)
            self._forget(wave, jid)
            self.manager.take_back(job, minions, now)
            if job not in self.manager.queue:
                self.manager.admit(job, first=True)
