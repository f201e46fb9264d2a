"""
Whose turn it is: that of the user who has had the least of late.
"""

import salt.job_criteria
from salt.job_criteria._shares import Shares


# whoever inherits from it decides
class Turns(salt.job_criteria.Criteria):  # pylint: disable=abstract-method
    """
    Users take turns, unless the setting ``fair`` is False.
    """

    def __init__(self, settings):
        super().__init__(settings)
        self.fair = settings.get("fair", True)
        self.ageing = settings.get("ageing", 60)
        self.shares = Shares()

    def flow(self, job):
        return job.user if self.fair else None

    def weight(self, flow):
        """
        Return by how much jobs of a flow are preferred to those of others.
        """
        return 1

    def choose(self, heads, now):
        return min(heads, key=lambda job: (self._served(job, now), job.seq))

    def _served(self, job, now):
        """
        Return what a job's flow has had, measured by what it is worth by now.
        """
        weight = self.weight(job.flow) * (1 + (now - job.queued) / self.ageing)
        # one point more, so that weights count among those who have had nothing
        return (self.shares.had(job.flow, now) + 1) / weight

    def charge(self, job, minions, now):
        super().charge(job, minions, now)
        self._give(job, len(minions), now)

    def abort(self, job, minions, now):
        back = sum((job.jid, minion) in self.ledger for minion in minions)
        super().abort(job, minions, now)
        self._give(job, -back, now)

    def _give(self, job, count, now):
        """
        The flow of a job gets, or gives back, what so many minions cost.
        """
        flow = job.flow or self.flow(job)
        self.shares.give(flow, count * self.cost(job), now)
