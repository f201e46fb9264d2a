"""
Limits for the master and for each minion
=========================================

The master has a limit, which is how many returns it may be waiting for, and each minion
has one, which is how many jobs it may have at a time. A job occupies one slot on each of
its minions, until the minion returns.

.. code-block:: yaml

    rate_limiting:
      criteria: capacity
      max_master_jobs: 2000
      max_minion_jobs: 10

When the master is at its limit, the job waits. A job for more minions than there are free
slots goes out in *waves* under its one job id: to as many minions as there is room for,
and to the rest as returns make room. A wave has three quarters of the limit at least, as
over zeromq all minions get each wave. If nothing returns for a second, a quarter of the
limit is enough, and after five seconds any room is. A job that can't go out in waves and
is wider than the limit runs alone, or beside jobs that minions say they still run.

A minion at its own limit does not get the job, as if it could not be reached. The same
holds for a minion that did not answer when it was asked what it runs, until something
comes from it.

``max_master_jobs``
    The limit of the master. Without it there is none. With ``adaptive`` it is the highest
    one, 2000 by default.

``max_minion_jobs``
    The limit of each minion. Without it there is none.

``minion_jobs``
    Limits of minions by compound target, of which the first that matches counts:
    ``[{"G@role:build": 20}, {"I@tier:gold": 10}, {"router-*": 1}]``. The minions of the
    targets are looked up about once a minute.

``minion_full``
    What becomes of a minion at its own limit. With ``exclude``, the default, it does not
    get the job. With ``wait`` the job waits for it, and other jobs pass.

``costs``
    How many slots a function occupies: ``{state.highstate: 10, "state.*": 5}``. The first
    glob that matches counts, and all other functions occupy one. A compound command
    occupies what its functions occupy together. A minion without any job gets one
    whatever that costs.

``reserve``
    The share of the limit that is free for small jobs, 0.05 by default. A job that fits
    goes out at once while a wider one waits.

``fair``
    ``True`` by default: users take turns. The next job is that of the user who got the
    fewest slots recently, for as long as his jobs have waited: after a minute a job
    counts twice. With ``False`` jobs leave in the order in which they came.

``lanes``
    Flows of different weight, of which the first counts that fits a job with all of its
    globs: ``[{urgent: {weight: 10, functions: [pkg.*], users: [security]}}]``. Other jobs
    have the weight 1. Users take turns within a lane.

``adaptive``
    ``False`` by default. With ``True`` the limit follows the rate of returns, between
    ``min_master_jobs``, 50 by default, and ``max_master_jobs``: it is at most what
    returns within ``return_seconds``, 4 by default, at the rate of the last five seconds.
    Below that it grows by a tenth each second while jobs wait, and at first it doubles.
    Slots of jobs that minions say they still run come on top.

.. versionadded:: 3009.0
"""

import collections
import fnmatch

import salt.job_criteria
import salt.utils.minions
from salt.job_criteria import MOST, is_count, is_number

#: Sums of fractions below this are rounding errors.
_ROUNDING = 1e-9

#: How far back the rate of returns is measured, in seconds.
_WINDOW = 5

#: If nothing returns for so many seconds, a wave may be small.
_STILL_SECONDS = 1


_COUNT = (is_count, f"write a whole number from 1 to {MOST}.")
_NUMBER = (is_number, f"write a number above 0, at most {MOST}.")
_SWITCH = (lambda value: isinstance(value, bool), "write True or False.")
_NAMED = (
    lambda value: isinstance(value, list)
    and all(isinstance(rule, dict) and len(rule) == 1 for rule in value),
    "write a list of name: value.",
)
_GLOBS = (
    lambda value: isinstance(value, list)
    and all(isinstance(glob, str) for glob in value),
    "write a list of globs.",
)

#: For each setting what it accepts, and what to write instead of something else.
_KINDS = {
    "max_master_jobs": _COUNT,
    "max_minion_jobs": _COUNT,
    "minion_jobs": _NAMED,
    "minion_full": (
        lambda value: value in ("exclude", "wait"),
        "write exclude or wait.",
    ),
    "costs": (
        lambda value: isinstance(value, dict)
        and all(isinstance(key, str) for key in value)
        and all(map(is_number, value.values())),
        "write functions with a number above 0 each.",
    ),
    "reserve": (
        lambda value: value == 0 or is_number(value) and value < 1,
        "write 0 or a share of the limit below 1.",
    ),
    "fair": _SWITCH,
    "lanes": _NAMED,
    "adaptive": _SWITCH,
    "min_master_jobs": _COUNT,
    "return_seconds": _NUMBER,
}

_LANE_KINDS = {"weight": _NUMBER, "functions": _GLOBS, "users": _GLOBS}

_DEFAULTS = {
    "max_master_jobs": None,
    "max_minion_jobs": None,
    "minion_jobs": [],
    "minion_full": "exclude",
    "costs": {},
    "reserve": 0.05,
    "fair": True,
    "lanes": [],
    "adaptive": False,
    "min_master_jobs": 50,
    "return_seconds": 4,
}

#: The highest limit of the master with ``adaptive``, unless a setting says so.
_MOST_ADAPTIVE = 2000


def _errors(settings):
    """Yield a sentence for each setting that is wrong."""
    found = list(salt.job_criteria.errors(settings, _KINDS))
    yield from found
    wrong = {error.partition(" ")[0] for error in found}
    given = salt.job_criteria.given(settings)
    right = {name: value for name, value in given.items() if name not in wrong}
    settings = {**_DEFAULTS, **right}
    least = settings["min_master_jobs"]
    most = settings["max_master_jobs"] or _MOST_ADAPTIVE
    both = wrong.isdisjoint(("min_master_jobs", "max_master_jobs"))
    if settings["adaptive"] and both and least > most:
        yield f"min_master_jobs is {least}: write at most max_master_jobs, {most}."
    for rule in settings["minion_jobs"]:
        ((target, limit),) = rule.items()
        if not isinstance(target, str):
            yield f"minion_jobs has {target!r}: write a compound target."
        if not is_count(limit):
            yield f"minion_jobs of {target} is {limit!r}: {_COUNT[1]}"
    for rule in settings["lanes"]:
        ((name, lane),) = rule.items()
        if not isinstance(lane, dict):
            yield f"lane {name} is {lane!r}: write weight, functions and users."
            continue
        of = f" of lane {name}"
        yield from salt.job_criteria.errors(lane, _LANE_KINDS, of)
        yield from salt.job_criteria.unknown(lane, _LANE_KINDS, of)


def _fits(globs, value):
    return any(fnmatch.fnmatchcase(value, glob) for glob in globs)


class Capacity(salt.job_criteria.Criteria):
    """Limits for the master and for each minion."""

    options = tuple(_DEFAULTS)

    def __init__(self, settings, leases):
        super().__init__(settings, leases)
        given = {**_DEFAULTS, **salt.job_criteria.given(settings)}
        self.max_master_jobs = given["max_master_jobs"]
        self.max_minion_jobs = given["max_minion_jobs"]
        self.minion_jobs = [next(iter(rule.items())) for rule in given["minion_jobs"]]
        self.minion_full = given["minion_full"]
        self.costs = given["costs"]
        self.reserve = given["reserve"]
        self.fair = given["fair"]
        lanes = [next(iter(lane.items())) for lane in given["lanes"]]
        self.lanes = [(name, salt.job_criteria.given(lane)) for name, lane in lanes]
        # the limits of minions that match a target
        self._matched = {}
        # job ids of small jobs that went out beside others
        self._aside = set()
        # when the last lease ended
        self._ended = 0
        self._follower = None
        if given["adaptive"]:
            self._follower = _Follower(
                given["min_master_jobs"],
                given["max_master_jobs"] or _MOST_ADAPTIVE,
                given["return_seconds"],
            )

    @classmethod
    def validate(cls, settings):
        return list(_errors(settings))

    # Limits

    def limit(self):
        """Return the limit of the master, or None."""
        if self._follower is not None:
            # jobs that take long say nothing about the speed of the master
            return min(self._follower.most, self._follower.limit + self.leases.renewed)
        return self.max_master_jobs

    def minion_limit(self, minion):
        """Return the limit of a minion, or None."""
        return self._matched.get(minion, self.max_minion_jobs)

    def collect(self, opts):
        if not self.minion_jobs:
            return None
        checker = salt.utils.minions.CkMinions(opts)
        ret = {}
        for target, limit in reversed(self.minion_jobs):
            found = checker.check_minions(target, "compound", greedy=False)
            ret.update(dict.fromkeys(found["minions"], limit))
        return ret

    def learn(self, collected, now):
        self._matched = collected

    # What a job costs, and whose turn it is

    def cost(self, job):
        return sum(map(self._cost, job.functions))

    def _cost(self, function):
        for glob, cost in self.costs.items():
            if fnmatch.fnmatchcase(function, glob):
                return cost
        return 1

    def _lane(self, job):
        for name, rule in self.lanes:
            functions, users = rule.get("functions"), rule.get("users")
            if functions is not None and not all(
                _fits(functions, function) for function in job.functions
            ):
                continue
            if users is None or _fits(users, job.user):
                return name, rule.get("weight", 1)
        return None, 1

    def flow(self, job):
        return (self._lane(job)[0], job.user if self.fair else None)

    def weight(self, job):
        return self._lane(job)[1]

    def released(self, jid, minion, now):
        self._ended = now
        if self._follower is not None:
            self._follower.returned(now)

    # Decisions

    def decide(self, job, now):
        if self._follower is not None:
            self._follower.look(now)
        decision = self._decide(job, now)
        if self._follower is not None and decision.minions is None:
            self._follower.pressed = True
        return decision

    def _decide(self, job, now):
        limit, cost = self.limit(), job.cost
        if limit is None:
            return self._split(job, None, cost, now)
        # it begins while all slots are occupied
        self.leases.careful(limit, now)
        small = self.beside(job, now)
        room = self._room(cost, limit, small)
        least = max(1, job.count) if job.fixed else self._least(job, limit, cost, now)
        if room < least:
            busy = self.leases.occupied
            if job.fixed and self.leases.renewed <= limit * 3 / 4:
                # jobs that take long do not make room soon
                busy -= self.leases.renewed
            if busy > _ROUNDING:
                return salt.job_criteria.requeue(self._full(limit))
            # nothing makes room for it, so it runs alone
            room = max(1, room)
        decision = self._split(job, None if job.fixed else room, cost, now)
        if small and decision.minions:
            self._aside.add(job.jid)
        if self._follower is not None and decision.minions is not None:
            gone = len(decision.minions) + len(decision.excluded)
            self._follower.pressed |= gone < job.count
        return decision

    def _kept(self, limit):
        """
        Return how many slots are free for small jobs, and how many of them these occupy.
        """
        kept = int(limit * self.reserve)
        self._aside.intersection_update(self.leases.jobs)
        return kept, min(kept, sum(map(self.leases.of_job, self._aside)))

    def _room(self, cost, limit, small):
        """Return to how many minions a job may go."""
        free = limit - self.leases.occupied
        if not small:
            kept, occupied = self._kept(limit)
            free -= kept - occupied
        return int((free + _ROUNDING) // cost)

    def beside(self, job, now):
        limit = self.limit()
        if limit is None or job.fixed:
            return False
        kept, occupied = self._kept(limit)
        wanted = job.count * job.cost
        free = min(kept - occupied, limit - self.leases.occupied)
        return wanted <= free + _ROUNDING

    def _least(self, job, limit, cost, now):
        """Return the least number of minions that a wave has."""
        if now - job.moved >= salt.job_criteria.WAVE_SECONDS:
            return 1
        soon = limit
        if self.leases.renewed <= limit * 3 / 4:
            # slots of jobs that take long do not become free soon
            soon -= self.leases.renewed
        least = soon * 3 // 4
        if now - max(self._ended, job.moved) >= _STILL_SECONDS:
            least = min(least, limit // 4)
        return max(1, min(job.count, int(least // cost)))

    def _full(self, limit):
        kept = int(limit * self.reserve)
        ret = f"the master has {self.leases.occupied:g} of {limit:g} slots occupied"
        return f"{ret}, and {kept} are for small jobs" if kept else ret

    def _split(self, job, room, cost, now):
        """Return the decision on a job for which there is room.

        :param room: how many minions it may go to, or None for all
        """
        leases, silent = self.leases, self.leases.silent
        limited = self.max_minion_jobs or self.minion_jobs
        limit = self.limit()
        careful = limit is not None and leases.careful(limit, now)
        if limited and leases.slots.keys().isdisjoint(job.minions):
            # a minion that has nothing to do takes a job, whatever it costs
            limited = False
        if job.fixed or not (silent or limited or careful):
            return salt.job_criteria.publish(job.minions[:room])
        minions, excluded, full, asked = [], {}, 0, 0
        for minion in job.minions:
            if room is not None and len(minions) >= room:
                break
            if minion in silent:
                seconds = now - silent[minion]
                excluded[minion] = f"the minion has not answered for {seconds:.0f} s"
                continue
            if careful and not leases.answers(minion):
                asked += 1
                continue
            occupied = leases.slots.get(minion)
            limit = self.minion_limit(minion) if occupied and limited else None
            if (
                limit is None
                or occupied + cost <= limit + _ROUNDING
                or leases.has(job.jid, minion)
            ):
                minions.append(minion)
            elif self.minion_full == "wait":
                full += 1
            else:
                excluded[minion] = (
                    f"the minion has {occupied:g} of {limit:g} slots occupied"
                )
        if not minions and not excluded:
            return salt.job_criteria.park(
                f"{full} minions are at their limit"
                if full
                else f"{asked} minions are asked first, as others do not answer"
            )
        return salt.job_criteria.publish(minions, excluded)

    def snapshot(self):
        return {} if self._follower is None else {"limit": self._follower.limit}

    def restore(self, snapshot, now):
        limit = snapshot.get("limit")
        if self._follower is not None and is_number(limit):
            self._follower.start(limit)

    def stats(self, now):
        full = 0
        if self.max_minion_jobs or self.minion_jobs:
            full = sum(
                slots + _ROUNDING >= (self.minion_limit(minion) or float("inf"))
                for minion, slots in self.leases.slots.items()
            )
        return {"limit": self.limit(), "full_minions": full}


class _Follower:
    """A limit that follows the rate of returns.

    :ivar bool pressed: whether a job had to wait for the limit since the last look
    """

    def __init__(self, least, most, seconds):
        self.least = least
        self.most = most
        self.seconds = seconds
        self.limit = least
        self.pressed = False
        # until the rate of returns bounds the limit, it doubles
        self._seeking = True
        self._looked = None
        # since when it has been looked at once a second
        self._began = 0
        # [second, returns in it]
        self._returns = collections.deque()

    def start(self, limit):
        """Go on with a limit that was found before."""
        self._seeking = False
        self.limit = min(self.most, max(self.least, limit))

    def returned(self, now):
        """A minion has returned."""
        second = int(now)
        if not self._returns or self._returns[-1][0] != second:
            self._returns.append([second, 0])
        self._returns[-1][1] += 1

    def look(self, now):
        """Move the limit, at most once a second."""
        if self._looked is not None and 0 <= now - self._looked < 1:
            return
        pressed, self.pressed = self.pressed, False
        rested = self._looked is None or now - self._looked > _WINDOW
        self._looked = now
        while self._returns and self._returns[0][0] < int(now) - _WINDOW:
            self._returns.popleft()
        if rested:
            self._began = int(now)
        if rested or not pressed:
            # nothing is known of a limit that no job has come near to
            return
        # neither the second that is not over counts, nor those before the first job
        seconds = min(_WINDOW, max(1, int(now) - self._began))
        returns = sum(count for then, count in self._returns if then < int(now))
        bound = max(self.least, int(returns / seconds * self.seconds))
        grown = self.limit * 2 if self._seeking else self.limit + self.limit // 10
        self._seeking = self._seeking and grown <= bound
        self.limit = min(self.most, max(self.least, min(grown + 1, bound)))


def criteria(settings, leases):
    """Return the criteria of these settings."""
    return Capacity(settings, leases)
