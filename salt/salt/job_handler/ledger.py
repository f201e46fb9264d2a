"""
Who has been charged what: the tracker of the loads of master and minions.

A charge belongs to one job id and one minion. A batch that publishes ten times
under one job id charges each minion once, and a return that comes twice gives
back once, so the sums can't go below zero.
"""


class Ledger:
    """
    Charges by job id and minion.

    :ivar used: the sum of all charges, which is what the master is charged
    """

    def __init__(self):
        self.used = 0
        # minion: {jid: [points, since]}; the list is shared by a whole wave
        self._minions = {}
        # jid: minions
        self._jobs = {}

    def __len__(self):
        return sum(len(minions) for minions in self._jobs.values())

    def __contains__(self, charge):
        jid, minion = charge
        return jid in self._minions.get(minion, ())

    def jobs(self):
        """
        Return how many minions are charged for each job id.
        """
        return {jid: len(minions) for jid, minions in self._jobs.items()}

    def of_job(self, jid):
        """
        Return the ids of the minions that are charged for a job.
        """
        return set(self._jobs.get(jid, ()))

    def of_minion(self, minion):
        """
        Return the points that a minion is charged.
        """
        charges = self._minions.get(minion)
        if not charges:
            return 0
        return sum(charge[0] for charge in charges.values())

    def minions(self):
        """
        Return the points of each minion that is charged at all.
        """
        return {minion: self.of_minion(minion) for minion in self._minions}

    def charge(self, jid, minions, points, now):
        """
        Charge minions for a job; those that are charged for it already stay as
        they are.

        :return: how many were charged
        """
        charge = [points, now]
        charged = self._jobs.setdefault(jid, set())
        before = len(charged)
        by_minion = self._minions
        if not before:
            charged.update(minions)
            for minion in charged:
                try:
                    by_minion[minion][jid] = charge
                except KeyError:
                    by_minion[minion] = {jid: charge}
        else:
            for minion in minions:
                if minion not in charged:
                    charged.add(minion)
                    by_minion.setdefault(minion, {})[jid] = charge
        count = len(charged) - before
        if not charged:
            del self._jobs[jid]
        self.used += count * points
        return count

    def release(self, jid, minion):
        """
        Give back what a minion was charged for a job.

        :return: whether there was such a charge
        """
        charges = self._minions.get(minion)
        if not charges or jid not in charges:
            return False
        self.used -= charges.pop(jid)[0]
        if not charges:
            del self._minions[minion]
        minions = self._jobs[jid]
        minions.discard(minion)
        if not minions:
            del self._jobs[jid]
        return True

    def release_job(self, jid):
        """
        Give back all charges of a job.
        """
        for minion in self.of_job(jid):
            self.release(jid, minion)

    def release_minion(self, minion):
        """
        Give back all charges of a minion, and return the job ids.
        """
        jids = list(self._minions.get(minion, ()))
        for jid in jids:
            self.release(jid, minion)
        return jids

    def renew(self, jid, minion, now):
        """
        Note that a minion has been seen to run a job.
        """
        charges = self._minions.get(minion, {})
        if jid in charges:
            charges[jid] = [charges[jid][0], now]

    def stale(self, before):
        """
        Return ``{minion: [jid, ...]}`` of the charges from before a time.
        """
        ret = {}
        for minion, charges in self._minions.items():
            jids = [jid for jid, charge in charges.items() if charge[1] < before]
            if jids:
                ret[minion] = jids
        return ret

    def snapshot(self):
        """
        Return all charges as a list that :meth:`restore` takes.
        """
        return [
            [jid, minion, *self._minions[minion][jid]]
            for jid, minions in self._jobs.items()
            for minion in minions
        ]

    def restore(self, charges):
        """
        Add charges out of a snapshot.
        """
        for jid, minion, points, since in charges:
            self.charge(jid, [minion], points, since)
