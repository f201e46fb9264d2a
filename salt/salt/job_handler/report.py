"""
What people and programs can see of the job handler.
"""

import os
import random
import time

import salt.job_handler.client
import salt.utils.metrics

SENTENCES = {
    "timeout": "It waited in the master's queue for longer than its caller did",
    "age": "It waited in the master's queue for longer than max_queue_age",
    "cancelled": "It was taken out of the master's queue",
}


class Report:
    """
    :param Handler handler: the job handler
    :param callable rand: returns a number from 0 to 1
    """

    def __init__(self, handler, rand=random.random):
        self.handler = handler
        self.rand = rand
        self.started = time.time()
        self._results = None
        self._waits = None

    # ------------------------------------------------------------------
    # Words to clients
    # ------------------------------------------------------------------

    def retry_after(self, now):
        """
        Return in how many seconds to try again. Not the same for everybody, or they
        would all come back at once.
        """
        seconds = self.handler.manager.retry_after(now)
        return int(seconds * (1 + self.rand())) or 1

    def state(self, job, now):
        """
        Return what to add to the answer to a publish request; nothing, if the job went
        out to all of its minions.
        """
        if not job.count and not job.left_out:
            return {}
        ret = (
            self.progress(job, now)
            if job.count
            else {"publication": job.seq, "waiting": 0}
        )
        ret["state"] = "queued" if job.count else "dispatched"
        if job.left_out:
            ret["excluded"] = job.left_out
        return ret

    def progress(self, job, now, targets=None):
        """
        Return how far a job is.
        """
        ret = {
            "publication": job.seq,
            "waiting": job.count,
            "sent": job.sent,
            "waited": round(now - job.queued, 1),
            "lease": max(
                salt.job_handler.client.LEASE_SECONDS,
                3 * self.heartbeat(len(self.handler.manager.queue)),
            ),
        }
        if job.count:
            ret["reason"] = self.reason(job)
            if job.flow is None:
                ret["position"] = self.handler.manager.queue.position(job)
        if targets is not None:
            ret["targets"] = targets
        return ret

    def reason(self, job):
        """
        Return why a job waits: what stops the whole queue, what the criteria module
        said of the job, or that it has not been its turn yet.
        """
        manager = self.handler.manager
        if manager.paused:
            return "the queue is paused"
        if job.reason:
            return job.reason
        if manager.held_until is not None:
            return "the master was restarted, or could not publish, a moment ago"
        return "other jobs are before it"

    @staticmethod
    def heartbeat(count):
        """
        Return after how many seconds a client is told again that its job waits.
        """
        return max(4, count / 100)

    @staticmethod
    def discard(action):
        """
        Return what to say of a job that won't be published.
        """
        ret = {
            "publication": action.job.seq,
            "reason": action.reason,
            "sentence": SENTENCES[action.reason],
            "waiting": action.job.count,
            "sent": action.job.sent,
        }
        if action.job.minions is not None:
            ret["targets"] = action.job.minions
        return ret

    # ------------------------------------------------------------------
    # Words to people
    # ------------------------------------------------------------------

    def status(self, now):
        """
        Return the figures of the job handler and of its criteria module.
        """
        handler = self.handler
        return {
            "criteria": handler.section["criteria"],
            "settings": handler.section,
            "pid": os.getpid(),
            "running_since": self.started,
            **handler.manager.stats(now),
            "capacity": handler.criteria.stats(now),
            "silent_minions": len(handler.criteria.silent),
            "checking_minions": len(handler.rounds),
            "events": handler.feed.heard if handler.feed else 0,
        }

    def jobs(self, now, limit=None):
        """
        Return the jobs that wait, in their order.
        """
        ret = []
        for place, job in enumerate(self.handler.manager.queue, 1):
            if limit is not None and place > limit:
                break
            ret.append(self._line(job, now, place))
        return ret

    def _line(self, job, now, place):
        return {
            "jid": job.jid,
            "fun": job.fun,
            "user": job.user,
            "position": place,
            "waiting": job.count,
            "sent": job.sent,
            "waited": round(now - job.queued, 1),
            "gives_up_in": (
                None if job.deadline is None else round(job.deadline - now, 1)
            ),
            "reason": self.reason(job),
        }

    def _target(self, job):
        return self.handler.store.load_of(job).get("tgt")

    def charges(self, now, minion=None):
        """
        Return who is charged what, the oldest first.
        """
        rows = sorted(self.handler.criteria.ledger.rows(), key=lambda row: row[3])
        return [
            {
                "minion": name,
                "jid": jid,
                "points": points,
                "seconds": round(now - since, 1),
                "in_doubt": unsure,
            }
            for name, jid, points, since, unsure in rows
            if minion in (None, name)
        ]

    def show(self, jid, now):
        """
        Return what is known of a job.
        """
        queue = self.handler.manager.queue
        waiting = [
            {**self._line(job, now, place), "tgt": self._target(job)}
            for place, job in enumerate(queue, 1)
            if job.jid == jid
        ]
        charged = sorted(self.handler.criteria.ledger.of_job(jid))
        return {
            "jid": jid,
            "waiting": waiting,
            "running_on": charged,
            "state": ("queued" if waiting else "dispatched" if charged else "not here"),
        }

    # ------------------------------------------------------------------
    # Metrics
    # ------------------------------------------------------------------

    def register(self):
        """
        Set the instruments up. Nothing is labelled by minion, job id or user.
        """
        self._results = salt.utils.metrics.counter(
            "salt.job_handler.jobs", description="Jobs that left the queue, by result."
        )
        self._waits = salt.utils.metrics.histogram(
            "salt.job_handler.wait",
            description="Time from a job's acceptance to its last wave.",
            unit="ms",
        )
        for name, key, description in (
            ("depth", "queued", "Jobs that wait."),
            ("oldest", "oldest", "Seconds that the oldest job has waited."),
        ):
            self._gauge(name, key, description, self._manager_stats)
        for name, key, description in (
            ("used", "used", "Points that are charged to the master."),
            ("limit", "limit", "The master's capacity in points."),
            ("full_minions", "full_minions", "Minions at their own limit."),
        ):
            self._gauge(name, key, description, self._criteria_stats)

    def _manager_stats(self):
        return self.handler.manager.stats(self.handler.clock())

    def _criteria_stats(self):
        return self.handler.criteria.stats(self.handler.clock())

    @staticmethod
    def _gauge(name, key, description, stats):
        def observe(options):
            # pylint: disable=import-outside-toplevel
            from opentelemetry.metrics import Observation

            value = stats().get(key)
            return [] if value is None else [Observation(value)]

        salt.utils.metrics.observable_gauge(
            f"salt.job_handler.{name}", observe, description=description
        )

    def dispatched(self, action, now):
        """
        Count a wave.
        """
        if action.last:
            self._results.add(1, attributes={"result": "dispatched"})
            self._waits.record((now - action.job.queued) * 1000)

    def discarded(self, action, now):
        """
        Count a job that won't be published.
        """
        self._results.add(1, attributes={"result": action.reason})
        self._waits.record((now - action.job.queued) * 1000)
