"""
The clients that wait for jobs that wait themselves: they are told from time to time that
there is a job handler, and how it goes.
"""

import collections

import salt.job_handler.caller
import salt.job_handler.vocabulary as vocabulary

#: At most so many are told in each tick.
HEARTBEATS = 100

#: How often it is looked whether their processes run, in seconds.
LOOK_SECONDS = 1


class Followers:
    """
    :param Bus bus: tells them
    :param QueueManager manager: knows what waits
    :param Report report: finds the words
    """

    def __init__(self, bus, manager, report):
        self.bus = bus
        self.manager = manager
        self.report = report
        # {number of a job: job}, whoever was told longest ago first
        self._jobs = collections.OrderedDict()
        self._looked = 0

    def follow(self, job):
        """
        Tell the client of a job from time to time that it waits.
        """
        if job.sync:
            self._jobs[job.seq] = job

    def forget(self, job):
        """
        A job does not wait any more.
        """
        self._jobs.pop(job.seq, None)

    def gone(self, now):
        """
        Return the jobs that wait, and whose callers do not any more.
        """
        if 0 <= now - self._looked < LOOK_SECONDS:
            return []
        self._looked = now
        return [
            job
            for job in self._jobs.values()
            if job.caller is not None
            and job in self.manager.queue
            and not salt.job_handler.caller.runs(job.caller)
        ]

    async def beat(self, now):
        """
        Tell those whose turn it is.
        """
        interval = self.report.heartbeat(len(self._jobs))
        for _ in range(min(len(self._jobs), HEARTBEATS)):
            seq, job = next(iter(self._jobs.items()))
            if job not in self.manager.queue:
                del self._jobs[seq]
                continue
            if now - job.beaten < interval:
                break
            job.beaten = now
            self._jobs.move_to_end(seq)
            await self.bus.tell(job, vocabulary.QUEUED, self.report.progress(job, now))
