"""Asking minions. This takes seconds, so it happens only for fields that say so, once
for all items and all of these fields.

All that is asked is one job. Those that have not answered it in time are pinged: one that
answers the ping lives, and is slow or has not got the job; one that does not answer it either is
offline. A job handler may keep a job in its queue, or leave minions out: these have not been
asked, which is something else.

The option ``query`` of the master has the limits, see :data:`DEFAULTS`.
"""

import collections
import itertools
import logging
import math
import re
import time

from saltext.query import compare, kinds
from saltext.query.errors import QueryError, QueryRightsError, QueryStoreError
from saltext.query.sources.job_cache import LIVE

import salt.client
import salt.exceptions

log = logging.getLogger(__name__)

#: Seconds that a query waits for answers, and for which they are used again.
DEFAULTS = {"live_timeout": 30, "live_cache": 10}

#: A Salt without a job handler has no such error.
_QUEUE_FULL = getattr(salt.exceptions, "JobQueueFullError", ())

#: How long to wait for one event, in seconds.
_STEP = 0.5

#: A bus that has nothing so often, long before it should, is closed.
_TOO_EARLY = 3

#: So many reasons are told; they may have numbers in them.
_MAX_REASONS = 10

_PING = "test.ping"
_LATE = "it lives, and has not answered in time"
_NOT_SENT = "the master has not sent the job to it"
_UNKNOWN = "the master did not answer any more"
_WAITS = "the job waits in the master's queue"

#: Where answers are kept in the master's cache.
_PLACE = ("query", "live")
_MISSING = {one.cell[0]: one for one in (kinds.MISSING_OFFLINE, kinds.MISSING_UNAVAIL)}


def _free(answer, _jid):
    for key in ("MemAvailable", "MemFree"):
        try:
            return int(answer[key]["value"]) // 1024
        except (KeyError, OverflowError, ValueError):
            continue
    raise ValueError


def _running(answer, jid):
    if not isinstance(answer, list):
        raise TypeError
    return sum(1 for job in answer if isinstance(job, dict) and job.get("jid") != jid)


#: For each piece of data, the function that minions run, and what makes a value of its
#: answer and the job id.
PROBES = {
    "alive": (_PING, lambda _answer, _jid: True),
    "meminfo": ("status.meminfo", _free),
    "running": ("saltutil.running", _running),
    # as the kernel tells it; Salt's module gives what is left of a fraction as well
    "loadavg": ("status.loadavg", lambda one, _jid: round(float(one["1-min"]), 2)),
    "disk": ("disk.usage", lambda one, _jid: int(one["/"]["available"]) // 1024),
    "uptime": ("status.uptime", lambda one, _jid: int(one["seconds"])),
}


class Live:
    """What minions have answered.

    :param list minions: those that were to be asked
    :param list keys: for what, keys of :data:`PROBES`

    :ivar dict answers: by minion and piece of data, a value or why there is none
    :ivar dict reasons: for minions that have not got the job, why
    :ivar age: how many seconds old the oldest answer is
    :ivar int cached: how many minions were asked before
    """

    def __init__(self, minions, keys):
        self.minions = minions
        self.keys = keys
        self.answers = {}
        self.reasons = {}
        self.age = 0
        self.cached = 0

    def summary(self, names):
        """Return how many minions answered, are offline, have no answer, and why."""
        offline = not_asked = 0
        reasons = collections.Counter()
        for minion in self.minions:
            found = [self.answers.get((minion, key)) for key in self.keys]
            if any(one is False or one is kinds.MISSING_OFFLINE for one in found):
                offline += 1
            elif kinds.MISSING_NODATA in found or None in found:
                not_asked += 1
                reasons[self.reasons.get(minion, _LATE)] += 1
        return {
            "fields": names,
            "answered": len(self.minions) - offline - not_asked,
            "offline": offline,
            "not_asked": not_asked,
            "cached": self.cached,
            "age": int(math.ceil(self.age)),
            "reasons": dict(reasons.most_common(_MAX_REASONS)),
        }


def _settings(context):
    ret = {**DEFAULTS, **(context.opts.get("query") or {}), **context.live_settings}
    for name in DEFAULTS:
        value = ret[name]
        if not compare.is_number(value) or not 0 <= value < math.inf:
            raise QueryError(f"Give {name} as a number that is not negative.")
    return ret


def ask(context, minions, keys):
    """Return what these minions answer to these keys of :data:`PROBES`.

    :rtype: Live
    :raises QueryRightsError: if the caller may not run these functions on these minions
    :raises QueryStoreError: if the master does not answer
    """
    settings = _settings(context)
    keys = [key for key in PROBES if key in keys]
    live = Live(minions, keys)
    if not minions or not keys:
        return live
    context.caller.check_run([PROBES[key][0] for key in keys], minions)
    seconds = settings["live_cache"]
    left = _take(context, live, minions, keys, seconds)
    if left:
        with Client(context, settings["live_timeout"]) as client:
            _ask(live, client, left, keys)
        if seconds:
            _keep(context, live, left, keys, seconds)
    return live


def _ask(live, client, minions, keys):
    """Ask for all, and ping those that have not answered."""
    others = [key for key in keys if key != "alive"] or keys
    first = client.job(minions, [PROBES[key][0] for key in others])
    silent = [minion for minion in minions if minion not in first.answers]
    ping = None
    if silent:
        try:
            # in the master's queue it would be no help
            ping = client.job(silent, [_PING], waits=False)
        except QueryStoreError as exc:
            if not first.answers:
                raise
            # what has come already counts
            log.warning("Silent minions could not be pinged: %s", exc)
            first.leave_out(_UNKNOWN)
    live.reasons.update(first.unasked)
    for minion in minions:
        answers = first.answers.get(minion)
        lives = True if answers is not None else None
        if not lives and ping is not None and minion not in ping.unasked:
            lives = minion in ping.answers
        for key in keys:
            live.answers[minion, key] = _value(key, answers, lives, first.jid)


def _value(key, answers, lives, jid):
    if key == "alive":
        return kinds.MISSING_NODATA if lives is None else lives
    if answers is None:
        return kinds.MISSING_OFFLINE if lives is False else kinds.MISSING_NODATA
    function, extract = PROBES[key]
    try:
        ret = extract(answers[function], jid)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        return kinds.MISSING_UNAVAIL
    return ret if math.isfinite(ret) else kinds.MISSING_UNAVAIL


class _Job:
    """A job, and who has answered it.

    :ivar str jid: its id, or None if it has not been published
    :ivar set missing: the minions from which an answer may come
    :ivar dict answers: for each minion, what each function has returned
    :ivar dict unasked: for each minion that has not got the job, why
    :ivar str waits: why a part of it waits in the master's queue, or None
    """

    def __init__(self, minions, functions):
        self.jid = None
        self.functions = functions
        self.missing = set(minions)
        self.answers = {}
        self.unasked = {}
        self.waits = None

    def leave_out(self, reason, minions=None):
        """Note that these minions, or all that have not answered, don't get the job."""
        left = self.missing if minions is None else self.missing.intersection(minions)
        self.missing = self.missing - left
        self.unasked.update(dict.fromkeys(left, reason))

    def read(self, excluded, waiting, reason):
        """Take over what a job handler says of it: the minions that it leaves out, each
        with the reason, whether a part of the job waits, and why.
        """
        for minion, why in excluded.items() if isinstance(excluded, dict) else ():
            self.leave_out(f"it was left out: {why}", [minion])
        self.waits = None
        if waiting:
            self.waits = f"{_WAITS}: {reason}" if reason else _WAITS

    def take(self, minion, data):
        """Take a return, and report whether it is one of this job."""
        known = minion in self.missing or minion in self.unasked
        if not known or data.get("id") != minion or "return" not in data:
            return False
        found = data["return"]
        if len(self.functions) == 1:
            found = {self.functions[0]: found}
        self.answers[minion] = found if isinstance(found, dict) else {}
        self.missing.discard(minion)
        self.unasked.pop(minion, None)
        return True


class Client:
    """Runs jobs on minions, and follows them on the master's event bus.

    :param float seconds: how long a job is followed. One that has gone to all of its minions
        ends as well when for as long as Salt's ``timeout`` nothing has come.
    """

    #: Returns seconds.
    clock = staticmethod(time.monotonic)

    def __init__(self, context, seconds):
        self.context = context
        self.seconds = seconds
        self.patience = min(seconds, context.opts.get("timeout", 5))
        self.queue = context.source("queue")
        self._client = None
        self._early = 0

    def __enter__(self):
        try:
            self._client = salt.client.get_local_client(mopts=self.context.opts)
        except (salt.exceptions.SaltClientError, OSError) as exc:
            raise _down(exc) from exc
        user = self.context.caller.job_user()
        if user is not None:
            # the key is the master's, the name is that of who asks
            self._client.salt_user = user
        return self

    def __exit__(self, *exc_info):
        self._client.destroy()

    def job(self, minions, functions, waits=True):
        """Run functions on minions, and return the job when all have answered, or its
        time is up.

        :param bool waits: whether to follow it while it waits in the master's queue
        :raises QueryRightsError: if the master does not let these functions be run
        :raises QueryStoreError: if the master does not answer
        """
        job = _Job(minions, functions)
        published = self._publish(minions, functions)
        job.jid = published.get("jid")
        if job.jid in (None, "", "0"):
            job.leave_out(published.get("refused") or _NOT_SENT)
            return job
        known = published.get("minions")
        if isinstance(known, list) and known:
            job.leave_out(_NOT_SENT, job.missing.difference(known))
        state = published.get("job_handler")
        if isinstance(state, dict):
            job.read(state.get("excluded"), state.get("waiting"), state.get("reason"))
        try:
            if waits or not job.waits:
                self._follow(job)
        except QueryStoreError:
            if not job.answers:
                raise
            # what has come already counts
            job.leave_out(_UNKNOWN)
        finally:
            if job.waits:
                self._take_back(job)
        return job

    def _take_back(self, job):
        """Take what still waits of a job out of the queue."""
        state = self.queue.ask("show", job.jid)
        if state is not None:
            waiting = state["waiting"]
            reason = waiting[0].get("reason") if waiting else None
            job.read(state["left_out"], waiting, reason)
            if state.get("state") in ("cancelled", "discarded"):
                job.leave_out(f"the job was {state['state']}")
        if job.waits:
            # who has got it already is not known
            job.leave_out(job.waits)
            self.queue.ask("cancel", job.jid)

    def _publish(self, minions, functions):
        one = len(functions) == 1
        try:
            return self._client.run_job(
                minions,
                functions[0] if one else functions,
                [] if one else [[] for _ in functions],
                tgt_type="list",
                timeout=max(1, int(self.seconds)),
                listen=True,
                metadata=LIVE,
            )
        except _QUEUE_FULL as exc:
            return {"refused": str(exc)}
        except (
            salt.exceptions.AuthenticationError,
            salt.exceptions.AuthorizationError,
        ) as exc:
            raise QueryRightsError(
                f"The master refuses to run {', '.join(functions)} for"
                f" {self._client.salt_user}: leave out the fields that ask minions, or look"
                f" at publisher_acl, publisher_acl_blacklist and sudo_acl ({exc})."
            ) from exc
        except (salt.exceptions.SaltException, OSError) as exc:
            raise _down(exc) from exc

    def _follow(self, job):
        now = news = self.clock()
        until = now + self.seconds
        while job.missing:
            end = until if job.waits else min(until, news + self.patience)
            if now >= end:
                return
            if self._hear(job, max(0.01, min(_STEP, end - now))):
                news = self.clock()
            now = self.clock()

    def _hear(self, job, wait):
        """Wait some seconds for a return of a job, and report whether there was one."""
        begun = self.clock()
        tag = f"salt/job/{job.jid}/ret/"
        event = self._client.event.get_event(
            wait=wait, tag=re.escape(tag), match_type="regex", full=True
        )
        if event is not None:
            self._early = 0
            if event["tag"] == "salt/event/exit":
                # so the bus tells of Ctrl-C
                raise KeyboardInterrupt
            return job.take(event["tag"][len(tag) :], event["data"])
        # a bus that is closed has nothing, at once, and all minions would seem to be silent
        waited = self.clock() - begun
        self._early = 0 if waited >= wait / 2 else self._early + 1
        if self._early >= _TOO_EARLY:
            raise QueryStoreError(
                "The master's event bus was closed while minions were asked: see whether"
                " salt-master runs, and ask again."
            )
        if self._early:
            # its publisher may be starting again
            time.sleep(wait - waited)
        return False


def _down(exc):
    return QueryStoreError(
        "The master does not take the question to minions: see whether salt-master runs,"
        f" or leave out the fields that ask them ({exc})."
    )


def _kept(context, seconds):
    """Return kept answers, by minion and key of a probe: time, status and value."""
    try:
        found = context.documents.cache.fetch(*_PLACE) if seconds else ()
        return {
            (minion, key): (then, status, value)
            for minion, key, then, status, value in found
            if 0 <= context.now - then <= seconds
        }
    except (OSError, salt.exceptions.SaltException, TypeError, ValueError) as exc:
        log.warning("Could not read what minions have answered before: %s", exc)
    return {}


def _take(context, live, minions, keys, seconds):
    """Take what is known of minions, and return the others."""
    left = []
    known = _kept(context, seconds)
    for minion in minions:
        found = [known.get((minion, key)) for key in keys]
        if None in found:
            left.append(minion)
            continue
        for key, (then, status, value) in zip(keys, found):
            live.age = max(live.age, context.now - then)
            live.answers[minion, key] = _MISSING.get(status, value)
        live.cached += 1
    return left


def _keep(context, live, minions, keys, seconds):
    """Keep answers, and forget those that are too old: not what nobody was asked."""
    # another query may have asked meanwhile
    known = _kept(context, seconds)
    for place in itertools.product(minions, keys):
        value = live.answers[place]
        if value is not kinds.MISSING_NODATA:
            is_missing = isinstance(value, kinds.Missing)
            cell = value.cell if is_missing else (kinds.NORMAL, value)
            known[place] = (context.now, *cell)
    try:
        context.documents.cache.store(*_PLACE, [[*one, *known[one]] for one in known])
    except (OSError, salt.exceptions.SaltException) as exc:
        log.warning("Could not keep what minions have answered: %s", exc)
