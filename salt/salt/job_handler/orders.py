"""
What administrators have said: a pause, which jobs are held, which go first.
"""

import collections
import itertools

#: What has been said of so many jobs is remembered, and of all that wait.
JOBS = 1000


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
        Take over a snapshot.
        """
        self.paused_until = snapshot["paused_until"]
        self._jobs.update((jid, tuple(order)) for jid, order in snapshot["jobs"])

    def waits(self, now):
        """
        Return whether jobs wait that would go if there was room for them.
        """
        waiting = any(not job.held for job in self.queue)
        return waiting and not self.pausing(now)
