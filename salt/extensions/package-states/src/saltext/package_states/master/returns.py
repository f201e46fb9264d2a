"""What minions have returned to a job of the master.

A minion may fire any event. The master writes a return into its job cache under the id of the
minion whose token it has checked, so that is what is read here.
"""

import time

import saltext.package_states.model.names as names
from saltext.package_states.errors import PackageStateError

# seconds until the job cache is read for the first time, and how much longer each time after
FIRST = 0.5
LONGER = 1.5
# for so many times as long as the last reading took, nothing is read
PART = 10


class Looks:
    """When to read the job cache; no I/O, and the time in seconds is passed in"""

    def __init__(self, now, timeout):
        self.until = now + timeout
        self._gap = FIRST
        self.due = min(now + self._gap, self.until)

    def is_due(self, now):
        """Return whether to read now"""
        return now >= self.due

    def is_over(self, now):
        """Return whether the time to answer is over"""
        return now >= self.until

    def done(self, begin, end):
        """The cache was read"""
        self._gap = max(self._gap * LONGER, (end - begin) * PART)
        # once at the end in any case
        self.due = max(end, min(end + self._gap, self.until))


def read(client, jid):
    """Return what minions have returned so far: by id a dictionary with ``return``, maybe ``retcode``"""
    name = client.opts.get("ext_job_cache") or client.opts["master_job_cache"]
    try:
        found = client.returners[f"{name}.get_jid"](jid)
    except Exception as exc:  # pylint: disable=broad-except
        # whatever a returner raises
        raise PackageStateError(
            f"The job cache {name} can't be read: {names.line(exc)}; see the option"
            " master_job_cache of the master."
        ) from exc
    return {
        minion: answer
        for minion, answer in (found if isinstance(found, dict) else {}).items()
        if isinstance(answer, dict) and "return" in answer
    }


class Job:
    """A job of the master, whose minions have still to return: those in ``asked``"""

    def __init__(self, client, minions, function, arg=(), timeout=60, clock=None):
        self.client, self.clock = client, clock or time.monotonic
        job = client.run_job(
            sorted(minions),
            function,
            arg=list(arg),
            tgt_type="list",
            listen=False,
            timeout=timeout,
        )
        self.jid, self.asked = job.get("jid"), set(job.get("minions", ()))
        self.looks = Looks(self.clock(), timeout)

    def look(self):
        """Return what minions have returned since the last look, nothing if it is not yet time for one"""
        begin = self.clock()
        if not self.looks.is_due(begin):
            return {}
        try:
            found = read(self.client, self.jid)
        finally:
            self.looks.done(begin, self.clock())
        new = {one: found[one] for one in sorted(self.asked & found.keys())}
        self.asked.difference_update(new)
        return new

    def is_over(self):
        """Return whether nobody has still to return, or the time for that is over"""
        return not self.asked or self.looks.is_over(self.clock())


def ask(client, minions, function, arg=(), timeout=60):
    """Yield the id and the answer, see :func:`read`, of each minion that is not silent"""
    job = Job(client, minions, function, arg, timeout)
    while job.asked:
        time.sleep(max(0, job.looks.due - time.monotonic()))
        begin = time.monotonic()
        yield from job.look().items()
        if job.looks.is_over(begin):
            return


def problem(answer):
    """Return what is wrong with an answer that holds no result, as text for people"""
    said = answer["return"]
    # what is no text may be large, and deep
    return names.line(said[:200]) if isinstance(said, str) else type(said).__name__
