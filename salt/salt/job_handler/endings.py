"""
How jobs leave the queue without having been published to all of their minions.
"""

import collections

import salt.job_criteria
from salt.job_handler.vocabulary import AGE, CANCELLED, GONE, SENTENCES, TIMEOUT

#: Publish ``job`` to ``minions``; ``last`` says whether nobody is left to publish to.
#: ``minions`` may be empty, when all were excluded.
Dispatch = collections.namedtuple("Dispatch", ("job", "minions", "excluded", "last"))

#: The caller of ``job`` has stopped waiting, or somebody has cancelled it.
Discard = collections.namedtuple("Discard", ("job", "reason"))

#: What can't be written down is tried again after so many seconds.
RETRY_SECONDS = 1


class Endings:
    """
    The part of a :class:`~salt.job_handler.manager.QueueManager` that gives up jobs. An
    action holds from the moment it is given out; take it back with :meth:`keep` when it
    can't be written down.

    :param JobQueue queue: the jobs that wait
    :param Places places: how much it takes
    :param callable minions_of: returns the ids of the minions that a job waits for
    :param float max_queue_age: for how many seconds a job may wait, or None
    """

    def __init__(self, queue, places, minions_of, max_queue_age):
        self.queue = queue
        self.places = places
        self.minions_of = minions_of
        self.max_queue_age = max_queue_age
        self.counters = collections.Counter()

    def _dispatch(self, job, decision, now):
        """
        Note a decision in the job and in the queue, and return the action.
        """
        raise NotImplementedError

    def expired(self, now):
        """
        Give out the jobs that have waited for too long.
        """
        for job in self.queue.expired(now):
            self.counters["discarded"] += 1
            self.places.left(now)
            aged = now >= job.queued + (self.max_queue_age or float("inf"))
            yield Discard(job, AGE if aged else TIMEOUT)

    def keep(self, action, now):
        """
        Put a job back that can't be taken out. Whoever has waited for too long is given
        up a moment later, and not published any more.
        """
        job = action.job
        if action.reason == CANCELLED:
            self.counters["cancelled"] -= 1
        else:
            self.counters["discarded"] -= 1
            job.held = True
            job.deadline = now + RETRY_SECONDS
        self.queue.put(job, job.flow, first=True)

    def abandon(self, job, now):
        """
        Return the action that gives up a job that waits and whose caller has gone.
        """
        self.queue.remove(job)
        self.places.left(now)
        self.counters["discarded"] += 1
        return Discard(job, GONE)

    def cancel(self, jid, now, minions=None):
        """
        Take all publications under a job id out of the queue, and give out the actions.

        :param set minions: take these minions out of them, and leave the rest
        """
        for job in self.queue.of_jid(jid):
            gone = self._cancelled(job, minions)
            if len(gone) < job.count:
                if gone and not job.fixed:
                    sentence = SENTENCES[CANCELLED]
                    decision = salt.job_criteria.publish(
                        [], dict.fromkeys(gone, sentence)
                    )
                    yield self._dispatch(job, decision, now)
                continue
            self.queue.remove(job)
            self.places.left(now)
            self.counters["cancelled"] += 1
            yield Discard(job, CANCELLED)

    def _cancelled(self, job, minions):
        """
        Return which of a job's minions are taken out of it.
        """
        if job.minions is None:
            job.minions = self.minions_of(job)
        if minions is None:
            return job.minions
        return [minion for minion in job.minions if minion in minions]
