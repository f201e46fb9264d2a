"""
Asking the criteria module, which may fail, be slow or say what makes no sense.
"""

import bisect
import logging

import salt.job_criteria
import salt.payload

log = logging.getLogger(__name__)

#: How long a criteria module may think, how often in a row it may fail, and how long
#: it is left alone then, in seconds.
DECIDE_SECONDS = 0.1
FAILURES = 3
REST_SECONDS = 5


class Judge:
    """
    :param Criteria criteria: decides
    :param str fail_mode: what happens when it fails three times in a row: "open" publishes
        without asking it, "closed" publishes nothing. It is asked again after some seconds
    :param Counter counters: where failures are counted
    :param callable clock: returns seconds, to time decisions by
    :param callable work: returns the seconds of CPU time that this thread has had. With
        it a decision may take ten times as long by the clock as it may work: on a
        machine that has too much to do, waiting for one's turn is no fault
    """

    def __init__(self, criteria, fail_mode, counters, clock, work=None):
        self.criteria = criteria
        self.fail_mode = fail_mode
        self.clock = clock
        self.work = work
        self.counters = counters
        self.failures = 0
        self.failing_until = None

    def flow(self, job):
        """
        Return the flow that a job belongs to.
        """
        try:
            flow = self.criteria.flow(job)
            hash(flow)
        except Exception:  # pylint: disable=broad-except
            log.exception("The criteria module failed to name the flow of a job")
            return None
        return flow

    def choose(self, heads, now):
        """
        Return the job whose turn it is, of those that are first in their flow.
        """
        if len(heads) == 1:
            return heads[0]
        try:
            job = self.criteria.choose(heads, now)
            if job in heads:
                return job
            log.error("The criteria module chose a job that was not offered")
        except Exception:  # pylint: disable=broad-except
            log.exception("The criteria module failed to choose a job")
        return min(heads, key=lambda job: job.seq)

    def may_go_beside(self, job, now):
        """
        Return whether a job may go although it is another one's turn.
        """
        if self.failing_until is not None:
            return False
        try:
            return bool(self.criteria.beside(job, now))
        except Exception:  # pylint: disable=broad-except
            log.exception("The criteria module failed to look at job %s", job.jid)
            return False

    def decide(self, job, now):
        """
        Ask the criteria module. Return its decision, or None if it has made none and the
        job has to wait.
        """
        if self.failing_until is not None:
            if now < self.failing_until:
                return self._without_criteria(job)
            # one more chance, and one failure is enough to rest again
            self.failing_until = None
            self.failures = FAILURES - 1
        before = self._times()
        try:
            decision = self._checked(job, self.criteria.decide(job, now))
        except Exception:  # pylint: disable=broad-except
            log.exception("The criteria module failed to decide on job %s", job.jid)
            self.abort(job, job.minions, now)
            return self._failed(job, "the criteria module failed", now)
        worked, waited = (after - then for after, then in zip(self._times(), before))
        seconds = worked if self.work is None else max(worked, waited / 10)
        if seconds > DECIDE_SECONDS:
            log.error(
                "The criteria module took %.0f ms to decide on job %s",
                seconds * 1000,
                job.jid,
            )
            if decision.minions:
                self.abort(job, decision.minions, now)
            return self._failed(job, "the criteria module is too slow", now)
        self.failures = 0
        if decision.minions is None:
            job.reason = decision.reason
        return decision

    def charge(self, job, now):
        """
        Charge a job whatever the limits are.
        """
        try:
            self.criteria.charge(job, job.minions, now)
        except Exception:  # pylint: disable=broad-except
            log.exception("The criteria module failed to charge job %s", job.jid)

    def abort(self, job, minions, now):
        """
        Take back what minions were charged for a job that has not been published to them.
        """
        try:
            self.criteria.abort(job, minions, now)
        except Exception:  # pylint: disable=broad-except
            log.exception("The criteria module failed to give job %s back", job.jid)
            for minion in minions:
                self.criteria.ledger.release(job.jid, minion, settled=False)

    def cost(self, job):
        """
        Return the points that a job costs for each minion.
        """
        try:
            return self._cost(job)
        except Exception:  # pylint: disable=broad-except
            log.exception("The criteria module failed to name the cost of a job")
            return 1

    def restore(self, snapshot, now):
        """
        Give the criteria module what it, or the one before it, wanted to be kept.
        """
        try:
            self.criteria.restore(snapshot, now)
        except Exception:  # pylint: disable=broad-except
            log.exception("The criteria module can't use its snapshot, and begins anew")

    def snapshot(self):
        """
        Return what the criteria module wants to be kept, or None if it fails.
        """
        try:
            ret = self.criteria.snapshot()
            salt.payload.dumps(ret, use_bin_type=True)
        except Exception:  # pylint: disable=broad-except
            log.exception("The criteria module failed to give a snapshot")
            return None
        return ret

    def _times(self):
        """
        Return what has been worked, and what the clock says.
        """
        now = self.clock()
        return (now if self.work is None else self.work()), now

    def _cost(self, job):
        cost = self.criteria.cost(job)
        if isinstance(cost, bool) or not isinstance(cost, (int, float)):
            raise ValueError(f"the cost is no number, but {cost!r}")
        if not 0 <= cost < float("inf"):
            raise ValueError(f"the cost is {cost}")
        return cost

    def _checked(self, job, decision):
        """
        Return a decision with its minions in the order of their ids, or raise ValueError
        if it makes no sense. What is let pass here is lost later.
        """
        minions, excluded = decision.minions, decision.excluded
        if minions is None:
            return decision._replace(reason=str(decision.reason))
        if not minions and not excluded and job.minions:
            raise ValueError("the decision publishes to nobody and excludes nobody")
        if not isinstance(excluded, dict) or not all(
            isinstance(reason, str) for reason in excluded.values()
        ):
            raise ValueError("what it excludes are no reasons by minion")
        ids = sorted(minions)
        first = bisect.bisect_left(job.minions, ids[0]) if ids else 0
        # nearly always they are neighbours, which is quickly seen
        if excluded or ids != job.minions[first : first + len(ids)]:
            done = {*ids, *excluded}
            if not done.issubset(job.minions):
                raise ValueError("the decision is on minions that the job is not for")
            if len(done) < len(ids) + len(excluded):
                raise ValueError("the decision names a minion twice")
        self._cost(job)
        return decision._replace(minions=ids)

    def _failed(self, job, reason, now):
        """
        Count a failure of the criteria module; what it says counts for nothing.
        """
        self.failures += 1
        self.counters["criteria_failures"] += 1
        job.reason = reason
        if self.failures < FAILURES:
            return None
        log.critical(
            "The criteria module failed %d times in a row, and is not asked for %d s;"
            " fail_mode is %s",
            self.failures,
            REST_SECONDS,
            self.fail_mode,
        )
        self.failing_until = now + REST_SECONDS
        return self._without_criteria(job)

    def _without_criteria(self, job):
        """
        Return the decision of ``fail_mode``.
        """
        if self.fail_mode == "closed":
            return None
        return salt.job_criteria.publish(job.minions)
