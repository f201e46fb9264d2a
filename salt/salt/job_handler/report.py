"""
What people and programs can see of the job handler.
"""

import os
import random
import time

import salt.job_handler.figures
import salt.job_handler.metrics
import salt.job_handler.vocabulary as vocabulary
import salt.job_handler.words


class Report:
    """
    :param dict section: the settings of the job handler
    :param QueueManager manager: what waits, and what is charged
    :param Journal journal: what minions get
    :param callable clock: returns seconds since the epoch
    :param callable rand: returns a number from 0 to 1
    """

    def __init__(self, section, manager, journal, clock, rand=random.random):
        self.section = section
        self.manager = manager
        self.journal = journal
        self.rand = rand
        self.started = time.time()
        self.metrics = salt.job_handler.metrics.Metrics(manager, clock)

    # ------------------------------------------------------------------
    # Words to clients
    # ------------------------------------------------------------------

    def retry_after(self, now):
        """
        Return in how many seconds to try again. Not the same for everybody, or they
        would all come back at once.
        """
        seconds = self.manager.places.retry_after(now)
        return int(seconds * (1 + self.rand())) or 1

    def full(self, sentence, now):
        """
        Return the reply to a worker for whose job there is no place.
        """
        return {
            "state": vocabulary.FULL,
            "sentence": sentence,
            "retry_after": self.retry_after(now),
        }

    @staticmethod
    def excluded(excluded):
        """
        Return what to add to the answer to a publish request of which these minions are
        left out, and nobody waits.
        """
        return {
            "state": vocabulary.DISPATCHED,
            "waiting": 0,
            "excluded": excluded,
        }

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
        ret["state"] = vocabulary.QUEUED if job.count else vocabulary.DISPATCHED
        ret["ticket"] = job.ticket
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
                vocabulary.LEASE_SECONDS,
                3 * self.heartbeat(len(self.manager.queue)),
            ),
        }
        if job.count:
            ret["reason"] = self.reason(job)
            if job.flow is None:
                ret["position"] = self.manager.queue.position(job)
        if targets is not None:
            ret["targets"] = targets
        return ret

    def reason(self, job):
        """
        Return why a job waits: what stops the whole queue, what the criteria module
        said of the job, or that it has not been its turn yet.
        """
        manager = self.manager
        if manager.orders.paused:
            until = salt.job_handler.words.date(manager.orders.paused_until)
            return (
                f"the queue is paused until {until}" if until else "the queue is paused"
            )
        if job.held:
            return "an administrator holds it"
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
            "sentence": vocabulary.SENTENCES[action.reason],
            "waiting": action.job.count,
            "sent": action.job.sent,
        }
        if action.job.minions is not None:
            ret["targets"] = action.job.minions
        return ret

    # ------------------------------------------------------------------
    # Words to people
    # ------------------------------------------------------------------

    def words(self, now, checking):
        """
        Return the same as :meth:`status`, in words that say what to do.
        """
        return salt.job_handler.words.status(self.status(now, checking), now)

    def status(self, now, checking):
        """
        Return the figures of the job handler and of its criteria module.

        :param int checking: how many minions are asked what they run
        """
        criteria = self.manager.criteria
        return {
            "criteria": self.section["criteria"],
            "settings": self.section,
            "pid": os.getpid(),
            "running_since": self.started,
            **salt.job_handler.figures.of(self.manager, now),
            "capacity": criteria.stats(now),
            "silent_minions": len(criteria.silent),
            "checking_minions": checking,
        }

    def jobs(self, now, limit=None):
        """
        Return the jobs that wait, in their order, those of the highest priority first.
        """
        ret = []
        waiting = sorted(self.manager.queue, key=lambda job: -job.priority)
        for place, job in enumerate(waiting, 1):
            if limit is not None and place > limit:
                break
            ret.append(self._line(job, now, place))
        return ret

    def _line(self, job, now, place):
        return {
            "jid": job.jid,
            "fun": job.fun,
            "user": job.user,
            "priority": job.priority,
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
        return self.journal.load_of(job).get("tgt")

    def charges(self, now, minion=None):
        """
        Return who is charged what, the oldest first.
        """
        rows = sorted(self.manager.criteria.ledger.rows(), key=lambda row: row[3])
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
        queue = self.manager.queue
        waiting = [
            {**self._line(job, now, place), "tgt": self._target(job)}
            for place, job in enumerate(queue, 1)
            if job.jid == jid
        ]
        criteria = self.manager.criteria
        charged = criteria.ledger.of_job(jid)
        silent = charged.intersection(criteria.silent)
        states = {"queued": waiting, "dispatched": charged - silent, "silent": silent}
        return {
            "jid": jid,
            "waiting": waiting,
            "running_on": sorted(charged - silent),
            "silent": sorted(silent),
            "left_out": self.journal.left_out(jid),
            "state": next((name for name, some in states.items() if some), "not here"),
        }
