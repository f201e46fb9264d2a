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
    """A job of the master: minions in ``asked`` have still to return, and ``due`` is the next look"""

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
        now = self.clock()
        self._until, self._gap = now + timeout, FIRST
        self.due, self._late = min(now + FIRST, self._until), False

    def look(self):
        """Return what minions have returned since the last look, nothing if it is not yet time for one"""
        begin = self.clock()
        if begin < self.due:
            return {}
        self._late = begin >= self._until
        try:
            found = read(self.client, self.jid)
        finally:
            end = self.clock()
            self._gap = max(self._gap * LONGER, (end - begin) * PART)
            # once at the end in any case
            self.due = max(end, min(end + self._gap, self._until))
        new = {one: found[one] for one in sorted(self.asked & found.keys())}
        self.asked.difference_update(new)
        return new

    def is_over(self):
        """Return whether nobody has still to return, or it was looked after the time for that"""
        return not self.asked or self._late


def ask(client, minions, function, arg=(), timeout=60):
    """Yield the id and the answer, see :func:`read`, of each minion that is not silent"""
    job = Job(client, minions, function, arg, timeout)
    while not job.is_over():
        time.sleep(max(0, job.due - time.monotonic()))
        yield from job.look().items()


def problem(answer):
    """Return what is wrong with an answer that holds no result, as text for people"""
    said = answer["return"]
    # what is no text may be large, and deep
    return names.line(said[:200]) if isinstance(said, str) else type(said).__name__
