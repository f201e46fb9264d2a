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

``minion_full``
    What becomes of minions whose own capacity is used up: with ``exclude``, the default,
    they are left out; with ``wait`` the job waits for them in the queue, where other jobs
    pass it, and goes out to each when it has room.

``waves``
    ``True`` by default. With ``False`` a job goes out in one piece or not at all. One
    that is wider than the master's capacity then runs alone, or beside jobs that take
    long: those that minions say they still run, unless they are more than three quarters
    of the capacity.

``min_wave``
    How many minions a wave has at least, three quarters of the capacity by default: every
    wave is sent to all connected minions, so many small ones are expensive. What has been
    in use for longer than ``wave_patience`` seconds (5 by default) does not come back
    soon, so a wave does not wait for it, unless that is more than three quarters of the
    capacity. When nothing comes back of a job for a fifth of that time, a quarter of the
    capacity is enough for its next wave, and when it has not moved for ``wave_patience``
    seconds it takes what there is.

``reserve``
    Which part of the master's capacity is kept for small jobs, 0.05 by default. A job
    that fits into it goes out at once while a wider one waits for room, which it does not
    delay. 0 keeps nothing.

``fair``
    ``True`` by default: users take turns. The next job is that of the user who has had
    the least from the master of late, for as long as his jobs have waited: who floods the
    queue waits behind himself. What a user has had halves each minute. With ``False``
    jobs go out in the order in which they came.

``ageing``
    For each so many seconds that a job waits, it counts once more against what its user
    has had, 60 by default.

.. versionadded:: 3009.0
"""

import collections

import salt.job_criteria
from salt.job_criteria._ledger import ROUNDING, affords
from salt.job_criteria._news import News
from salt.job_criteria._turns import Turns

#: For at least so many seconds a silent minion is charged for what it was sent. About as
#: long it takes a master to notice that nobody is at the other end of a connection, and
#: to drop what was to be sent there.
HOLD_SECONDS = 300

#: A minion stays in the queue until it has answered.
_ASKED = "asked"


def _errors(settings):
    """
    Return a sentence for each setting that is wrong.
    """
    errors = []
    for name in ("max_master_jobs", "max_minion_jobs", "min_wave"):
        value = settings.get(name)
        if value is not None and not salt.job_criteria.is_count(value):
            errors.append(f"{name} is {value!r}: {salt.job_criteria.COUNT}")
    full = settings.get("minion_full", "exclude")
    if full not in ("exclude", "wait"):
        errors.append(f"minion_full is {full!r}: write exclude or wait.")
    for name in ("waves", "fair"):
        if not isinstance(settings.get(name, True), bool):
            errors.append(f"{name} is {settings[name]!r}: write True or False.")
    for name in ("wave_patience", "ageing"):
        if not salt.job_criteria.is_number(settings.get(name, 1)):
            errors.append(f"{name} is {settings[name]!r}: {salt.job_criteria.SECONDS}")
    reserve = settings.get("reserve", 0)
    if reserve != 0 and not (salt.job_criteria.is_number(reserve) and reserve < 1):
        errors.append(
            f"reserve is {reserve!r}: write 0 or a part of the capacity below 1."
        )
    return errors


class Capacity(Turns):
    """
    Limits for the master and for each minion.
    """

    options = (
        "max_master_jobs",
        "max_minion_jobs",
        "minion_full",
        "waves",
        "min_wave",
        "wave_patience",
        "reserve",
        "fair",
        "ageing",
    )

    def __init__(self, settings):
        super().__init__(settings)
        self.max_minion_jobs = settings.get("max_minion_jobs")
        self.wait_for_full = settings.get("minion_full") == "wait"
        self.waves = settings.get("waves", True)
        self.patience = settings.get("wave_patience", 5)
        self.reserve = settings.get("reserve", 0.05)
        # job ids of small jobs
        self._aside = set()
        self._news = News(self.ledger)
        # how long silent minions are charged for what they were sent
        self.hold = max(HOLD_SECONDS, 2 * settings.get("long_running", 60))

    @classmethod
    def validate(cls, settings):
        return super().validate(settings) + _errors(settings)

    def on_return(self, jid, minion, now):
        if not super().on_return(jid, minion, now):
            return False
        self._news.returned(jid, now)
        return True

    def _kept(self, limit):
        """
        Return the points that are kept for small jobs.
        """
        return 0 if limit is None else int(limit * self.reserve)

    def _used_aside(self, kept):
        """
        Return how much of what is kept for small jobs they use.
        """
        self._aside = {jid for jid in self._aside if self.ledger.owes(jid)}
        # the limit may have been lowered, or a job id have come again with a wide job
        return min(kept, sum(map(self.ledger.points_of, self._aside)))

    def beside(self, job, now):
        wanted, kept = job.count * self.cost(job), self._kept(self.master_limit(now))
        if job.fixed or wanted > kept + ROUNDING:
            return False
        limit, used, _ = self._capacity(now)
        if wanted > limit - used + ROUNDING:
            return False
        return wanted <= kept - self._used_aside(kept) + ROUNDING

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
        limit, used, careful = self._capacity(now)
        small = self.beside(job, now)
        if limit is not None and not small:
            kept = self._kept(self.master_limit(now))
            limit = max(limit - kept, 0)
            used -= self._used_aside(kept)
        room = job.count if limit is None else affords(limit - used, cost)
        alone = used <= self._passed(job, limit) + ROUNDING
        alone = alone and (room > 0 or not careful)
        if not alone and room < self._wanted(job, limit, cost, now):
            if self.wait_for_full or careful or self.ledger.unsure:
                found, excluded, full = self._split(job, 1, cost, now, careful)
                if not found and not excluded and full:
                    # others need not wait for it
                    return _wait(full)
            return salt.job_criteria.requeue(self._full(now))
        if limit is not None and (not self.waves or job.fixed):
            # nothing else comes back soon, so it goes, however wide it is
            room = max(room, job.count)
        minions, excluded, full = self._split(job, max(room, 1), cost, now, careful)
        if not minions and not excluded and full:
            return _wait(full)
        self.charge(job, minions, now)
        if small:
            self._aside.add(job.jid)
        return salt.job_criteria.publish(minions, excluded)

    def _capacity(self, now):
        """
        Return the limit, what is used of it, and whether minions are asked first whether
        they are there. What those hold that do not answer is neither there nor used, and
        never more than half of the limit.
        """
        limit, used = self.master_limit(now), self.ledger.used
        if limit is None:
            return None, used, False
        missing, lent = self.missing.points(), self.missing.lent(limit)
        return limit - (missing - lent), used - missing, lent > 0

    def _passed(self, job, limit):
        """
        Return what may be in use when a job goes out however wide it is: what takes long,
        for one that can't go out in waves, unless that is most of the limit.
        """
        if limit is None or (self.waves and not job.fixed):
            return 0
        long = max(0, self.ledger.long - self.missing.points())
        return long if long <= limit * 3 / 4 else 0

    def _full(self, now):
        """
        Return why a job waits for room.
        """
        limit = self.master_limit(now)
        kept = self._kept(limit)
        ret = f"the master is at {self.ledger.used:g} of {limit:g} points"
        if kept:
            ret += f", {kept} of which are for small jobs"
        if missing := self.missing.points():
            ret += f"; {missing:g} are with minions that do not answer"
        return ret

    def _wanted(self, job, limit, cost, now):
        """
        Return the least number of minions that the job goes out to.
        """
        if not self.waves or job.fixed:
            return max(job.count, 1)
        if limit is None or now - job.moved >= self.patience:
            return 1
        soon = self._soon(limit, now)
        least = self.settings.get("min_wave")
        if least is None:
            least = int(soon * 3 // 4)
            if self._is_still(job, now):
                least = min(least, int(limit // 4))
        return max(1, min(job.count, least, affords(soon, cost)))

    def _is_still(self, job, now):
        """
        Return whether a wave of the job is out, and nothing has come back of it for a
        while: those that are left may be gone.
        """
        if not self.ledger.owes(job.jid):
            return False
        return now - self._news.of(job) >= self.patience / 5

    def _soon(self, limit, now, least=None):
        """
        Return what of a limit waves wait for: what is not held for long, if it is so much
        at least, a quarter of the limit by default.
        """
        least = limit / 4 if least is None else least
        gone = self.missing.points()
        return self.ledger.soon(limit, now - self.patience, gone, least)

    def _split(self, job, room, cost, now, careful):
        """
        Return whom to publish to now, who is left out and why, and how many stay: by
        whether they are surely full, or are asked whether they still run what they were
        sent before, or whether they are there.

        :param bool careful: whether those that have not been heard of are asked first
        """
        if job.fixed:
            return job.minions, {}, {}
        minions, excluded, full = [], {}, collections.Counter()
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
            if careful and self.missing.asks(minion):
                full[_ASKED] += 1
                continue
            used = points.get(minion)
            if used:
                limit = self.minion_limit(minion)
                if (
                    limit is not None
                    and used + cost > limit + ROUNDING
                    and (job.jid, minion) not in self.ledger
                ):
                    over = used + cost - limit - ROUNDING
                    sure = over > unsure.get(minion, 0)
                    if sure and not self.wait_for_full:
                        excluded[minion] = (
                            f"the minion is at {used:g} of {limit:g} points"
                        )
                    else:
                        full[sure] += 1
                    continue
            minions.append(minion)
            room -= 1
        return minions, excluded, full

    def on_silent(self, minion, now):
        """
        What a minion was sent may run when it is back, so it goes on being charged for
        it for a while.
        """
        since = self.silent.setdefault(minion, now)
        self.missing.gone(minion)
        if self.master_limit(now) is not None and now - since < self.hold:
            return []
        return self.ledger.release_minion(minion)

    def stats(self, now):
        full = 0
        if self.max_minion_jobs:
            full = sum(
                used + ROUNDING >= (self.minion_limit(minion) or float("inf"))
                for minion, used in self.ledger.minions().items()
            )
        silent = sum(map(self.ledger.of_minion, self.silent))
        return {
            **super().stats(now),
            "used": self.ledger.used - silent,
            "silent": silent,
            "limit": self.master_limit(now),
            "full_minions": full,
        }


def _wait(full):
    """
    Return the decision on a job all of whose minions are at their limit.

    :param Counter full: how many surely are, how many may be, and how many are asked
        whether they are there
    """
    if full[_ASKED]:
        reason = (
            f"{full[_ASKED]} minions are asked whether they are there, as others do"
            " not answer"
        )
    elif full[True]:
        reason = f"{full[True]} minions are at their limit"
    else:
        reason = (
            f"{full[False]} minions are asked whether they still run what they were"
            " sent"
        )
    return salt.job_criteria.park(reason, own=True)


def criteria(settings):
    """
    Return the criteria of these settings.
    """
    return Capacity(settings)
