"""
The queue of jobs that wait, in memory.

Jobs of one *flow* leave in the order in which they came. Which flow a job belongs
to is for the criteria module to say; with one flow the whole queue is a FIFO. Those of a
higher priority leave before all others, and those that are held stay.
"""

import heapq
import itertools

import salt.job_handler.parked

#: So many deadlines of jobs that have left are no matter.
_SLACK = 100


class JobQueue:
    """
    FIFO queues of jobs, one for each flow.
    """

    def __init__(self):
        self._jobs = {}
        # (priority, flow): {seq: job}. A dict keeps its order, so this is a FIFO from
        # whose middle a job can be taken. What is held is in none of them
        self._flows = {}
        self._jids = {}
        self._parked = salt.job_handler.parked.Parked()
        #: what all of them take, as they are kept
        self.bytes = 0
        self._deadlines = []
        self._ties = itertools.count()

    def __len__(self):
        return len(self._jobs)

    def __iter__(self):
        return iter(list(self._jobs.values()))

    def __contains__(self, job):
        return job.seq in self._jobs

    def put(self, job, flow, first=False):
        """
        Add a job as the last one of a flow, or put it back as the first one.
        """
        job.flow = flow
        self.bytes += job.bytes
        key = (job.priority, flow)
        if first:
            self._jobs = {job.seq: job, **self._jobs}
        else:
            self._jobs[job.seq] = job
        if first and not job.stays:
            self._flows[key] = {job.seq: job, **self._flows.get(key, {})}
        elif not job.stays:
            self._flows.setdefault(key, {})[job.seq] = job
        self._jids.setdefault(job.jid, {})[job.seq] = job
        if job.deadline is not None:
            heapq.heappush(self._deadlines, (job.deadline, next(self._ties), job))
            if len(self._deadlines) > 2 * len(self._jobs) + _SLACK:
                self._forget_removed()

    def _forget_removed(self):
        """
        Drop the deadlines of jobs that have left, or that came back: they may be a day
        away.
        """
        self._deadlines = [
            (job.deadline, next(self._ties), job)
            for job in self._jobs.values()
            if job.deadline is not None
        ]
        heapq.heapify(self._deadlines)

    def remove(self, job):
        """
        Take a job out, wherever it is.
        """
        del self._jobs[job.seq]
        self.bytes -= job.bytes
        self._forget(self._jids, job.jid, job)
        self._parked.pop(job.seq)
        if not job.stays:
            self._forget(self._flows, (job.priority, job.flow), job)
        # it may come back
        job.parked = False

    @staticmethod
    def _forget(index, key, job):
        jobs = index[key]
        del jobs[job.seq]
        if not jobs:
            del index[key]

    def order(self, job, priority, held):
        """
        Give a job another priority, hold it or let it go.
        """
        self._take_out(job)
        job.priority, job.held = priority, held
        self._take_in([job])

    def park(self, job, minions=None):
        """
        Let others pass a job, until something happens at one of these minions.

        :param minions: None for whatever happens
        """
        self._take_out(job)
        job.parked = True
        self._parked.add(job, minions)

    def unpark(self, news, now):
        """
        Let no job be passed any more that something may have happened for.

        :param set news: the minions at which something has happened, None for everywhere
        """
        self._parked.hear(news)
        jobs = self._parked.take(now)
        for job in jobs:
            job.parked = False
        self._take_in(jobs)

    def _take_out(self, job):
        """
        Take a job out of its flow.
        """
        if not job.stays:
            self._forget(self._flows, (job.priority, job.flow), job)

    def _take_in(self, jobs):
        """
        Put jobs back into their flows, each in the order of the numbers.
        """
        flows = {}
        for job in jobs:
            if not job.stays:
                flows.setdefault((job.priority, job.flow), {})[job.seq] = job
        for key, back in flows.items():
            back.update(self._flows.get(key, {}))
            self._flows[key] = dict(sorted(back.items()))

    def get(self, seq):
        """
        Return the job with a number, or None if it isn't here.
        """
        return self._jobs.get(seq)

    def of_jid(self, jid):
        """
        Return the publications under a job id that wait, in their order.
        """
        return list(self._jids.get(jid, {}).values())

    def position(self, job, most=1000):
        """
        Return the place of a job, from 1 on, or None if more than ``most`` are before
        it or it isn't here.
        """
        for place, seq in enumerate(itertools.islice(self._jobs, most), 1):
            if seq == job.seq:
                return place
        return None

    def heads(self):
        """
        Return the first job of each flow, of the highest priority that there is.
        """
        top = max((priority for priority, _ in self._flows), default=0)
        return [
            next(iter(jobs.values()))
            for (priority, _), jobs in self._flows.items()
            if priority == top
        ]

    def first(self, most):
        """
        Return the jobs that have been here longest and are not held.
        """
        free = (job for job in self._jobs.values() if not job.stays)
        return list(itertools.islice(free, most))

    def head(self):
        """
        Return the job that has been here longest, or None.
        """
        return next(iter(self._jobs.values()), None)

    def expired(self, now):
        """
        Take out the jobs whose caller's time is up, one after the other.
        """
        while self._deadlines and self._deadlines[0][0] <= now:
            job = heapq.heappop(self._deadlines)[2]
            if self._jobs.get(job.seq) is job and job.deadline <= now:
                self.remove(job)
                yield job
