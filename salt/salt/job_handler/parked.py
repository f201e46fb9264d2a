"""
Jobs that others pass, until something happens that may let them go.

What happens at one minion concerns few of them, so who waits for whom is kept as one
number for each job, a bit for each minion: a job for 10,000 takes 1.25 kB.
"""

#: So many minions may be looked at each second to decide anew on jobs that were parked,
#: and at once. A job counts as some more.
LOOKS = 50000
BURST = 20000
EACH = 20


class Parked:
    """
    The jobs that are parked, whoever was looked at longest ago first.
    """

    def __init__(self):
        # {seq: (job, its minions as a number, or None if it waits for anything)}
        self._jobs = {}
        # those that something has happened for
        self._due = {}
        self._numbers = {}
        self._room = BURST
        self._filled = None

    def __len__(self):
        return len(self._jobs) + len(self._due)

    def add(self, job, minions=None):
        """
        Park a job.

        :param minions: whom it waits for, None for anybody
        """
        mask = None if minions is None else self._mask(minions, self._numbers)
        self._jobs[job.seq] = (job, mask)

    @staticmethod
    def _mask(minions, numbers, new=True):
        """
        Return minions as a number, with a bit for each.
        """
        if new:
            places = [numbers.setdefault(name, len(numbers)) for name in minions]
        else:
            places = [numbers[name] for name in minions if name in numbers]
        bits = bytearray(max(places, default=0) // 8 + 1)
        for place in places:
            bits[place // 8] |= 1 << place % 8
        return int.from_bytes(bits, "little")

    def pop(self, seq):
        """
        Forget a job.
        """
        self._jobs.pop(seq, None)
        self._due.pop(seq, None)
        if not self:
            self._numbers.clear()

    def hear(self, minions):
        """
        Something has happened at these minions, or at everybody with None among them.
        """
        if not self._jobs or not minions:
            return
        everybody = None in minions
        happened = 0 if everybody else self._mask(minions, self._numbers, False)
        for seq, (job, mask) in list(self._jobs.items()):
            if everybody or mask is None or mask & happened:
                del self._jobs[seq]
                self._due[seq] = job

    def take(self, now):
        """
        Return the jobs that are to be decided on anew, as many as there is time for.
        """
        if not self._due:
            return []
        if self._filled is not None:
            self._room = min(BURST, self._room + (now - self._filled) * LOOKS)
        self._filled = now
        ret = []
        for job in self._due.values():
            if self._room <= 0:
                break
            self._room -= EACH + job.count
            ret.append(job)
        for job in ret:
            del self._due[job.seq]
        if not self:
            self._numbers.clear()
        return ret
