"""
A queue manager without a process around it.
"""

import itertools

import pytest

import salt.job_criteria.capacity
import salt.job_handler.job
import salt.job_handler.manager


class Bench:
    """
    A queue manager, and short ways to use it.
    """

    def __init__(
        self, criteria=None, max_queue_size=1000, fail_mode="open", **settings
    ):
        self.now = 100.0
        self.seconds = 0.0
        self.numbers = itertools.count(1)
        if criteria is None:
            criteria = salt.job_criteria.capacity.Capacity(settings)
        self.criteria = criteria
        self.manager = salt.job_handler.manager.QueueManager(
            criteria, max_queue_size, fail_mode, lambda: self.seconds
        )

    def job(self, minions, jid=None, fun="state.apply", **kwargs):
        """
        Return a job; ``minions`` are ids, or how many.
        """
        if isinstance(minions, int):
            minions = [f"m{number}" for number in range(minions)]
        seq = next(self.numbers)
        return salt.job_handler.job.Job(
            seq,
            jid or f"jid{seq}",
            fun,
            len(minions),
            minions=sorted(minions),
            queued=self.now,
            **kwargs,
        )

    def submit(self, *args, **kwargs):
        """
        Submit a job, and return it.
        """
        job = self.job(*args, **kwargs)
        self.manager.submit(job)
        return job

    def advance(self):
        """
        Return the actions that are due.
        """
        return list(self.manager.advance(self.now))

    def sent(self):
        """
        Return ``(jid, minions)`` of the publications that are due.
        """
        return [(action.job.jid, list(action.minions)) for action in self.advance()]

    def give_back(self, jid, *minions):
        """
        Let minions return a job.
        """
        return [self.manager.returned(jid, minion, self.now) for minion in minions]


@pytest.fixture
def bench():
    return Bench
