"""
How jobs come into the queue: a worker of the master asks for a place, and hands the job
over when it has a job id.
"""

import asyncio
import collections
import logging
import sqlite3

import salt.job_handler.caller
import salt.job_handler.claims
import salt.job_handler.job
import salt.job_handler.left_out
import salt.job_handler.places
import salt.job_handler.vocabulary as vocabulary
import salt.payload

log = logging.getLogger(__name__)

#: How long a submission waits for what others have set in motion.
PATIENCE_SECONDS = 0.25

#: So many job ids that were cancelled are remembered.
CANCELLED = 1000


class Submissions:
    """
    :param Dispatcher dispatcher: publishes, and knows the queue and the journal
    :param Recovery recovery: knows whether minions have come back
    :param Report report: finds the words
    """

    def __init__(self, dispatcher, recovery, report):
        self.dispatcher = dispatcher
        self.recovery = recovery
        self.report = report
        self.opts = dispatcher.opts
        self.clock = dispatcher.clock
        self.journal = dispatcher.journal
        self.manager = dispatcher.manager
        # idempotency keys with a place in the queue but no job id yet, and until when
        self._pending = {}
        # job ids that somebody has cancelled: a batch publishes more than once
        self._cancelled = collections.OrderedDict()

    def recover(self):
        """
        Take over what the last job handler knew.
        """
        jids = self.journal.get_snapshot("cancelled") or []
        self._cancelled.update(dict.fromkeys(jids))

    def forbid(self, jid):
        """
        Take no more parts of a batch.
        """
        self._cancelled[jid] = None
        while len(self._cancelled) > CANCELLED:
            self._cancelled.popitem(last=False)
        self.journal.put_snapshot("cancelled", list(self._cancelled))

    def tick(self, now):
        """
        Forget the requests whose worker has not come back.
        """
        for key, until in list(self._pending.items()):
            if until <= now:
                del self._pending[key]

    async def reserve(self, request):
        """
        Keep a place in the queue, or say how the same request was answered.
        """
        now = self.clock()
        key = request.get("idempotency_key")
        if key is not None:
            answer = self.journal.answered(key)
            if answer is not None:
                return {
                    "state": vocabulary.ANSWERED,
                    "answer": self._renewed(answer, now),
                }
            if self._pending.get(key, now) > now:
                return {"state": vocabulary.TWIN}
        full = self.manager.reserve(request["submission"], now, request.get("size", 0))
        if full is not None:
            return self.report.full(full, now)
        if key is not None:
            self._pending[key] = now + salt.job_handler.places.RESERVED_SECONDS
        return {"state": vocabulary.RESERVED}

    def _renewed(self, answer, now):
        """
        Return the answer to a request that comes again, as things are now.
        """
        state = answer.pop("job_handler", None)
        waiting = self.manager.queue.of_jid(answer["jid"])
        if waiting:
            answer["job_handler"] = self.report.state(waiting[0], now)
        elif state and state.get("excluded"):
            answer["job_handler"] = self.report.excluded(state["excluded"])
        return answer

    async def submit(self, request):
        """
        Take a job over.
        """
        try:
            return await self._submit(request)
        finally:
            # a second try finds an answer now
            self._pending.pop(request.get("idempotency_key"), None)
            self.manager.places.unreserve(request["submission"])

    async def _submit(self, request):
        now = self.clock()
        job, ids = self._job(request, now)
        if job.jid in self._cancelled:
            # another part of a batch
            sentence = vocabulary.SENTENCES[vocabulary.CANCELLED]
            excluded = dict.fromkeys(salt.payload.loads(ids), sentence)
            salt.job_handler.left_out.add(self.journal.db, job.jid, excluded, now)
            return {
                "state": vocabulary.ACCEPTED,
                "job_handler": self.report.excluded(excluded),
            }
        refusal = self._keep(request, job, ids)
        if refusal is not None:
            return refusal
        if job.forced:
            job.minions = self.journal.minions_of(job)
            async with self.dispatcher.ahead():
                await self.dispatcher.do(self.manager.force(job, now))
        else:
            if not job.sync:
                # who waits for a synchronous job rather has the answers that there are
                self.recovery.wait_for_minions(now)
            self.manager.submit(job, request["submission"])
            await self.dispatcher.pump(PATIENCE_SECONDS)
        return await self._accepted(request, job)

    @staticmethod
    def _job(request, now):
        """
        Return the job that is handed over, and the ids of its minions as they are kept.
        """
        load, timeout, ids = request["load"], request["timeout"], request["ids"]
        caller = request.get("caller")
        if caller is not None and not salt.job_handler.caller.runs(caller):
            # it can't be seen from here: it is in a container of its own
            caller = None
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
            ticket=request["submission"],
            caller=caller,
        )
        if job.fixed and not job.count:
            # a master of masters that knows none of the targets: count the job itself
            job.count = 1
            ids = salt.payload.dumps([vocabulary.UNKNOWN], use_bin_type=True)
        return job, ids

    def _keep(self, request, job, ids):
        """
        Write a job down and claim it.

        :return: the reply if there is nothing to publish, or None
        """
        submission = request["submission"]
        try:
            if not self.journal.add(submission, job, ids, request["load"]):
                return {"state": vocabulary.KNOWN}
            try:
                mine = salt.job_handler.claims.claim(
                    self.opts, submission, salt.job_handler.claims.HANDLER
                )
                if mine:
                    self._answer(request, job, {})
            except (OSError, sqlite3.OperationalError):
                self.journal.remove(job)
                raise
        except (OSError, sqlite3.OperationalError) as exc:
            log.exception("Job %s can't be written down", job.jid)
            return {"state": vocabulary.UNKEPT, "reason": str(exc)}
        if not mine:
            # the worker did not wait for this, and has published the job
            self.journal.remove(job)
            salt.job_handler.claims.drop(self.opts, submission)
            return {"state": vocabulary.LATE}
        asyncio.get_running_loop().call_later(
            2 * salt.job_handler.places.RESERVED_SECONDS,
            salt.job_handler.claims.drop,
            self.opts,
            submission,
        )
        return None

    async def _accepted(self, request, job):
        """
        Return what to say of a job that was taken, as far as it got at once.
        """
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
            await self.dispatcher.bus.tell(
                job, vocabulary.QUEUED, self.report.progress(job, self.clock())
            )
            self.dispatcher.followers.follow(job)
        return {"state": vocabulary.ACCEPTED, "job_handler": reply}

    def _answer(self, request, job, state):
        """
        Remember what is answered to a request, for its second try.
        """
        if request.get("idempotency_key") is not None:
            answer = {"jid": job.jid, "missing": []}
            if state:
                answer["job_handler"] = state
            self.journal.answer(request["idempotency_key"], answer, request["ids"])
