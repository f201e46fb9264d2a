"""
The queue manager: a state machine that says what is published when.

It does no I/O and has no clock of its own. Events go in as method calls that bring
the time along, and :meth:`QueueManager.advance` gives out what is to be done, one
action after the other. Times are seconds of any clock that never goes back.
"""

import salt.job_handler.judge
import salt.job_handler.orders
import salt.job_handler.parked
import salt.job_handler.places
import salt.job_handler.queue
from salt.job_handler.endings import Discard, Dispatch, Endings
from salt.job_handler.vocabulary import UNKNOWN

__all__ = ("Discard", "Dispatch", "QueueManager")

#: How long nothing is published after a publication has failed, in seconds.
HOLD_SECONDS = 1

#: So many jobs of the queue may go before one that waits.
BESIDE = 100


class QueueManager(Endings):
    """
    :param Criteria criteria: decides
    :param int max_queue_size: how many jobs may wait
    :param str fail_mode: see :class:`salt.job_handler.judge.Judge`, as for ``clock`` and
        ``work``
    :param callable minions_of: returns the ids of the minions that a job still waits
        for. They are asked for when the job's turn comes, so that a long queue does
        not hold the ids of the fleet once for each job
    :param float max_queue_age: for how many seconds a job may wait, or None
    :param int max_queue_bytes: what the jobs that wait may take, or None
    """

    def __init__(
        self,
        criteria,
        max_queue_size,
        fail_mode,
        clock,
        minions_of=None,
        work=None,
        max_queue_age=None,
        max_queue_bytes=None,
    ):
        queue = salt.job_handler.queue.JobQueue()
        super().__init__(
            queue,
            salt.job_handler.places.Places(queue, max_queue_size, max_queue_bytes),
            minions_of or (lambda job: job.minions),
            max_queue_age,
        )
        self.criteria = criteria
        self.max_queue_size = max_queue_size
        self.orders = salt.job_handler.orders.Orders(self.queue)
        #: whether :meth:`advance` has ended because it had looked at many jobs
        self.more = False
        #: nothing is published before this
        self.held_until = None
        self.judge = salt.job_handler.judge.Judge(
            criteria, fail_mode, self.counters, clock, work
        )

    def reserve(self, submission, now, size=0):
        """
        Keep a place in the queue for a job that is about to be submitted.

        :param int size: how many bytes it takes
        :return: the sentence that says why there is none, or None
        """
        full = self.places.reserve(submission, now, size)
        self.counters["rejected"] += bool(full)
        return full

    def submit(self, job, submission=None):
        """
        Add a job to the queue. Its turn comes with :meth:`advance`.
        """
        self.places.unreserve(submission)
        self.counters["submitted"] += 1
        self.admit(job)

    def admit(self, job, first=False):
        """
        Put a job into the queue, as the last or the first one of its flow.
        """
        if self.max_queue_age is not None:
            oldest = job.queued + self.max_queue_age
            job.deadline = min(oldest, job.deadline or oldest)
        job.priority, job.held = self.orders.of(job.jid)
        self.queue.put(job, self.judge.flow(job), first)

    def advance(self, now):
        """
        Give out the next actions, as a generator. An action holds from the moment it
        is given out; take it back with :meth:`abort` when it can't be done. Whoever
        takes longer for an action asks anew after each, with the time that it is then.
        """
        yield from self.expired(now)
        if self.held_until is not None and now >= self.held_until:
            self.held_until = None
        ledger = self.criteria.ledger
        news, ledger.news = ledger.news, set()
        self.queue.unpark(news, now)
        looks = salt.job_handler.parked.BURST
        self.more = False
        while not self.orders.pausing(now) and self.held_until is None:
            heads = self.queue.heads()
            self.more = bool(heads) and looks <= 0
            if not heads or self.more:
                return
            job = self.judge.choose(heads, now)
            looks -= salt.job_handler.parked.EACH + job.count
            decision = self._decide(job, now)
            if decision is None and not job.parked:
                job, decision = self._beside(job, now)
                if decision is None:
                    return
            if decision is not None:
                yield self._dispatch(job, decision, now)

    def _decide(self, job, now):
        """
        Return the decision to publish a job, or None if it has to wait, parked or not.
        """
        if job.minions is None:
            job.minions = self.minions_of(job)
        decision = self.judge.decide(job, now)
        if decision is not None and decision.minions is None:
            if decision.parked:
                self.queue.park(job, job.minions if decision.own else None)
                if not job.waves and job.ref is not None:
                    # they are kept, and many may be parked
                    job.minions = None
            return None
        return decision

    def _beside(self, waiting, now):
        """
        Return a job that may go before the one whose turn it is, as that is not delayed
        by it, and the decision on it.
        """
        for job in self.queue.first(BESIDE):
            if job is not waiting and self.judge.may_go_beside(job, now):
                decision = self._decide(job, now)
                if decision is not None:
                    return job, decision
        return None, None

    def force(self, job, now):
        """
        Return the action that publishes a job at once, whatever the limits are. It
        never was in the queue, and is charged like any other. When it can't be
        published it waits in its flow.
        """
        job.flow = self.judge.flow(job)
        self.judge.charge(job, now)
        self.counters["submitted"] += 1
        self.counters["dispatched"] += 1
        minions, job.minions = job.minions, []
        job.sent, job.count = job.sent + len(minions), 0
        job.waves += 1
        return Dispatch(job, minions, {}, True)

    def abort(self, action, now, written=True):
        """
        A publication failed. Give back what it was charged, put the job back as the
        first one, and publish nothing for a moment.

        :param bool written: whether it is written down who was left out
        """
        job = action.job
        self.take_back(job, action.minions, now)
        job.sent -= len(action.minions)
        job.reason = "it could not be published"
        if not written:
            self.counters["excluded"] -= len(action.excluded)
            job.minions = sorted([*job.minions, *action.excluded])
            job.count = len(job.minions)
        if action.last:
            self.counters["dispatched"] -= 1
            self.admit(job, first=True)
        self.hold(now)
        self.counters["aborted"] += 1

    def hold(self, now):
        """
        Publish nothing for a moment.
        """
        self.held_until = max(now + HOLD_SECONDS, self.held_until or 0)

    def take_back(self, job, minions, now):
        """
        Give back what minions were charged for a job that has not been published to
        them, and let them wait for it again.
        """
        self.judge.abort(job, minions, now)
        if job.minions is None:
            job.minions = self.minions_of(job)
        job.minions = sorted([*job.minions, *minions])
        job.count = len(job.minions)

    def _dispatch(self, job, decision, now):
        """
        Note a decision in the job and in the queue, and return the action.
        """
        minions, excluded = decision.minions, decision.excluded
        gone = len(minions) + len(excluded)
        if gone >= len(job.minions):
            job.minions = []
        else:
            done = {*minions, *excluded}
            job.minions = [minion for minion in job.minions if minion not in done]
        job.count = len(job.minions)
        job.sent += len(minions)
        job.waves += 1
        job.moved = now
        job.reason = ""
        if not job.count:
            self.queue.remove(job)
            self.places.left(now)
            self.counters["dispatched"] += 1
        self.counters["waves"] += bool(minions)
        self.counters["excluded"] += len(excluded)
        return Dispatch(job, minions, excluded, not job.count)

    def returned(self, jid, minion, now):
        """
        A minion has returned a job.

        :return: whether that gave anything back
        """
        if self.criteria.on_return(jid, minion, now):
            return True
        ledger = self.criteria.ledger
        if (jid, UNKNOWN) in ledger:
            # one of those that the job went to without their being known
            ledger.renew(jid, UNKNOWN, now)
        return False

    def started(self, minion, now):
        """
        A minion has started.

        :return: the ids of the jobs that it was charged for
        """
        return self.criteria.on_minion_start(minion, now)
