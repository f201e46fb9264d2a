"""
Who has been charged what: the tracker of the loads of master and minions.

A charge belongs to one job id and one minion. A batch that publishes ten times
under one job id charges each minion once, and a return that comes twice gives
back once, so the sums can't go below zero.
"""

import collections

#: Sums below this are rounding errors.
ROUNDING = 1e-6

#: A job that a minion has had for so many seconds, and says that it runs, takes long.
_LONG_SECONDS = 5


def affords(points, cost):
    """
    Return how many minions so many points are enough for.

    :param cost: the points of each
    """
    return int((points + min(ROUNDING, cost / 2)) // cost)


class _Held:
    """
    Points by the second since which they are held.

    :ivar long: those that jobs hold which take long; their second is None
    """

    def __init__(self):
        self.long = 0
        self._seconds = collections.Counter()

    def __len__(self):
        return len(self._seconds)

    def add(self, points, second):
        """
        Some points are held.
        """
        if second is None:
            self.long += points
        elif points:
            self._seconds[second] += points

    def remove(self, points, second):
        """
        Some points are not held any more.
        """
        if second is None:
            left = self.long - points
            self.long = left if left > ROUNDING else 0
        elif self._seconds[second] - points <= ROUNDING:
            del self._seconds[second]
        else:
            self._seconds[second] -= points

    def until(self, before):
        """
        Return the points that are held since a second or longer.
        """
        return self.long + sum(
            points for second, points in self._seconds.items() if second <= before
        )


class Ledger:
    """
    Charges by job id and minion.

    :ivar used: the sum of all charges, which is what the master is charged
    :ivar dict points: what each minion is charged, for those that are charged at all
    :ivar dict unsure: what of it is in doubt, see :meth:`doubt`
    :ivar int releases: how often something was given back
    :ivar set news: minions that have given something back, or whose charges are not in
        doubt any more, since somebody last emptied it; None for all of them
    :ivar list settled: ``(jid, minion)`` of what was given back since somebody last
        emptied it, or None for a ledger whose charges nobody keeps
    """

    def __init__(self):
        self.used = 0
        self.points = {}
        self.unsure = {}
        self.settled = None
        self.releases = 0
        self.news = set()
        # (jid, minion) of what is in doubt
        self._doubted = set()
        # jid: {minion: (points, since, second)}. A job of 10,000 minions must not cost as
        # many objects, so its minions share one charge, and there is no index by minion
        self._jobs = {}
        self._held = _Held()

    def __len__(self):
        return sum(len(charges) for charges in self._jobs.values())

    @property
    def long(self):
        """
        What of the sum is held by jobs that take long, as their minions have said when they
        were asked.
        """
        return self._held.long

    def __contains__(self, charge):
        jid, minion = charge
        return minion in self._jobs.get(jid, ())

    def jobs(self):
        """
        Return how many minions are charged for each job id.
        """
        return {jid: len(charges) for jid, charges in self._jobs.items()}

    def owes(self, jid):
        """
        Return how many minions are charged for a job.
        """
        return len(self._jobs.get(jid, ()))

    def of_job(self, jid):
        """
        Return the ids of the minions that are charged for a job.
        """
        return set(self._jobs.get(jid, ()))

    def points_of(self, jid):
        """
        Return the points of all minions that are charged for a job.
        """
        return sum(points for points, *_ in self._jobs.get(jid, {}).values())

    def of_minion(self, minion):
        """
        Return the points that a minion is charged.
        """
        return self.points.get(minion, 0)

    def minions(self):
        """
        Return the points of each minion that is charged at all.
        """
        return dict(self.points)

    def charge(self, jid, minions, points, now):
        """
        Charge minions for a job; those that are charged for it already stay as
        they are.

        :return: how many were charged
        """
        charges = self._jobs.setdefault(jid, {})
        # a list of targets may name a minion twice
        new = dict.fromkeys(minions, (points, now, int(now)))
        if charges:
            new = {name: each for name, each in new.items() if name not in charges}
        self._held.add(len(new) * points, int(now))
        charges.update(new)
        of_minion = self.points
        for minion in new:
            of_minion[minion] = of_minion.get(minion, 0) + points
        self.used += len(new) * points
        if not charges:
            del self._jobs[jid]
        return len(new)

    def rows(self):
        """
        Yield ``(minion, jid, points, since, in doubt)`` of each charge.
        """
        for jid, charges in self._jobs.items():
            for minion, (points, since, _) in charges.items():
                yield minion, jid, points, since, (jid, minion) in self._doubted

    def doubt(self):
        """
        What is charged now may have been given back without its being noticed.
        """
        for jid, charges in self._jobs.items():
            for minion, (points, *_) in charges.items():
                if (jid, minion) not in self._doubted:
                    self._doubted.add((jid, minion))
                    self.unsure[minion] = self.unsure.get(minion, 0) + points

    def _sure(self, jid, minion, points):
        """
        A charge is not in doubt any more.
        """
        if (jid, minion) in self._doubted:
            self._doubted.discard((jid, minion))
            self.unsure[minion] -= points
            if self.unsure[minion] <= ROUNDING:
                del self.unsure[minion]

    def release(self, jid, minion, settled=True):
        """
        Give back what a minion was charged for a job.

        :param bool settled: whether that is the end of it; not, if the job has not been
            published to the minion
        :return: whether there was such a charge
        """
        charges = self._jobs.get(jid)
        if charges is None:
            return False
        try:
            points, _, second = charges[minion]
        except KeyError:
            # it was not charged, or returns once more
            return False
        del charges[minion]
        self._held.remove(points, second)
        self.releases += 1
        self.news.add(minion)
        if self._doubted:
            self._sure(jid, minion, points)
        if settled and self.settled is not None:
            self.settled.append((jid, minion))
        of_minion = self.points
        used = of_minion[minion]
        # nearly always this is all that the minion was charged
        if used == points or used - points <= ROUNDING:
            del of_minion[minion]
        else:
            of_minion[minion] = used - points
        self.used -= points
        if not charges:
            del self._jobs[jid]
            if not self._jobs:
                self.used = 0
        return True

    def release_minion(self, minion):
        """
        Give back all charges of a minion, and return the job ids.
        """
        if minion not in self.points:
            return []
        jids = [jid for jid, charges in self._jobs.items() if minion in charges]
        for jid in jids:
            self.release(jid, minion)
        return jids

    def renew(self, jid, minion, now, begins=False):
        """
        Note that a minion has been seen to run a job.

        :param bool begins: whether it has only got the job now
        """
        charges = self._jobs.get(jid, {})
        if minion in charges:
            points, _, second = charges[minion]
            self._held.remove(points, second)
            if begins:
                second = int(now)
            elif second is not None and now - second >= _LONG_SECONDS:
                second = None
            self._held.add(points, second)
            charges[minion] = (points, now, second)
            self._sure(jid, minion, points)
            self.news.add(minion)

    def is_long(self, jid, minion):
        """
        Return whether a minion is charged for a job that takes long.
        """
        charge = self._jobs.get(jid, {}).get(minion)
        return charge is not None and charge[2] is None

    def held(self, before):
        """
        Return the points of what was charged up to a second, or is held by jobs that take
        long.
        """
        return self._held.until(before)

    def soon(self, limit, before, missing, least):
        """
        Return what of a limit is free, or comes back soon: what was charged before a time
        may be that of a job which takes hours. All of the limit, if the rest is less than
        the least that there may be: what comes back bit by bit is waited for.

        :param float missing: the points that do not count in the limit already
        """
        held = self.held(before) - missing
        return limit - held if 0 < held <= limit - least else limit

    def stale(self, before):
        """
        Return ``{minion: [jid, ...]}`` of the charges up to a time.
        """
        ret = {}
        for jid, charges in self._jobs.items():
            for minion, (_, since, _) in charges.items():
                if since <= before:
                    ret.setdefault(minion, []).append(jid)
        return ret
