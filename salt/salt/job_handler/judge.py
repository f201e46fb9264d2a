"""
Asking the criteria module, which may fail, be slow or say what makes no sense.
"""

import logging

import salt.job_criteria

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
            decision = self.criteria.decide(job, now)
            self._check(job, decision)
        except Exception:  # pylint: disable=broad-except
            log.exception("The criteria module failed to decide on job %s", job.jid)
            self.criteria.abort(job, job.minions, now)
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
                self.criteria.abort(job, decision.minions, now)
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

    def _times(self):
        """
        Return what has been worked, and what the clock says.
        """
        now = self.clock()
        return (now if self.work is None else self.work()), now

    @staticmethod
    def _check(job, decision):
        """
        Raise ValueError for a decision that makes no sense.
        """
        if decision.minions is None:
            return
        if not decision.minions and not decision.excluded and job.minions:
            raise ValueError("the decision publishes to nobody and excludes nobody")

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
