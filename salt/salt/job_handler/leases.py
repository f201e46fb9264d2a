"""
Who occupies a slot: a minion does exactly while it has a lease that has not expired.

A minion that has not returned after ``long_running`` seconds is asked what it runs. If its
answer names the job, the lease is renewed; anything else lets it expire. A minion that was
asked twice and from which nothing came is *silent*, and gets no jobs until something comes
from it. This is a state machine without I/O, and times are seconds.
"""

import collections
import dataclasses
import heapq
import itertools

#: Stands for the minions behind syndics, whose ids a master of masters does not know.
UNKNOWN = "*"

#: Publish ``fun`` with ``arg`` to ``minions``, and pass the job id to :meth:`Leases.asked`.
Question = collections.namedtuple("Question", ("fun", "arg", "minions"))

RUNNING = "saltutil.running"
FIND_JOB = "saltutil.find_job"

#: A minion is asked so many times before its leases expire.
TRIES = 2

#: If jobs wait and no lease has ended for so many seconds, minions are asked early.
STILL_SECONDS = 5

#: The number of minions to ask may be saved up for so many seconds.
BURST_SECONDS = 5

#: At most so many jobs are asked for by name in one step.
FIND_JOBS = 20

#: A silent minion is asked again after so many seconds, at first and at most.
PROBE_SECONDS = (60, 3600)

#: For so long after most slots were with silent minions, minions are asked first.
CAREFUL_SECONDS = 60

#: Sums of fractions below this are rounding errors.
ROUNDING = 1e-9


@dataclasses.dataclass(eq=False)
class Lease:
    """The lease that all minions of a wave share, or that one of them has renewed."""

    jid: str
    #: how many slots it occupies on each minion
    cost: float
    #: when the job was published
    since: float
    #: when it began, or was renewed
    at: float
    #: the functions of the job
    fun: str = ""
    #: whether the minion said that it runs the job
    renewed: bool = False


class _Check:
    """A minion that is to be asked what it runs, or has been.

    :ivar dict jids: when it was asked for each job, or None
    :ivar set unnamed: the jobs that its answer did not name
    :ivar float unanswered: when it was asked first since anything came from it, or None
    :ivar bool first: whether jobs wait until it has answered
    """

    def __init__(self):
        self.jids = {}
        self.unnamed = set()
        self.last = self.unanswered = None
        self.first = False


class Leases:
    """The leases of all minions, and the questions that renew them.

    :param float long_running: seconds after which a minion is asked what it runs
    :param float interval: seconds that it has to answer, each time
    """

    def __init__(self, long_running=60, interval=15, rate=100):
        self.long_running = long_running
        self.interval = interval
        self.rate = rate
        #: the leases, as ``{job id: {minion: lease}}``
        self.jobs = {}
        #: how many slots of each minion are occupied, and of all minions together
        self.slots = {}
        self.occupied = 0
        #: how many of these belong to renewed leases
        self.renewed = 0
        #: the silent minions, and since when they are
        self.silent = {}
        #: ``(job id, minion)`` of the leases that have ended, until it is written down
        self.ended = []
        #: how many leases have ended so far
        self.count = 0
        # (when, number, lease, minion or None): when minions are to be asked
        self._due = []
        self._numbers = itertools.count()
        self._checks = collections.defaultdict(_Check)
        # the minions to ask, in their order
        self._queue = collections.OrderedDict()
        # {job id of a question: (function, job id asked for, when)}
        self._questions = {}
        # {silent minion: (when to ask it, how long to wait after that)}
        self._probes = {}
        self._room, self._filled = rate, None
        # slots of minions that do not answer, as of the last step
        self._late = 0
        # until when minions are asked first, and which were heard of since that began
        self._careful_until = float("-inf")
        self._seen = set()
        # how many leases had ended, and since when it is that many
        self._still = (0, None)

    def __len__(self):
        return sum(map(len, self.jobs.values()))

    def has(self, jid, minion):
        """Return whether a minion has a lease for a job."""
        return minion in self.jobs.get(jid, ())

    def of_job(self, jid):
        """Return how many slots a job occupies."""
        return sum(lease.cost for lease in self.jobs.get(jid, {}).values())

    # Changes

    def take(self, jid, minions, cost, now, since=None, fun=""):
        """Give minions that have none a lease for a job that was published then."""
        lease = Lease(jid, cost, now if since is None else since, now, fun)
        held = self.jobs.get(jid)
        if held:
            minions = [minion for minion in minions if minion not in held]
        if not minions:
            return
        fresh = dict.fromkeys(minions, lease)
        self.jobs[jid] = {**held, **fresh} if held else fresh
        slots = self.slots
        # pylint takes a view of keys for a list
        if slots.keys().isdisjoint(fresh):  # pylint: disable=no-member
            slots.update(dict.fromkeys(fresh, cost))
        else:
            for minion in fresh:
                slots[minion] = slots.get(minion, 0) + cost
        self.occupied += cost * len(fresh)
        self._ask_later(lease, now)

    def sent(self, jid, minions, now):
        """Minions that have a lease for a job may have been sent it only now."""
        leases, fresh = self.jobs.get(jid, {}), None
        for minion in minions:
            lease = leases.get(minion)
            if lease is not None and not lease.renewed:
                fresh = fresh or dataclasses.replace(lease, since=now, at=now)
                leases[minion] = fresh
                self._drop(jid, minion)
        if fresh is not None:
            self._ask_later(fresh, now)

    def _ask_later(self, lease, now, minion=None):
        when = now + self.long_running
        heapq.heappush(self._due, (when, next(self._numbers), lease, minion))

    def end(self, jid, minion, undo=False):
        """End a lease, and return whether there was one; ``undo`` leaves no trace."""
        leases = self.jobs.get(jid)
        lease = leases.pop(minion, None) if leases else None
        if lease is None:
            return False
        if not leases:
            del self.jobs[jid]
        left = self.slots[minion] - lease.cost
        if left > ROUNDING:
            self.slots[minion] = left
        else:
            del self.slots[minion]
        self.occupied = max(0, self.occupied - lease.cost) if self.jobs else 0
        if lease.renewed:
            self.renewed = max(0, self.renewed - lease.cost) if self.jobs else 0
        self._drop(jid, minion)
        if not undo:
            self.ended.append((jid, minion))
            self.count += 1
        return True

    def renew(self, jid, minion, now):
        """The minion runs the job."""
        lease = self.jobs.get(jid, {}).get(minion)
        if lease is None:
            return
        if not lease.renewed:
            self.renewed += lease.cost
        lease = dataclasses.replace(lease, at=now, renewed=True)
        self.jobs[jid][minion] = lease
        self._ask_later(lease, now, minion)
        self._drop(jid, minion)

    def heard(self, minion):
        """Something came from a minion."""
        self._seen.add(minion)
        if minion in self.silent:
            self.forget(minion)
        if minion in self._checks:
            self._checks[minion].unanswered = None

    def careful(self, limit, now):
        """Return whether minions are asked first: most slots are with silent ones."""
        if self._late * 2 > limit:
            if now >= self._careful_until:
                self._seen.clear()
            self._careful_until = now + CAREFUL_SECONDS
        return now < self._careful_until

    def answers(self, minion):
        """Return whether a minion has been heard of since then. If not, ask it."""
        if minion not in self._seen:
            if minion not in self._checks:
                self._queue[minion] = None
            self._checks[minion].first = True
        return minion in self._seen

    def set_silent(self, minion, since, now):
        """Note that a minion is silent, and when it is asked again."""
        self.silent[minion] = since
        self._probes[minion] = (now + PROBE_SECONDS[0], PROBE_SECONDS[0])

    def forget(self, minion):
        """The key of a silent minion has been deleted."""
        self.silent.pop(minion, None)
        self._probes.pop(minion, None)

    def returned(self, jid, minion, now):
        """Return whether what a minion has returned ends a lease. It may come twice."""
        self.heard(minion)
        if self.end(jid, minion):
            return True
        if self.has(jid, UNKNOWN):
            # from behind a syndic: the job goes on there
            self.jobs[jid][UNKNOWN].at = now
        return False

    def doubt(self, minion=None):
        """Ask a minion, or all, what they run, and return of how many leases."""
        count = 0
        for jid, leases in self.jobs.items():
            for name in leases if minion is None else {minion}.intersection(leases):
                self._check(name, jid)
                count += 1
        return count

    def stood_still(self, seconds):
        """Add seconds in which nothing was read to the times of all that is asked."""
        self._questions = {
            jid: (fun, wanted, when + seconds)
            for jid, (fun, wanted, when) in self._questions.items()
        }
        for leases in self.jobs.values():
            if UNKNOWN in leases:
                leases[UNKNOWN].since += seconds
                leases[UNKNOWN].at += seconds
        for check in self._checks.values():
            for jid, asked in check.jids.items():
                if asked is not None:
                    check.jids[jid] = asked + seconds
            if check.last is not None:
                check.last += seconds
            if check.unanswered is not None:
                check.unanswered += seconds

    def _check(self, minion, jid):
        if minion == UNKNOWN:
            return
        jids = self._checks[minion].jids
        if jid not in jids:
            jids[jid] = None
            self._queue[minion] = None

    def _drop(self, jid, minion):
        if minion in self._checks:
            self._checks[minion].jids.pop(jid, None)
            self._checks[minion].unnamed.discard(jid)

    # Questions

    def tick(self, now, waiting=False):
        """Let leases expire, and return the questions that are due."""
        self._find_due(now)
        if not waiting or self.count != self._still[0] or self._still[1] is None:
            self._still = (self.count, now)
        elif now - self._still[1] >= STILL_SECONDS:
            self._still = (self.count, now)
            for jid, leases in self.jobs.items():
                for minion, lease in leases.items():
                    if lease.at <= now - STILL_SECONDS and not lease.renewed:
                        self._check(minion, jid)
        self._expire(now)
        self._late = sum(
            self.slots.get(minion, 0)
            for minion, check in self._checks.items()
            if check.unanswered is not None and now - check.unanswered >= STILL_SECONDS
        )
        if now >= self._careful_until:
            self._seen.clear()
        old = now - 2 * TRIES * self.interval
        for jid in [jid for jid, row in self._questions.items() if row[2] < old]:
            del self._questions[jid]
        passed = 0 if self._filled is None else max(0, now - self._filled)
        self._filled = now
        self._room = min(self.rate * BURST_SECONDS, self._room + passed * self.rate)
        # first those who have answered the first question: they are nearly done
        return [*self._find_jobs(now), *self._ask_running(now), *self._probe(now)]

    def _find_due(self, now):
        while self._due and self._due[0][0] <= now:
            _, _, lease, minion = heapq.heappop(self._due)
            leases = self.jobs.get(lease.jid, {})
            if minion is None:
                names = [name for name, held in leases.items() if held is lease]
            else:
                names = [minion] if leases.get(minion) is lease else []
            for name in names:
                self._check(name, lease.jid)
        for jid in [jid for jid, leases in self.jobs.items() if UNKNOWN in leases]:
            # a minion behind a syndic can't be asked
            lease = self.jobs[jid][UNKNOWN]
            returned = lease.at > lease.since
            if now - lease.at >= (self.interval if returned else self.long_running):
                self.end(jid, UNKNOWN)

    def _expire(self, now):
        patience = TRIES * self.interval
        for minion, check in list(self._checks.items()):
            for jid, asked in list(check.jids.items()):
                if asked is None or jid in check.unnamed:
                    continue
                if now - asked >= patience:
                    self.end(jid, minion)
            since = check.unanswered
            if since is not None and now - since >= patience:
                self.set_silent(minion, self.silent.get(minion, now), now)
            elif since is not None and now - check.last >= self.interval:
                self._queue[minion] = None
            waits = since is not None or minion in self._queue
            first = check.first and waits and minion not in self.silent
            if not (check.jids or first):
                del self._checks[minion]
                self._queue.pop(minion, None)

    def _take_room(self, minions):
        taken = list(itertools.islice(minions, max(0, int(self._room))))
        self._room -= len(taken)
        return taken

    def _ask_running(self, now):
        minions = self._take_room(self._queue)
        for minion in minions:
            del self._queue[minion]
            check = self._checks[minion]
            check.last = now
            if check.unanswered is None:
                check.unanswered = now
            for jid, asked in check.jids.items():
                if asked is None:
                    check.jids[jid] = now
        return [Question(RUNNING, [], sorted(minions))] if minions else []

    def _find_jobs(self, now):
        """Ask by name for jobs that may wait in the minion's own queue."""
        wanted = {}
        for minion, check in self._checks.items():
            for jid in check.unnamed:
                if jid in wanted or len(wanted) < FIND_JOBS:
                    wanted.setdefault(jid, []).append(minion)
        ret = []
        for jid, minions in sorted(wanted.items()):
            minions = self._take_room(minions)
            for minion in minions:
                self._checks[minion].unnamed.discard(jid)
                self._checks[minion].jids[jid] = now
            if minions:
                ret.append(Question(FIND_JOB, [jid], sorted(minions)))
        return ret

    def _probe(self, now):
        due = (name for name, (when, _) in self._probes.items() if when <= now)
        minions = self._take_room(due)
        for minion in minions:
            wait = min(PROBE_SECONDS[1], 2 * self._probes[minion][1])
            self._probes[minion] = (now + wait, wait)
        return [Question(RUNNING, [], sorted(minions))] if minions else []

    def asked(self, jid, question, now):
        """A question is about to be published under this job id."""
        self._questions[jid] = (question.fun, (question.arg or [None])[0], now)

    def not_asked(self, jid, question):
        """A question could not be published: ask again."""
        del self._questions[jid]
        for minion in filter(self._checks.__contains__, question.minions):
            check = self._checks[minion]
            if question.fun == FIND_JOB:
                check.unnamed.update(set(question.arg).intersection(check.jids))
            else:
                check.unanswered = None
                check.jids = dict.fromkeys(check.jids)
                self._queue[minion] = None

    def is_question(self, jid):
        """Return whether a job id belongs to a question."""
        return jid in self._questions

    def answered(self, jid, minion, answer, now):
        """A minion has answered a question."""
        self.heard(minion)
        fun, wanted, _ = self._questions[jid]
        check = self._checks.get(minion)
        if check is None:
            return
        if fun == RUNNING and isinstance(answer, list):
            running = {job.get("jid") for job in answer if isinstance(job, dict)}
            for named in running.intersection(check.jids):
                self.renew(named, minion, now)
            check.unnamed = set(check.jids)
        elif fun == FIND_JOB and isinstance(answer, dict) and answer:
            self.renew(wanted, minion, now)
