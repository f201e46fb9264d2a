"""
When something was heard of a job last.
"""

#: When so many jobs came back is remembered beyond their ends.
_KEPT = 100


class News:
    """
    When something of each job came back last.

    :param Ledger ledger: which jobs are out
    """

    def __init__(self, ledger):
        self.ledger = ledger
        self._back = {}
        self._most = _KEPT

    def returned(self, jid, now):
        """
        A minion has returned, and given back what it was charged.
        """
        owes = self.ledger.owes
        if owes(jid):
            self._back[jid] = now
        else:
            self._back.pop(jid, None)
        if len(self._back) >= self._most:
            # of those whose charges were given back otherwise nothing returns
            self._back = {jid: then for jid, then in self._back.items() if owes(jid)}
            self._most = 2 * len(self._back) + _KEPT

    def of(self, job):
        """
        Return when something of a job came back last, or went out.
        """
        return max(job.moved, self._back.get(job.jid, job.moved))
