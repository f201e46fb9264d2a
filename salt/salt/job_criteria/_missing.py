"""
Minions that do not answer, and what that means for the others.

What they were sent may run when they are back, so they are charged for it. But when a
part of a network is gone, all of the master's capacity soon is with minions that can't
give it back. So what they hold above half of the capacity is lent to those that answer,
and until that is over nobody gets a job who has not been heard of since: there is no
telling who else is gone.
"""

#: Of so many minions it is remembered that they were heard of. Names may be forged.
MOST = 100000


class Missing:
    """
    :param Ledger ledger: what is charged
    :param dict silent: the minions that did not answer twice

    :ivar set late: minions that have not answered a question yet, though there was time
    :ivar dict unsure: minions that jobs wait for, and that are to be asked whether they
        are there
    """

    def __init__(self, ledger, silent):
        self.ledger = ledger
        self.silent = silent
        self.late = set()
        self.unsure = {}
        # who has been heard of since the first of them was late
        self._seen = set()
        # how often that may have changed who is missing
        self._changes = 0
        # what they hold, and what has to be as it was for that to hold
        self._sum = ((), 0)

    def late_now(self, minions):
        """
        Minions have not answered in time.
        """
        if minions and not self.late:
            self._seen.clear()
        self._changes += 1
        # not even if they were heard of when others were late
        self._seen.difference_update(minions)
        self.late.update(minions)

    def heard(self, minion):
        """
        Something came from a minion.
        """
        self._changes += 1
        self.late.discard(minion)
        if len(self._seen) < MOST:
            self._seen.add(minion)
        if self.unsure.pop(minion, self) is None:
            self.ledger.news.add(minion)

    def gone(self, minion):
        """
        A minion does not answer, which is certain now.
        """
        self._changes += 1
        self.late.discard(minion)
        self.unsure.pop(minion, None)
        # who waits for it need not wait any more
        self.ledger.news.add(minion)

    def points(self):
        """
        Return what is charged to minions that do not answer.
        """
        ledger = self.ledger
        key = (self._changes, ledger.releases, ledger.used)
        key += (len(self.late), len(self.silent))
        if self._sum[0] != key:
            missing = self.late.union(self.silent)
            self._sum = (key, sum(map(self.ledger.of_minion, missing)))
        return self._sum[1]

    def lent(self, limit):
        """
        Return how much of it others may use: never more than half of the limit, so that
        no more than one and a half times the limit is charged.
        """
        lent = 0
        if self.late or self.silent:
            lent = min(max(0, self.points() - limit / 2), limit / 2)
        if not lent and self.unsure:
            self.unsure.clear()
            self.ledger.news.add(None)
        return lent

    def asks(self, minion):
        """
        Return whether a minion has to be asked first whether it is there.
        """
        if minion in self._seen:
            return False
        self.unsure[minion] = None
        return True
