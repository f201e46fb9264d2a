"""
Asking minions. This takes seconds, so it happens only for fields that say so, once for
all items and all of these fields.

What is asked in one job is one execution on each minion. A job handler may keep that job
in its queue, or leave minions out: these have not been asked, which is something else than
being offline. Whether they live is asked again by the functions that are exempt from it.

The option ``query`` of the master has the limits, see :data:`DEFAULTS`.
"""

import collections
import functools
import math

import saltext.query.live.cache
import saltext.query.live.job
from saltext.query.errors import QueryError
from saltext.query.kinds import MISSING_NODATA, MISSING_OFFLINE, MISSING_UNAVAIL

#: Seconds that a query waits for minions; how many it asks; for how many seconds answers
#: are used again.
DEFAULTS = {"live_timeout": 30, "live_limit": 20000, "live_cache": 10}

#: So many reasons are told; they may have numbers in them.
_MAX_REASONS = 10

_OTHERS = "Other reasons"

_TOO_MANY = "More minions than live_limit allows"


def source(context):
    """
    Return a function that asks minions.
    """
    return functools.partial(ask, context)


# ----------------------------------------------------------------------
# What minions are asked. Each of these takes the answer and the job id, and returns a
# value, or None if there is none in it.
# ----------------------------------------------------------------------


def _any(_answer, _jid):
    return True


def _free(answer, _jid):
    for key in ("MemAvailable", "MemFree"):
        try:
            return int(answer[key]["value"]) // 1024
        except (KeyError, OverflowError, TypeError, ValueError):
            continue
    return None


def _running(answer, jid):
    if not isinstance(answer, list):
        return None
    return sum(1 for job in answer if isinstance(job, dict) and job.get("jid") != jid)


def _load(answer, _jid):
    try:
        found = float(answer["1-min"])
    except (KeyError, OverflowError, TypeError, ValueError):
        return None
    # as the kernel tells it; Salt's module gives what is left of a fraction as well
    return round(found, 2) if math.isfinite(found) else None


def _disk(answer, _jid):
    try:
        return int(answer["/"]["available"]) // 1024
    except (KeyError, OverflowError, TypeError, ValueError):
        return None


def _uptime(answer, _jid):
    try:
        return int(answer["seconds"])
    except (KeyError, OverflowError, TypeError, ValueError):
        return None


#: For each piece of data, the function that minions are asked to run, and what to make of
#: its answer.
PROBES = {
    "alive": ("test.ping", _any),
    "meminfo": ("status.meminfo", _free),
    "running": ("saltutil.running", _running),
    "loadavg": ("status.loadavg", _load),
    "disk": ("disk.usage", _disk),
    "uptime": ("status.uptime", _uptime),
}


class Live:
    """
    What minions have answered.

    :param list minions: those that were to be asked
    """

    def __init__(self, minions):
        self.minions = minions
        self.answers = {}
        self.reasons = {}
        self.age = 0
        self.cached = set()

    def put(self, minion, key, value):
        """
        Note what a minion has answered, or why it has not.
        """
        self.answers[minion, key] = value

    def of_minion(self, minion, key):
        """
        Return what a minion has answered, or why there is no answer.
        """
        return self.answers.get((minion, key), MISSING_NODATA)

    def _has(self, minion, missing):
        return any(self.answers.get((minion, key)) is missing for key in PROBES)

    def summary(self, names):
        """
        Return how many minions have answered, are offline, and were not asked, and why.

        :param list names: the names of the columns that ask
        """
        offline = not_asked = 0
        for minion in self.minions:
            if self._has(minion, MISSING_OFFLINE) or (
                self.answers.get((minion, "alive")) is False
            ):
                offline += 1
            elif self._has(minion, MISSING_NODATA):
                not_asked += 1
        reasons = collections.Counter(
            reason
            for minion, reason in self.reasons.items()
            if self._has(minion, MISSING_NODATA)
        )
        told = dict(reasons.most_common(_MAX_REASONS))
        rest = sum(reasons.values()) - sum(told.values())
        if rest:
            told[_OTHERS] = rest
        return {
            "fields": names,
            "answered": len(self.minions) - offline - not_asked,
            "offline": offline,
            "not_asked": not_asked,
            "cached": len(self.cached),
            "age": int(math.ceil(self.age)),
            "reasons": told,
        }


def _settings(context):
    ret = {**DEFAULTS, **(context.opts.get("query") or {})}
    if context.asked is not None:
        ret.update(context.asked.live)
    for name in DEFAULTS:
        value = ret[name]
        known = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not known or not 0 <= value < math.inf:
            raise QueryError(f"Give {name} as a number that is not negative.")
    return ret


def ask(context, minions, keys):
    """
    Ask minions for what is wanted.

    :param list minions: their ids
    :param list keys: keys of :data:`PROBES`
    :rtype: Live
    :raises QueryRightsError: if the caller may not run these functions on these minions
    :raises QueryStoreError: if the master does not answer
    """
    settings = _settings(context)
    keys = [key for key in PROBES if key in keys]
    live = Live(minions)
    limit = int(settings["live_limit"])
    for minion in minions[limit:]:
        live.reasons[minion] = _TOO_MANY
        for key in keys:
            live.put(minion, key, MISSING_NODATA)
    minions = minions[:limit]
    if not minions or not keys:
        return live
    if context.asked is not None:
        context.asked.caller.check_run(_functions(keys), minions)
    cache = saltext.query.live.cache.LiveCache(
        context.documents.cache, settings["live_cache"], context.now
    )
    left = _cached(live, cache, minions, keys)
    if left:
        asker = saltext.query.live.job.Asker(
            context, settings["live_timeout"], context.opts.get("timeout", 5)
        )
        with asker:
            _ask(live, asker, left, keys)
        cache.store(_kept(live, left, keys))
    return live


def _cached(live, cache, minions, keys):
    """
    Take what is known of minions that were asked a moment ago, and return the others.
    """
    left = []
    for minion in minions:
        found = [cache.of_minion(minion, key) for key in keys]
        if None in found:
            left.append(minion)
            continue
        for key, (then, value) in zip(keys, found):
            live.age = max(live.age, cache.now - then)
            live.put(minion, key, value)
        live.cached.add(minion)
    return left


def _ask(live, asker, minions, keys):
    """
    Ask once for all, and those that are late once more for what is exempt: a minion that
    answers to this lives, and has not been asked, or is slow.
    """
    first = [key for key in keys if key != "alive"] or keys
    answered = set()
    for found in asker.ask(minions, _functions(first), _again(asker, first)):
        # some may have answered the first job while the second was followed
        left = [minion for minion in found.minions if minion not in answered]
        _take(live, found, left, keys)
        answered.update(found.answers)


def _again(asker, first):
    """
    Return the functions that those are asked for that have not answered the first job. Who
    was only asked whether it lives is asked once more, as an answer may have been lost with
    the event bus.
    """
    ret = [PROBES["alive"][0]]
    if first != ["alive"] and not asker.is_exempt(_functions(first)):
        ret += [
            function for function in _functions(first) if asker.is_exempt([function])
        ]
    return ret if asker.is_exempt(ret) else []


def _functions(keys):
    return [PROBES[key][0] for key in keys]


def _take(live, found, minions, keys):
    """
    Take over what became of a job of these minions.
    """
    for minion in minions:
        answers = found.answers.get(minion)
        for key in keys:
            function, extract = PROBES[key]
            if answers is None:
                value = MISSING_NODATA
                if minion in found.silent:
                    value = False if key == "alive" else MISSING_OFFLINE
            elif key == "alive":
                value = True
            elif function not in found.functions:
                # the other job has not been answered
                value = MISSING_NODATA
            else:
                value = extract(answers.get(function), found.jid)
                value = MISSING_UNAVAIL if value is None else value
            live.put(minion, key, value)
        reason = found.unasked.get(minion, saltext.query.live.job.LATE)
        live.reasons.setdefault(minion, reason)


def _kept(live, minions, keys):
    """
    Yield what is to be used again for some seconds: not what nobody was asked.
    """
    for minion in minions:
        for key in keys:
            value = live.of_minion(minion, key)
            if value is not MISSING_NODATA:
                yield minion, key, value
