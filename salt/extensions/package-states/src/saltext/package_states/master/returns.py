"""What minions have returned to a job of the master, and the events of its bus, for engines.

A minion may fire any event with any tag and any data: it is a hint to look, and ends no engine. The
master writes a return into its job cache under the id of the minion whose token it has checked.
"""

import logging
import sys
import time

import saltext.package_states.master.authors as authors
import saltext.package_states.model.names as names
from saltext.package_states.errors import PackageStateError

import salt.utils.event

log = logging.getLogger(__name__)

# seconds until the job cache is read for the first time, and how much longer each time after
FIRST = 0.5
LONGER = 1.5
# for so many times as long as the last reading took, nothing is read
PART = 10
# seconds until somebody at a terminal is told who is waited for, and how many are named
PATIENCE = 5
NAMED = 10
# how many characters the id of a minion may have, as its key is a file
LONGEST = 255
# how many ids of events an engine keeps until it has looked
HINTS = 100000
# seconds between two looks at the clock when no event comes
TICK = 0.5


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
    yield from collect([Job(client, minions, function, arg, timeout)])


def collect(jobs):
    """Yield what minions answer to several jobs at once, see :func:`ask`"""
    quiet = authors.is_within() or not sys.stderr.isatty()
    begin = time.monotonic()
    while jobs := [job for job in jobs if not job.is_over()]:
        time.sleep(max(0, min(job.due for job in jobs) - time.monotonic()))
        for job in jobs:
            yield from job.look().items()
        left = sorted(one for job in jobs for one in job.asked)
        if left and not quiet and time.monotonic() - begin >= PATIENCE:
            quiet = True
            more = f" and {len(left) - NAMED} more" if left[NAMED:] else ""
            sys.stderr.write(f"Waiting for {', '.join(left[:NAMED])}{more}\n")


def problem(answer):
    """Return what is wrong with an answer that holds no result, as text for people"""
    said = answer["return"]
    # what is no text may be large, and deep
    return names.line(said[:200]) if isinstance(said, str) else type(said).__name__


def event(bus, wait):
    """Return the tag and the data of the next event, a text and a dictionary, or None"""
    try:
        found = bus.get_event(wait=wait, full=True, auto_reconnect=True)
    except ValueError as exc:
        # Salt takes each tag for text
        log.debug("An event can't be read: %s", exc)
        return None
    if not found or not isinstance(found.get("tag"), str):
        return None
    data = found.get("data")
    return found["tag"], data if isinstance(data, dict) else {}


def serve(opts, event_came, tick):
    """Give the tag, the data and the time of events to an engine, and let it do what is due at a time,
    until the master ends
    """
    with salt.utils.event.get_master_event(opts, opts["sock_dir"], listen=True) as bus:
        looked = 0
        while True:
            found, now = event(bus, TICK), time.monotonic()
            if found:
                event_came(*found, now)
            if not found or now - looked >= TICK:
                tick(now)
                looked = time.monotonic()
