"""Which minions are to be asked for what their repositories have: of those that tell of the same, one."""

#: The execution function that answers
FUNCTION = "package_state.offers"
# minions that are asked for the same: they may have other lists by then
TRIES = 3


class Lacking:
    """Who is to be asked for what; no I/O, and the time in seconds is passed in"""

    def __init__(self, timeout=60):
        self.timeout = timeout
        # the digests of minions, in the order in which they told of them
        self.minions = {}
        # how many minions were asked for a digest in vain
        self.tries = {}
        self.asked = None
        self.until = 0

    def add(self, minion, digests):
        """A minion has told of digests that nobody knows, or of none"""
        self.minions.pop(minion, None)
        if digests:
            self.minions[minion] = tuple(digests)

    def take(self, now):
        """Return a minion and the digests to ask it for; None without one, or while another one answers"""
        if self.asked and now < self.until:
            return None
        self.asked = None
        while self.minions:
            minion = next(iter(self.minions))
            digests = [
                one
                for one in self.minions.pop(minion)
                if self.tries.get(one, 0) < TRIES
            ]
            if digests:
                for one in digests:
                    self.tries[one] = self.tries.get(one, 0) + 1
                self.asked, self.until = minion, now + self.timeout
                return minion, digests
        self.tries.clear()
        return None

    def answered(self, digests):
        """The minion that was asked has answered"""
        self.asked, known = None, set(digests)
        for minion, lacking in list(self.minions.items()):
            left = tuple(one for one in lacking if one not in known)
            if left:
                self.minions[minion] = left
            else:
                del self.minions[minion]
