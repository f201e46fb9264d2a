"""
Who has been charged what: the tracker of the loads of master and minions.

A charge belongs to one job id and one minion. A batch that publishes ten times
under one job id charges each minion once, and a return that comes twice gives
back once, so the sums can't go below zero.
"""

import collections

#: What is left of a sum of fractions is not left.
_NOTHING = 1e-6


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
        # jid: {minion: (points, since)}. A job of 10,000 minions must not cost as many
        # objects, so its minions share one charge, and there is no index by minion
        self._jobs = {}
        # second: the points of what was charged in it
        self._seconds = collections.Counter()

    def __len__(self):
        return sum(len(charges) for charges in self._jobs.values())

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
        return sum(points for points, _ in self._jobs.get(jid, {}).values())

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
        charges = self._jobs.get(jid)
        if charges:
            minions = [minion for minion in minions if minion not in charges]
            charges.update(dict.fromkeys(minions, (points, now)))
        elif minions:
            self._jobs[jid] = dict.fromkeys(minions, (points, now))
        of_minion = self.points
        for minion in minions:
            of_minion[minion] = of_minion.get(minion, 0) + points
        self.used += len(minions) * points
        self._seconds[int(now)] += len(minions) * points
        return len(minions)

    def _forget(self, points, since):
        """
        Some points are not those of a second any more.
        """
        left = self._seconds[int(since)] - points
        if left <= _NOTHING:
            del self._seconds[int(since)]
        else:
            self._seconds[int(since)] = left

    def rows(self):
        """
        Yield ``(minion, jid, points, since, in doubt)`` of each charge.
        """
        for jid, charges in self._jobs.items():
            for minion, (points, since) in charges.items():
                yield minion, jid, points, since, (jid, minion) in self._doubted

    def doubt(self):
        """
        What is charged now may have been given back without its being noticed.
        """
        for jid, charges in self._jobs.items():
            for minion, (points, _) in charges.items():
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
            if self.unsure[minion] <= _NOTHING:
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
            points, since = charges[minion]
        except KeyError:
            # it was not charged, or returns once more
            return False
        del charges[minion]
        self._forget(points, since)
        self.releases += 1
        self.news.add(minion)
        if self._doubted:
            self._sure(jid, minion, points)
        if settled and self.settled is not None:
            self.settled.append((jid, minion))
        of_minion = self.points
        used = of_minion[minion]
        # nearly always this is all that the minion was charged
        if used == points or used - points <= _NOTHING:
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

    def renew(self, jid, minion, now):
        """
        Note that a minion has been seen to run a job.
        """
        charges = self._jobs.get(jid, {})
        if minion in charges:
            self._forget(*charges[minion])
            charges[minion] = (charges[minion][0], now)
            self._seconds[int(now)] += charges[minion][0]
            self._sure(jid, minion, charges[minion][0])
            self.news.add(minion)

    def held(self, before):
        """
        Return the points of what was charged up to a second.
        """
        return sum(
            points for second, points in self._seconds.items() if second <= before
        )

    def soon(self, limit, before, missing):
        """
        Return what of a limit is free, or comes back soon: what was charged before a time
        may be that of a job which takes hours. All of the limit, if the rest is less than
        a quarter of it: what comes back bit by bit is waited for.

        :param float missing: the points that do not count in the limit already
        """
        held = self.held(before) - missing
        return limit - held if 0 < held <= limit * 3 / 4 else limit

    def stale(self, before):
        """
        Return ``{minion: [jid, ...]}`` of the charges up to a time.
        """
        ret = {}
        for jid, charges in self._jobs.items():
            for minion, (_, since) in charges.items():
                if since <= before:
                    ret.setdefault(minion, []).append(jid)
        return ret
