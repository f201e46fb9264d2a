"""
A limit that finds itself
=========================

:mod:`capacity <salt.job_criteria.capacity>` with a limit that follows the load. It grows
while returns come back at a steady pace, and is cut when they stop coming: a master that
is fast is used, and one whose database has a bad hour is spared.

.. code-block:: yaml

    rate_limiting:
      criteria: adaptive
      min_master_jobs: 50
      max_master_jobs: 2000
      return_seconds: 4

``min_master_jobs``, ``max_master_jobs``
    Between these the limit moves, 50 and 2000 by default. It begins with the lower one.

``return_seconds``
    How long the master may need for all of the returns that it waits for, at the rate at
    which they come in, 4 by default. Minions send a return again after 5 to 10 seconds
    without an answer.

The limit is looked at once a second while jobs wait for it. It is at most what came back
in the last seconds would fill in ``return_seconds``, or else it grows by a tenth. At
first, until it has come so far, it is doubled.

Jobs that take long are no load meanwhile. When minions are asked whether they still run
a job, and say so, their points come on top of the limit, up to ``max_master_jobs``. They
are asked after ``long_running`` seconds, or when jobs wait and nothing has come back for
5 seconds.

.. versionadded:: 3009.0
"""

import collections

import salt.job_criteria
import salt.job_criteria.capacity
from salt.job_criteria._ledger import affords

#: How far back the rate of returns is measured, in seconds.
_WINDOW = 5


class Adaptive(salt.job_criteria.capacity.Capacity):
    """
    A capacity that follows the rate of returns.
    """

    options = (
        *salt.job_criteria.capacity.Capacity.options,
        "min_master_jobs",
        "return_seconds",
    )

    def __init__(self, settings):
        super().__init__(settings)
        self.least = settings.get("min_master_jobs", 50)
        self.most = settings.get("max_master_jobs", 2000)
        self.seconds = settings.get("return_seconds", 4)
        self.limit = self.least
        # until the rate of returns has said where the limit is, it is doubled
        self.seeking = True
        self.looked = None
        # since when it has been looked at once a second
        self.began = None
        # whether a job has had to wait for the limit since then
        self.pressed = False
        # [second, returns in it]
        self.returns = collections.deque()

    @classmethod
    def validate(cls, settings):
        errors = super().validate(settings)
        least, most = (
            settings.get("min_master_jobs", 50),
            settings.get("max_master_jobs", 2000),
        )
        if not salt.job_criteria.is_count(least):
            errors.append(f"min_master_jobs is {least!r}: {salt.job_criteria.COUNT}")
        elif salt.job_criteria.is_count(most) and least > most:
            errors.append(
                f"min_master_jobs is {least}: write at most max_master_jobs, {most}."
            )
        if not salt.job_criteria.is_number(settings.get("return_seconds", 4)):
            errors.append(
                f"return_seconds is {settings['return_seconds']!r}:"
                f" {salt.job_criteria.SECONDS}"
            )
        return errors

    def master_limit(self, now):
        # what takes long tells nothing of the master, and would use the limit up
        return min(self.most, self.limit + self.ledger.long)

    def on_return(self, jid, minion, now):
        if not super().on_return(jid, minion, now):
            return False
        second = int(now)
        if not self.returns or self.returns[-1][0] != second:
            self.returns.append([second, 0])
        self.returns[-1][1] += 1
        return True

    def decide(self, job, now):
        self._look(now)
        decision = super().decide(job, now)
        gone = len(decision.minions or ()) + len(decision.excluded)
        self.pressed = self.pressed or gone < job.count
        return decision

    def _wanted(self, job, limit, cost, now):
        wanted = super()._wanted(job, limit, cost, now)
        if self.seeking and wanted > 1:
            # each wave tells more than two of half its size
            soon = self._soon(limit, now)
            wanted = max(wanted, min(job.count, affords(soon, cost)))
        return wanted

    def _soon(self, limit, now, least=None):
        # what takes long has come on top of the limit
        return super()._soon(limit, now, min(limit, self.limit) / 4)

    def _look(self, now):
        """
        Move the limit, at most once a second.
        """
        if self.looked is not None and now - self.looked < 1:
            return
        pressed, self.pressed = self.pressed, False
        rested = self.looked is None or now - self.looked > _WINDOW
        self.looked = now
        while self.returns and self.returns[0][0] < int(now) - _WINDOW:
            self.returns.popleft()
        if rested:
            self.began = int(now)
        if rested or not pressed:
            # nothing is known of a limit that nobody has come near to
            return
        # the second that isn't over yet does not count, nor do those before anything
        # was sent
        seconds = min(_WINDOW, max(1, int(now) - self.began))
        returns = sum(count for then, count in self.returns if then < int(now))
        bound = max(self.least, int(returns / seconds * self.seconds))
        grown = self.limit * 2 if self.seeking else self.limit + self.limit // 10
        self.seeking = self.seeking and grown <= bound
        self.limit = min(self.most, max(self.least, min(grown + 1, bound)))

    def snapshot(self):
        return {"limit": self.limit}

    def restore(self, snapshot, now):
        self.seeking = "limit" not in snapshot
        limit = snapshot.get("limit", self.least)
        self.limit = min(self.most, max(self.least, limit))


def criteria(settings):
    """
    Return the criteria of these settings.
    """
    return Adaptive(settings)
