"""
What administrators have said: a pause, which jobs are held, which go first.
"""

import collections
import itertools
import logging

import salt.job_criteria
from salt.exceptions import SaltInvocationError

log = logging.getLogger(__name__)

#: What has been said of so many jobs is remembered, and of all that wait.
JOBS = 1000

#: The longest pause that has an end, in seconds
MAX_PAUSE = 366 * 86400

#: The highest priority; the lowest one is as far below 0
MAX_PRIORITY = 1000000


def check_pause(seconds):
    """
    :raises SaltInvocationError: unless a pause may last so many seconds
    """
    # one that is no number is not between two
    if not _is_number(seconds) or not 0 <= seconds <= MAX_PAUSE:
        raise SaltInvocationError(
            f"Give seconds from 0 to {MAX_PAUSE}, which is a year; 0 has no end."
        )


def check_priority(priority):
    """
    :raises SaltInvocationError: unless this is a priority
    """
    if not _is_priority(priority):
        raise SaltInvocationError(
            "Give a priority that is a whole number from"
            f" {-MAX_PRIORITY} to {MAX_PRIORITY}."
        )


def check_limit(limit):
    """
    :raises SaltInvocationError: unless this is None, or so many jobs may be listed
    """
    if limit is not None and not salt.job_criteria.is_count(limit):
        raise SaltInvocationError(
            f"Give a limit that is a whole number from 1 to {salt.job_criteria.MOST}."
        )


def _is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_priority(value):
    whole = isinstance(value, int) and not isinstance(value, bool)
    return whole and -MAX_PRIORITY <= value <= MAX_PRIORITY


class Orders:
    """
    :param JobQueue queue: the jobs that wait

    :ivar paused_until: nothing is published before this, which may be infinite; None for
        no pause
    """

    def __init__(self, queue):
        self.queue = queue
        self.paused_until = None
        # {job id: (priority, whether it is held)}
        self._jobs = collections.OrderedDict()

    @property
    def paused(self):
        """
        Whether the queue is paused.
        """
        return self.paused_until is not None

    @paused.setter
    def paused(self, paused):
        self.paused_until = float("inf") if paused else None

    def pausing(self, now):
        """
        Return whether the queue is paused still.
        """
        if self.paused and now >= self.paused_until:
            self.paused_until = None
        return self.paused

    def of(self, jid):
        """
        Return the priority of a job, and whether it is held.
        """
        return self._jobs.get(jid, (0, False))

    def give(self, jid, priority=None, held=None):
        """
        Give all publications under a job id another priority, hold them or let them go,
        those of a batch that come later among them.

        :return: how many minions wait for them
        """
        before = self._jobs.pop(jid, (0, False))
        order = (
            before[0] if priority is None else priority,
            before[1] if held is None else held,
        )
        jobs = self.queue.of_jid(jid)
        for job in jobs:
            self.queue.order(job, *order)
        if order != (0, False):
            self._jobs[jid] = order
            self._forget()
        return sum(job.count for job in jobs)

    def _forget(self):
        """
        Forget what was said of jobs that do not wait, the oldest first.
        """
        more = len(self._jobs) - JOBS
        if more > 0:
            gone = (jid for jid in self._jobs if not self.queue.of_jid(jid))
            for jid in list(itertools.islice(gone, more)):
                del self._jobs[jid]

    def snapshot(self):
        """
        Return what has to survive a restart. msgpack can carry it.
        """
        return {"paused_until": self.paused_until, "jobs": list(self._jobs.items())}

    def restore(self, snapshot):
        """
        Take over a snapshot, without what makes no sense.
        """
        until = snapshot["paused_until"]
        if until in (None, float("inf")) or salt.job_criteria.is_number(until):
            self.paused_until = until
        else:
            log.error("The queue goes on, as it was paused until %r", until)
        for jid, (priority, held) in snapshot["jobs"]:
            if _is_priority(priority) and isinstance(held, bool):
                self._jobs[jid] = (priority, held)
            else:
                log.error("What was said of job %s is dropped: %r", jid, priority)

    def waits(self, now):
        """
        Return whether jobs wait that would go if there was room for them.
        """
        waiting = any(not job.held for job in self.queue)
        return waiting and not self.pausing(now)
