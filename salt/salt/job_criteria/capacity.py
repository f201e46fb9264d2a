"""
Capacities of master and minions
================================

The master has a capacity, which is how many returns it may be waiting for, and each
minion has one, which is how many jobs it may have been sent. A job costs one point
for each minion, of the master's capacity and of the minion's own. The points come
back when the minion returns.

.. code-block:: yaml

    rate_limiting:
      criteria: capacity
      max_master_jobs: 2000
      max_minion_jobs: 10

When the master's capacity is used up, the job waits. A job with more minions than the
master has capacity left goes out in *waves* under its one job id: to as many minions
as there is room for, and to the rest as returns make room. Minions whose own capacity
is used up are left out of the job, as if they could not be reached, and so are those
that have not answered when they were asked what they run, until they are heard of.

``max_master_jobs``
    The master's capacity. Without it the master has no limit.

``max_minion_jobs``
    The capacity of each minion. Without it minions have no limit.

``waves``
    ``True`` by default. With ``False`` a job goes out in one piece or not at all. One
    that is wider than the master's capacity then runs alone.

``min_wave``
    How many minions a wave has at least, half of the capacity by default: every
    wave is sent to all connected minions, so many small ones are expensive. A job that
    has not moved for ``wave_patience`` seconds (2 by default) takes what there is.

.. versionadded:: 3008.6
"""

import salt.job_criteria


class Capacity(salt.job_criteria.Criteria):
    """
    Limits for the master and for each minion.
    """

    options = (
        "max_master_jobs",
        "max_minion_jobs",
        "waves",
        "min_wave",
        "wave_patience",
    )

    def __init__(self, settings):
        super().__init__(settings)
        self.max_minion_jobs = settings.get("max_minion_jobs")
        self.waves = settings.get("waves", True)
        self.patience = settings.get("wave_patience", 2)
        # for so long a silent minion is charged for what it was sent
        self.hold = 2 * settings.get("long_running", 60)
        # what silent minions are charged, and when that was summed up
        self._held = 0
        self._held_at = None

    @classmethod
    def validate(cls, settings):
        errors = super().validate(settings)
        for name in ("max_master_jobs", "max_minion_jobs", "min_wave"):
            value = settings.get(name)
            if value is not None and not salt.job_criteria.is_count(value):
                errors.append(f"{name} is {value!r}: write a whole number from 1 on.")
        if not isinstance(settings.get("waves", True), bool):
            errors.append(f"waves is {settings['waves']!r}: write True or False.")
        if not salt.job_criteria.is_number(settings.get("wave_patience", 2)):
            errors.append(
                f"wave_patience is {settings['wave_patience']!r}: write seconds above 0."
            )
        return errors

    def master_limit(self, now):
        """
        Return the master's capacity, or None for no limit.
        """
        return self.settings.get("max_master_jobs")

    def minion_limit(self, minion):
        """
        Return the capacity of a minion, or None for no limit.
        """
        return self.max_minion_jobs

    def decide(self, job, now):
        cost = self.cost(job)
        limit = self.master_limit(now)
        used = self.ledger.used
        room = job.count if limit is None else int((limit - used) // cost)
        if used and room < self._wanted(job, limit, cost, now):
            return salt.job_criteria.requeue(
                f"the master is at {used:g} of {limit:g} points"
            )
        if limit is not None and (not self.waves or job.fixed):
            # nothing runs, so it runs alone, however wide it is
            room = max(room, job.count)
        minions, excluded, doubted = self._split(job, max(room, 1), cost, now)
        if doubted and not minions and not excluded:
            return salt.job_criteria.requeue(
                f"{doubted} minions are asked whether they still run what they were sent"
            )
        self.charge(job, minions, now)
        return salt.job_criteria.publish(minions, excluded)

    def _wanted(self, job, limit, cost, now):
        """
        Return the least number of minions that the job goes out to.
        """
        if not self.waves or job.fixed:
            return max(job.count, 1)
        if limit is None or now - job.moved >= self.patience:
            return 1
        least = self.settings.get("min_wave") or int(limit // 2)
        return max(1, min(job.count, least, int(limit // cost)))

    def _split(self, job, room, cost, now):
        """
        Return whom to publish to now, who is left out and why, and how many wait for the
        answer to whether they still run what they were sent before.
        """
        if job.fixed:
            return job.minions, {}, 0
        minions, excluded, doubted = [], {}, 0
        points, unsure, silent = self.ledger.points, self.ledger.unsure, self.silent
        for minion in job.minions:
            if room <= 0:
                break
            if minion in silent:
                # or all that waits would reach a fleet at once when it is back
                excluded[minion] = (
                    f"the minion has not answered for {now - silent[minion]:.0f} s"
                )
                continue
            used = points.get(minion)
            if used:
                limit = self.minion_limit(minion)
                if (
                    limit is not None
                    and used + cost > limit
                    and (job.jid, minion) not in self.ledger
                ):
                    if used + cost - unsure.get(minion, 0) > limit:
                        excluded[minion] = (
                            f"the minion is at {used:g} of {limit:g} points"
                        )
                    else:
                        doubted += 1
                    continue
            minions.append(minion)
            room -= 1
        return minions, excluded, doubted

    def on_silent(self, minion, now):
        """
        What a minion was sent may run when it is back, so it goes on being charged for
        it for a while, as long as such minions do not take more than half of the
        master's capacity.
        """
        limit, points = self.master_limit(now), self.ledger.of_minion(minion)
        if self._held_at != now:
            # a whole fleet may fall silent, and each of it comes here
            self._held_at = now
            self._held = sum(map(self.ledger.of_minion, self.silent))
        if minion not in self.silent:
            self._held += points
        since = self.silent.setdefault(minion, now)
        if limit is not None and now - since < self.hold:
            if self._held <= limit / 2:
                return []
        self._held -= points
        return self.ledger.release_minion(minion)

    def stats(self, now):
        full = 0
        if self.max_minion_jobs:
            full = sum(
                1
                for minion, used in self.ledger.minions().items()
                if used >= (self.minion_limit(minion) or float("inf"))
            )
        return {
            **super().stats(now),
            "limit": self.master_limit(now),
            "full_minions": full,
        }


def criteria(settings):
    """
    Return the criteria of these settings.
    """
    return Capacity(settings)
