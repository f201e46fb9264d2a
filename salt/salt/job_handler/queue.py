"""
The queue: which jobs wait, in which order they leave, and what becomes of them.

It has no clock and does no I/O. :meth:`Queue.advance` says what is to be done next. When
that is written down, :meth:`Queue.done` makes it hold.
"""

import collections
import functools
import heapq
import itertools
import logging

import salt.job_criteria
import salt.job_handler.estimate
import salt.payload

log = logging.getLogger(__name__)

#: Publish ``job`` to ``minions``, and leave ``excluded`` out, each with the reason. ``rest``
#: are its minions that still wait.
Dispatch = collections.namedtuple("Dispatch", ("job", "minions", "excluded", "rest"))

#: End ``job``, or what waits of it, for one of the following reasons.
Discard = collections.namedtuple("Discard", ("job", "reason"))

TIMEOUT = "timeout"
AGE = "age"
GONE = "gone"
CANCELLED = "cancelled"
REJECTED = "rejected"
OFF = "off"

SENTENCES = {
    TIMEOUT: "It waited in the master's queue for longer than its caller did",
    AGE: "It waited in the master's queue for longer than max_queue_age",
    GONE: "It waited in the master's queue when its caller ended",
    CANCELLED: "It was taken out of the master's queue",
    OFF: "It waited in the master's queue when the job handler was turned off",
}

#: After a publication has failed, nothing is published for so many seconds.
RETRY_SECONDS = 1

#: So many jobs are looked at that may go while the next one waits.
BESIDE = 100

#: So many minions of parked jobs are looked at each second, and at once. Each job counts
#: for some more.
LOOKS = 50000
LOOKS_AT_ONCE = 20000
LOOKS_OF_A_JOB = 20

#: The slots that a flow has got count half after so many seconds.
HALF_LIFE = 60

#: After each of these spans a job that waits has gained its first weight once more.
AGEING_SECONDS = 60

#: Of more flows than this, those are forgotten that got next to nothing.
FLOWS = 1000

#: Of so many jobs that do not wait it is remembered what administrators have said, for
#: later parts of batches.
ORDERS = 1000


class Job:
    """
    One publication that waits. A batch has several under one job id.

    :ivar int seq: its number
    :ivar list minions: the ids of its minions, sorted, or None while nobody needs them
    :ivar int count: how many minions it waits for
    :ivar float queued: when it was handed over
    :ivar float not_before: until then minions connect to the restarted master
    :ivar float deadline: when its caller stops waiting, or None
    :ivar bool sync: whether somebody waits for the answers
    :ivar bool forced: publish it at once, whatever the limits are
    :ivar bool fixed: its target must not change: on a master of masters, and if minions
        have resources
    :ivar str ticket: tells its caller which events are about it, as minions fire events
        with any tag
    :ivar list caller: the process that waits for it, or None
    :ivar float moved: when its last wave went out
    :ivar str reason: why it waits
    :ivar float cost: how many slots it occupies on each minion
    :ivar bool held: an administrator keeps it in the queue
    :ivar bool parked: other jobs pass until a lease ends
    :ivar dict left_out: the minions that do not get it, each with the reason
    :ivar bool notified: whether the caller knows that it waits
    """

    __slots__ = (
        "seq",
        "jid",
        "functions",
        "user",
        "count",
        "minions",
        "size",
        "queued",
        "not_before",
        "deadline",
        "sync",
        "forced",
        "fixed",
        "ticket",
        "caller",
        "waves",
        "sent",
        "moved",
        "_reason",
        "priority",
        "held",
        "parked",
        "flow",
        "left_out",
        "notified",
        "rule",
        "cost",
    )

    def __init__(self, seq, jid, fun, count, **values):
        self.seq = seq
        self.jid = jid
        self.functions = [fun] if isinstance(fun, str) else list(fun)
        self.count = count
        self.user = self.ticket = self.reason = ""
        self.size = self.waves = self.sent = self.priority = 0
        self.queued = self.not_before = 0.0
        self.sync = self.forced = self.fixed = False
        self.held = self.parked = self.notified = False
        self.minions = self.deadline = self.caller = self.flow = None
        self.left_out = {}
        # (version of the rules, the rule that matches)
        self.rule = (None, None)
        for name, value in values.items():
            setattr(self, name, value)
        self.moved = self.queued
        self.cost = 1

    @property
    def reason(self):
        """
        Why it waits, as a text that can be stored.
        """
        return self._reason

    @reason.setter
    def reason(self, value):
        self._reason = salt.job_criteria.text(value)

    @property
    def fun(self):
        """
        The function, or the list of functions of a compound command.
        """
        return self.functions[0] if len(self.functions) == 1 else self.functions


def _packable(value):
    """
    Return a dictionary, which may be None, as it can be stored.

    :raises Exception: if it can't be
    """
    return salt.payload.loads(salt.payload.dumps(dict(value or {}), use_bin_type=True))


def _number(value):
    """
    :raises ValueError: unless a value is a number above zero
    """
    if not salt.job_criteria.is_number(value):
        raise ValueError(f"{value!r:.100} is no number above 0")
    return value


class Guarded:
    """
    A criteria module of which no method but ``decide`` raises an exception, or returns what
    can't be used.

    :param Criteria criteria: the module
    """

    #: what makes sure that a value can be used, and what a method that fails returns
    CHECKS = {
        "beside": (bool, False),
        "collect": (lambda value: value, None),
        "cost": (_number, 1),
        "flow": (repr, ""),
        "learn": (bool, None),
        "released": (bool, None),
        "restore": (bool, None),
        "snapshot": (_packable, {}),
        "started": (bool, None),
        "stats": (_packable, {}),
        "weight": (_number, 1),
    }

    def __init__(self, criteria):
        self._criteria = criteria
        for name in self.CHECKS:
            setattr(self, name, functools.partial(self._call, name))

    def __getattr__(self, name):
        return getattr(self._criteria, name)

    def _call(self, name, *args):
        check, instead = self.CHECKS[name]
        try:
            return check(getattr(self._criteria, name)(*args))
        except Exception:  # pylint: disable=broad-except
            log.exception("The criteria module failed in %s", name)
            return instead


class _Shares:
    """
    How many slots each flow has got recently.
    """

    def __init__(self):
        self._got = {}

    def got(self, flow, now):
        slots, then = self._got.get(flow, (0, now))
        return slots * 0.5 ** (max(0, now - then) / HALF_LIFE)

    def add(self, flow, slots, now):
        self._got[flow] = (max(0, self.got(flow, now) + slots), now)
        if len(self._got) > FLOWS:
            self._got = {
                name: got for name, got in self._got.items() if self.got(name, now) > 1
            }


class Queue:
    """
    :param Criteria criteria: decides
    :param Leases leases: who runs what
    :param Rules rules: see :mod:`salt.job_handler.policy`
    :param dict section: the settings
    :param callable minions_of: returns the ids of the minions that a job waits for
    """

    def __init__(self, criteria, leases, rules, section, minions_of):
        self.criteria = Guarded(criteria)
        self.leases = leases
        self.rules = rules
        self.section = section
        self.minions_of = minions_of
        self.counters = collections.Counter()
        self.bytes = 0
        #: nothing is published before this
        self.held_until = None
        #: whether :meth:`advance` has ended because it had looked at much
        self.more = False
        #: whether the criteria module has failed on the last job
        self.failing = False
        self._jobs = {}
        #: ``{(priority, flow): {seq: job}}``, without those that are held or parked
        self.flows = {}
        self._jids = {}
        self._parked = collections.OrderedDict()
        self._looks, self._looked = LOOKS_AT_ONCE, None
        self._deadlines = []
        self._ties = itertools.count()
        self.shares = _Shares()
        self.estimate = salt.job_handler.estimate.Estimate(self, leases)
        # {job id: (priority, held, cancelled)}
        self.orders = collections.OrderedDict()

    def __len__(self):
        return len(self._jobs)

    def __iter__(self):
        return iter(sorted(self._jobs.values(), key=lambda job: -job.priority))

    def __contains__(self, job):
        return job.seq in self._jobs

    def get(self, seq):
        """
        Return the job with a number, or None if it does not wait.
        """
        return self._jobs.get(seq)

    # ------------------------------------------------------------------
    # Jobs come and go
    # ------------------------------------------------------------------

    def put(self, job):
        """
        Add a job.
        """
        oldest = job.queued + self.section["max_queue_age"]
        job.deadline = min(oldest, job.deadline or oldest)
        rule = self._rule(job)
        if rule is not None and rule.priority is not None:
            job.priority = rule.priority
        self._obey(job)
        job.flow = self.criteria.flow(job)
        self._jobs[job.seq] = job
        self._jids.setdefault(job.jid, {})[job.seq] = job
        self.bytes += job.size
        self._watch(job)
        self._line_up(job)

    def _watch(self, job):
        """
        Look at a job again at its deadline.
        """
        heapq.heappush(self._deadlines, (job.deadline, next(self._ties), job))
        if len(self._deadlines) > 2 * len(self._jobs) + 100:
            self._deadlines = [
                (job.deadline, next(self._ties), job) for job in self._jobs.values()
            ]
            heapq.heapify(self._deadlines)

    def _line_up(self, job):
        """
        Put a job into its flow, in the order of the numbers.
        """
        if job.held or job.parked:
            return
        jobs = self.flows.setdefault((job.priority, job.flow), {})
        in_order = not jobs or next(reversed(jobs)) < job.seq
        jobs[job.seq] = job
        if not in_order:
            self.flows[job.priority, job.flow] = dict(sorted(jobs.items()))

    def _step_out(self, job):
        key = (job.priority, job.flow)
        if self.flows.get(key, {}).pop(job.seq, None) and not self.flows[key]:
            del self.flows[key]

    def remove(self, job):
        """
        Take a job out.
        """
        self._step_out(job)
        self._parked.pop(job.seq, None)
        job.parked = False
        del self._jobs[job.seq]
        del self._jids[job.jid][job.seq]
        if not self._jids[job.jid]:
            del self._jids[job.jid]
        self.bytes -= job.size

    def of_jid(self, jid):
        """
        Return the publications under a job id that wait.
        """
        return list(self._jids.get(jid, {}).values())

    def order(self, jid, *order):
        """
        Give a job another priority, keep it in the queue or let it go, or cancel it. This
        holds for the parts of a batch that come later as well.

        :param order: priority, whether it is held, and whether it is cancelled; None for
            what stays as it is
        :return: how many minions wait for it
        """
        before = self.orders.pop(jid, (None, None, None))
        self.orders[jid] = tuple(
            old if new is None else new for old, new in zip(before, order)
        )
        for job in self.of_jid(jid):
            self._step_out(job)
            self._obey(job)
            self._watch(job)
            self._line_up(job)
        gone = [name for name in self.orders if name not in self._jids]
        for name in gone[: max(0, len(gone) - ORDERS)]:
            del self.orders[name]
        return sum(job.count for job in self.of_jid(jid))

    def _obey(self, job):
        """
        Do what an administrator has said of a job.
        """
        priority, held, cancelled = self.orders.get(job.jid, (None, None, None))
        if priority is not None:
            job.priority = priority
        if held is not None:
            job.held = held
        if cancelled:
            # the next step takes it out
            job.deadline = job.queued

    def is_cancelled(self, job):
        """
        Return whether a job was cancelled before it, or this part of it, came.
        """
        return bool(self.orders.get(job.jid, (None, None, None))[2])

    def cancel(self, jid, minions=None):
        """
        Return the actions that take a job out of the queue.

        :param set minions: only these of its minions
        """
        ret = []
        for job in self.of_jid(jid):
            ids = self._minions(job)
            gone = ids if minions is None else [name for name in ids if name in minions]
            if len(gone) == len(ids):
                ret.append(Discard(job, CANCELLED))
            elif gone and not job.fixed:
                excluded = dict.fromkeys(gone, SENTENCES[CANCELLED])
                ret.append(self._dispatch(job, [], excluded))
        return ret

    def force(self, job):
        """
        Return the action that publishes a job at once, whatever the limits are.
        """
        return self._dispatch(job, self._minions(job), {})

    def _minions(self, job):
        if job.minions is None:
            job.minions = self.minions_of(job)
        return job.minions

    # ------------------------------------------------------------------
    # What is to be done
    # ------------------------------------------------------------------

    def pausing(self, now):
        """
        Return whether the queue is paused. Pauses that are over end.
        """
        self.rules.end_pauses(now)
        return self.rules.paused_until is not None

    def hold(self, now, seconds=RETRY_SECONDS):
        """
        Publish nothing for a moment.
        """
        self.held_until = max(now + seconds, self.held_until or 0)

    def waiting(self, now):
        """
        Return whether jobs wait that only a lease holds up.
        """
        if self.pausing(now) or self.held_until is not None:
            return False
        return any(
            not job.held and (job.rule[1] is None or job.rule[1].action != "pause")
            for job in self._jobs.values()
        )

    def advance(self, now):
        """
        Return what is to be done next, or None.
        """
        if self.held_until is not None and now >= self.held_until:
            self.held_until = None
        self.more = False
        if self.held_until is not None:
            return None
        while self._deadlines and self._deadlines[0][0] <= now:
            job = self._deadlines[0][2]
            if self._jobs.get(job.seq) is job and job.deadline <= now:
                return Discard(job, self._overdue(job, now))
            heapq.heappop(self._deadlines)
        if self.pausing(now):
            return None
        self._unpark(now)
        looks = LOOKS_AT_ONCE
        while True:
            job = self._next(now)
            self.more = job is not None and looks <= 0
            if job is None or self.more:
                return None
            looks -= LOOKS_OF_A_JOB + job.count
            action = self._decide(job, now)
            if action is None and not job.parked:
                return self._beside(job, now)
            if action is not None:
                return action

    def _overdue(self, job, now):
        """
        Return why a job is not published any more.
        """
        if self.is_cancelled(job):
            return CANCELLED
        aged = now >= job.queued + self.section["max_queue_age"]
        return AGE if aged else TIMEOUT

    def _next(self, now):
        """
        Return the job whose turn it is: of the highest priority, that of the flow that
        got the fewest slots recently, for what it is worth and for as long as it waits.
        """
        if not self.flows:
            return None
        top = max(priority for priority, _ in self.flows)
        heads = [
            next(iter(jobs.values()))
            for (priority, _), jobs in self.flows.items()
            if priority == top
        ]
        if len(heads) == 1:
            return heads[0]
        return min(heads, key=lambda job: (self.served(job, now), job.seq))

    def served(self, job, now, shares=None):
        """
        Return what the flow of a job got recently, for what it is worth and for as long
        as the job waits: the one with the least comes next.

        :param shares: in place of those of the queue
        """
        weight = self.criteria.weight(job)
        weight *= 1 + max(0, now - job.queued) / AGEING_SECONDS
        # one slot more, so that weights count among flows that got nothing
        return ((shares or self.shares).got(job.flow, now) + 1) / weight

    def _beside(self, waiting, now):
        """
        Return the action for a small job that may go while another one waits for room.
        """
        # without those that are held or parked, however many these are
        flows = (flow.values() for flow in self.flows.values())
        oldest = heapq.merge(*flows, key=lambda job: job.seq)
        for job in list(itertools.islice(oldest, BESIDE)):
            if job is waiting:
                continue
            rule = self._rule(job)
            accepted = rule is not None and rule.action == "accept"
            may = job.forced or accepted or self.criteria.beside(job, now)
            if may:
                action = self._decide(job, now)
                if action is not None:
                    return action
        return None

    def _unpark(self, now):
        """
        Look at parked jobs anew, as many as there is time for.
        """
        passed = 0 if self._looked is None else max(0, now - self._looked)
        self._looked = now
        self._looks = min(LOOKS_AT_ONCE, self._looks + passed * LOOKS)
        while self._parked and self._looks > 0:
            _, job = self._parked.popitem(last=False)
            self._looks -= LOOKS_OF_A_JOB + job.count
            job.parked = False
            self._line_up(job)

    def _park(self, job):
        self._step_out(job)
        job.parked = True
        self._parked[job.seq] = job
        if not job.waves:
            # the store has them, and many jobs may be parked
            job.minions = None

    def _rule(self, job):
        """
        Return the rule that matches a job, or None; note what the job costs.
        """
        if job.rule[0] != self.rules.version:
            minions = job.minions
            if minions is None and self.rules.targets:
                # not kept: many jobs may wait
                minions = self.minions_of(job)
            rule = self.rules.find(job.functions, job.user, minions or ())
            job.rule = (self.rules.version, rule)
            job.cost = self._cost(job, rule)
        return job.rule[1]

    def _cost(self, job, rule):
        if rule is not None and rule.cost is not None:
            return rule.cost
        return self.criteria.cost(job)

    def count(self, jid, functions, rule):
        """
        Let a job that runs count for the rule that matches it, and for estimates.
        """
        self.estimate.dispatched(jid, functions)
        if rule is not None:
            rule.jids.add(jid)

    def adopt(self, job):
        """
        Let a job count that a worker has published.
        """
        self.count(job.jid, job.functions, self._rule(job))

    def count_again(self, jid, info, minions):
        """
        Let a job that runs count after a restart.

        :param info: ``(function, user)``, or None if that is not known any more
        """
        if info is not None:
            functions = [info[0]] if isinstance(info[0], str) else info[0]
            rule = self.rules.find(functions, info[1], minions)
            self.count(jid, functions, rule)

    def _decide(self, job, now):
        """
        Return the action for a job, or None if it has to wait.
        """
        minions, rule = self._minions(job), self._rule(job)
        if rule is not None and rule.action == "reject":
            job.reason = rule.reason
            return Discard(job, REJECTED)
        if not minions:
            # a worker has published it, or the database was damaged
            job.reason = "Its minions are not known any more"
            return Discard(job, REJECTED)
        if rule is not None and rule.action == "pause":
            job.reason = rule.reason
            self._park(job)
            return None
        if now < job.not_before and not job.forced:
            job.reason = "its minions connect to the master, which was restarted"
            self._park(job)
            return None
        if job.forced or (rule is not None and rule.action == "accept"):
            decision = salt.job_criteria.publish(minions)
        else:
            decision = self._ask(job, now)
        if rule is not None and rule.action == "limit" and decision.minions:
            decision = self._limited(job, rule, decision)
        if decision.minions is None:
            job.reason = decision.reason
            if decision.parked:
                self._park(job)
            return None
        return self._dispatch(job, decision.minions, decision.excluded)

    def _limited(self, job, rule, decision):
        """
        Return a decision that keeps to the limit of a rule.
        """
        rule.jids.intersection_update(self.leases.jobs)
        occupied = sum(map(self.leases.of_job, rule.jids))
        room = int((rule.limit - occupied) // job.cost)
        if not occupied:
            # one that costs more than the limit does not wait for ever
            room = max(1, room)
        if room >= len(decision.minions) or (job.fixed and not occupied):
            rule.jids.add(job.jid)
            return decision
        if room < 1 or job.fixed:
            return salt.job_criteria.park(
                f"{rule.reason}: {occupied:g} of {rule.limit:g} slots are occupied"
            )
        rule.jids.add(job.jid)
        return salt.job_criteria.publish(decision.minions[:room], decision.excluded)

    def _ask(self, job, now):
        """
        Return the decision of the criteria module, or that of ``fail_mode``.
        """
        try:
            decision = self.criteria.decide(job, now)
            if decision.minions is not None:
                # a module may give them in any form, and not each can be stored
                decision = decision._replace(
                    minions=list(decision.minions), excluded=dict(decision.excluded)
                )
                self._check(job, decision)
            self.failing = False
            return decision
        except Exception:  # pylint: disable=broad-except
            mode = self.section["fail_mode"]
            log.critical(
                "The criteria module failed on job %s, and fail_mode is %s",
                job.jid,
                mode,
                exc_info=True,
            )
            self.counters["criteria_failures"] += 1
            self.failing = True
        if mode == "closed":
            return salt.job_criteria.requeue("the criteria module failed")
        return salt.job_criteria.publish(job.minions)

    @staticmethod
    def _check(job, decision):
        """
        :raises ValueError: if a decision is not about the minions of the job
        """
        if decision.minions == job.minions and not decision.excluded:
            return
        named = {*decision.minions, *decision.excluded}
        if len(named) < len(decision.minions) + len(decision.excluded):
            raise ValueError("the decision names a minion twice")
        if not named or not named.issubset(job.minions):
            raise ValueError("the decision is not about minions of the job")

    @staticmethod
    def _dispatch(job, minions, excluded):
        excluded = {
            minion: salt.job_criteria.text(reason)
            for minion, reason in excluded.items()
        }
        if len(minions) + len(excluded) >= len(job.minions):
            return Dispatch(job, minions, excluded, [])
        gone = {*minions, *excluded}
        rest = [name for name in job.minions if name not in gone]
        return Dispatch(job, minions, excluded, rest)

    def done(self, action, now):
        """
        An action is written down: its minions get their leases, or its job ends.
        """
        job = action.job
        if isinstance(action, Discard):
            self.remove(job)
            cancelled = action.reason == CANCELLED
            self.counters["cancelled" if cancelled else "discarded"] += 1
            return
        minions = action.minions
        self.leases.take(job.jid, minions, job.cost, now)
        self.estimate.dispatched(job.jid, job.functions)
        self.shares.add(job.flow, job.cost * len(minions), now)
        job.minions, job.count = action.rest, len(action.rest)
        job.sent += len(minions)
        job.waves += 1
        job.moved, job.reason = now, ""
        if not job.count:
            self.remove(job)
            self.counters["dispatched"] += 1
        self.counters["waves"] += bool(minions)
        self.counters["excluded"] += len(action.excluded)

    @staticmethod
    def without(action):
        """
        Return for which minions a job waits if a wave could not be published, and how many
        waves it has: the next try is a further one, which does not reach who was left out,
        or takes the place of this one.
        """
        job = action.job
        waves = job.waves if action.excluded else job.waves - 1
        return sorted([*job.minions, *action.minions]), waves

    def undo(self, action, now):
        """
        A wave could not be published: its minions wait again, and nothing is published for
        a moment.
        """
        job = action.job
        self.hold(now)
        for minion in action.minions:
            self.leases.end(job.jid, minion, undo=True)
        self.shares.add(job.flow, -job.cost * len(action.minions), now)
        job.minions, job.waves = self.without(action)
        job.count = len(job.minions)
        job.sent -= len(action.minions)
        job.reason = "it could not be published"
        self.counters["aborted"] += 1
        if not action.rest:
            self.counters["dispatched"] -= 1
            self.put(job)
