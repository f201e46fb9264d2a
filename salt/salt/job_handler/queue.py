"""
The queue: which jobs wait, in which order they leave, and what becomes of them.

It has no clock and does no I/O. :meth:`Queue.advance` says what is to be done next. When
that is written down, :meth:`Queue.done` makes it hold.
"""

import collections
import dataclasses
import heapq
import itertools
import logging

import salt.job_criteria
import salt.payload

log = logging.getLogger(__name__)

#: ``excluded`` maps minions to reasons, and ``rest`` are those that still wait.
Dispatch = collections.namedtuple("Dispatch", ("job", "minions", "excluded", "rest"))
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

#: So many minions of jobs are looked at each second, and at once; each job counts more.
LOOKS = 50000
LOOKS_AT_ONCE = 20000
LOOKS_OF_A_JOB = 20

#: The slots that a flow has got count half after so many seconds.
HALF_LIFE = 60

#: After each of these spans a job that waits has gained its first weight once more.
AGEING_SECONDS = 60

#: Of more flows than this, those are forgotten that got next to nothing.
FLOWS = 1000


@dataclasses.dataclass(eq=False)
class Job:
    """One publication that waits. A batch has several under one job id."""

    seq: int
    jid: str
    #: the function, or the list of functions of a compound command
    fun: object
    #: for how many minions it waits
    count: int = 0
    user: str = ""
    #: the ids of these minions, sorted, or None while nobody needs them
    minions: list = None
    size: int = 0
    #: when it was handed over
    queued: float = 0.0
    #: until then minions connect to the restarted master
    not_before: float = 0.0
    #: when it is given up, at first by its caller; None for never
    deadline: float = None
    #: whether somebody waits for the answers
    sync: bool = False
    #: whether it is published at once, whatever the limits are
    forced: bool = False
    #: its target must not change: on a master of masters, and if minions have resources
    fixed: bool = False
    #: tells its caller which events are about it, as minions fire events with any tag
    ticket: str = ""
    #: the process that waits for it, or None
    caller: list = None
    #: the process that has handed it over, or None
    worker: list = None
    waves: int = 0
    sent: int = 0
    #: when its last wave went out
    moved: float = 0.0
    reason: str = ""
    priority: int = 0
    #: the priority that an administrator gave it, or None
    ordered: int = None
    #: an administrator keeps it in the queue
    held: bool = False
    #: somebody took it out of the queue, maybe before this part of a batch came
    cancelled: bool = False
    #: other jobs pass until a lease ends
    parked: bool = False
    flow: object = None
    #: whether the caller knows that it waits, when it was told last, and looked after
    notified: bool = False
    told: float = 0.0
    looked: float = 0.0
    #: (version of the rules, the rule that matches)
    rule: tuple = (None, None)
    #: how many slots it occupies on each minion
    cost: float = 1

    def __post_init__(self):
        self.moved = self.queued
        # by its caller
        self.asked = (self.priority, self.deadline)

    @property
    def functions(self):
        return [self.fun] if isinstance(self.fun, str) else self.fun

    @property
    def name(self):
        return " ".join(self.functions)


def _packable(value):
    return salt.payload.loads(salt.payload.dumps(dict(value or {}), use_bin_type=True))


def _figures(value):
    ret = _packable(value)
    if ret.get("limit") is not None:
        _number(ret["limit"])
    return ret


def _number(value):
    if not salt.job_criteria.is_number(value):
        raise ValueError(f"{value!r:.100} is no number above 0")
    return value


#: Each raises an exception if a value of a criteria module can't be used.
_CHECKS = {
    "beside": bool,
    "cost": _number,
    "flow": repr,
    "snapshot": _packable,
    "stats": _figures,
    "weight": _number,
}


class Guarded:
    """
    A criteria module. Where a method but ``decide`` fails, that of the base class stands
    in.
    """

    def __init__(self, criteria):
        self._criteria = criteria

    def __getattr__(self, name):
        if name == "decide":
            return self._criteria.decide

        def call(*args):
            try:
                value = getattr(self._criteria, name)(*args)
                return _CHECKS[name](value) if name in _CHECKS else value
            except Exception:  # pylint: disable=broad-except
                log.exception("The criteria module failed in %s", name)
                return getattr(salt.job_criteria.Criteria, name)(self._criteria, *args)

        return call


class _Shares:
    """How many slots each flow has got recently."""

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
    """:param callable minions_of: returns the ids of the minions that a job waits for"""

    def __init__(self, criteria, leases, rules, section, minions_of):
        self.criteria = Guarded(criteria)
        self.leases = leases
        self.rules = rules
        self.section = section
        self.minions_of = minions_of
        #: nothing is published before this
        self.held_until = None
        #: whether :meth:`advance` has ended because it had looked at much
        self.more = False
        #: whether the criteria module failed on the last job
        self.failing = False
        self._jobs = {}
        #: ``{(priority, flow): {seq: job}}``, without those that are held or parked
        self.flows = {}
        self._parked = collections.OrderedDict()
        self._looks, self._looked = LOOKS_AT_ONCE, None
        self.shares = _Shares()

    def __len__(self):
        return len(self._jobs)

    def __iter__(self):
        jobs = self._jobs.values()
        return iter(sorted(jobs, key=lambda job: (-job.priority, job.seq)))

    def __contains__(self, job):
        return job.seq in self._jobs

    def get(self, seq):
        """Return the job with a number, or None if it does not wait."""
        return self._jobs.get(seq)

    def of_jid(self, jid):
        """Return the jobs with a job id."""
        return [job for job in self._jobs.values() if job.jid == jid]

    # Jobs come and go

    def put(self, job):
        """Add a job."""
        self._jobs[job.seq] = job
        self.place(job)

    def place(self, job):
        """Give a job its place, as it is new or what says so has changed."""
        self._step_out(job)
        job.priority, deadline = job.asked
        oldest = job.queued + self.section["max_queue_age"]
        # a cancelled one is taken out when it is looked at
        job.deadline = job.queued if job.cancelled else min(oldest, deadline or oldest)
        rule = self._rule(job)
        if job.ordered is not None:
            job.priority = job.ordered
        elif rule is not None and rule.priority is not None:
            job.priority = rule.priority
        job.flow = self.criteria.flow(job)
        self._line_up(job)

    def _line_up(self, job):
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
        """Take a job out."""
        self._step_out(job)
        self._parked.pop(job.seq, None)
        job.parked = False
        del self._jobs[job.seq]

    def order(self, jid, priority=None, held=None, cancelled=None):
        """Order a job, see :meth:`Store.order`; return for how many minions it waits."""
        jobs = self.of_jid(jid)
        for job in jobs:
            self._step_out(job)
            job.ordered = job.ordered if priority is None else priority
            job.held = job.held if held is None else held
            job.cancelled = job.cancelled or bool(cancelled)
            self.place(job)
        return sum(job.count for job in jobs)

    def cancel(self, jid, minions=None):
        """Return the actions that take a job, or some of its minions, out."""
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
        """Return the action that publishes a job at once."""
        return self._dispatch(job, self._minions(job), {})

    def _minions(self, job):
        if job.minions is None:
            job.minions = self.minions_of(job)
        return job.minions

    # What is to be done

    def pausing(self, now):
        """Return whether the queue is paused."""
        self.rules.end_pauses(now)
        return self.rules.paused_until is not None

    def hold(self, now, seconds=RETRY_SECONDS):
        """Publish nothing for a moment."""
        self.held_until = max(now + seconds, self.held_until or 0)

    def is_held(self, now):
        """Return whether nothing is published at the moment."""
        if self.held_until is not None and now >= self.held_until:
            self.held_until = None
        return self.held_until is not None

    def is_stopped(self, now):
        """Return whether no job is published, as the queue is paused or held."""
        # each has to look at the time
        return any([self.pausing(now), self.is_held(now)])

    def waiting(self, now):
        """Return whether jobs wait that only a lease holds up."""
        if self.is_stopped(now):
            return False
        return any(
            not job.held and (job.rule[1] is None or job.rule[1].action != "pause")
            for job in self._jobs.values()
        )

    def advance(self, now):
        """Return what is to be done next, or None."""
        self.more = False
        if self.is_stopped(now):
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

    def overdue(self, now):
        """Return the actions that end the jobs that are not published any more."""
        jobs = [job for job in self._jobs.values() if job.deadline <= now]
        return [Discard(job, self._why_overdue(job, now)) for job in jobs]

    def _why_overdue(self, job, now):
        if job.cancelled:
            return CANCELLED
        aged = now >= job.queued + self.section["max_queue_age"]
        return AGE if aged else TIMEOUT

    def _next(self, now):
        """Return the job whose turn it is."""
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
        return min(
            heads,
            key=lambda job: (
                self._served(job, self.shares.got(job.flow, now), now),
                job.seq,
            ),
        )

    def _served(self, job, got, now):
        """Return how many slots its flow got, by its weight and by how long it waits."""
        weight = self.criteria.weight(job)
        weight *= 1 + max(0, now - job.queued) / AGEING_SECONDS
        # one slot more, so that weights count among flows that got nothing
        return (got + 1) / weight

    def order_of_turns(self, now):
        """Return the jobs in the order in which they have their turn, as far as known."""
        turns = []
        for (priority, flow), jobs in self.flows.items():
            got, served = self.shares.got(flow, now), 0
            for job in jobs.values():
                # not before those of its flow that came before it
                served = max(served, self._served(job, got, now))
                turns.append((-priority, served, job.seq, job))
                got += job.count * job.cost
        return [turn[-1] for turn in sorted(turns)]

    def _beside(self, waiting, now):
        """Return the action for a job that may go while another waits for room."""
        # without those that are held or parked, however many these are
        flows = (flow.values() for flow in self.flows.values())
        oldest = heapq.merge(*flows, key=lambda job: job.seq)
        for job in list(itertools.islice(oldest, BESIDE)):
            rule = self._rule(job)
            accepted = rule is not None and rule.action == "accept"
            may = job.forced or accepted or self.criteria.beside(job, now)
            if may and job is not waiting:
                action = self._decide(job, now)
                if action is not None:
                    return action
        return None

    def _unpark(self, now):
        passed = 0 if self._looked is None else max(0, now - self._looked)
        self._looked = now
        self._looks = min(LOOKS_AT_ONCE, self._looks + passed * LOOKS)
        while self._parked and self._looks > 0:
            _, job = self._parked.popitem(last=False)
            self._looks -= LOOKS_OF_A_JOB + job.count
            job.parked = False
            self._line_up(job)

    def _park(self, job, reason):
        job.reason = reason
        self._step_out(job)
        job.parked = True
        self._parked[job.seq] = job
        if not job.waves:
            # the store has them, and many jobs may be parked
            job.minions = None

    def _rule(self, job):
        if job.rule[0] != self.rules.version:
            minions = job.minions
            if minions is None and self.rules.targets:
                # not kept: many jobs may wait
                minions = self.minions_of(job)
            rule = self.rules.find(job.functions, job.user, minions or ())
            job.rule = (self.rules.version, rule)
            given = rule is not None and rule.cost is not None
            job.cost = rule.cost if given else self.criteria.cost(job)
        return job.rule[1]

    def adopt(self, job):
        """Let a job that runs count for the rule that matches it."""
        rule = self._rule(job)
        if rule is not None:
            rule.jids.add(job.jid)

    def _decide(self, job, now):
        if job.deadline <= now:
            return Discard(job, self._why_overdue(job, now))
        minions, rule = self._minions(job), self._rule(job)
        action = None if rule is None else rule.action
        if action == "reject" or not minions:
            # without minions the job was published by a worker
            job.reason = (
                rule.reason if minions else "Its minions are not known any more"
            )
            return Discard(job, REJECTED)
        if action == "pause":
            return self._park(job, rule.reason)
        if now < job.not_before and not job.forced:
            return self._park(
                job, "its minions connect to the master, which was restarted"
            )
        if job.forced or action == "accept":
            decision = salt.job_criteria.publish(minions)
        else:
            decision = self._ask(job, now)
        if action == "limit" and decision.minions:
            decision = self._limited(job, rule, decision)
        if decision.minions is not None:
            return self._dispatch(job, decision.minions, decision.excluded)
        job.reason = salt.job_criteria.text(decision.reason)
        if decision.parked:
            self._park(job, job.reason)
        return None

    def _limited(self, job, rule, decision):
        rule.jids.intersection_update(self.leases.jobs)
        occupied = sum(map(self.leases.of_job, rule.jids))
        room = int((rule.limit - occupied) // job.cost)
        if not occupied:
            # one that costs more than the limit does not wait for ever
            room = len(decision.minions) if job.fixed else max(1, room)
        if room < (len(decision.minions) if job.fixed else 1):
            return salt.job_criteria.park(
                f"{rule.reason}: {occupied:g} of {rule.limit:g} slots are occupied"
            )
        rule.jids.add(job.jid)
        if room >= len(decision.minions):
            return decision
        return salt.job_criteria.publish(decision.minions[:room], decision.excluded)

    def _ask(self, job, now):
        mode, minions = self.section["fail_mode"], job.minions
        # a module may change it
        job.minions = list(minions)
        try:
            decision = self.criteria.decide(job, now)
            job.minions = minions
            if decision.minions is not None:
                # a module may give them in any form, and not each can be stored
                decision = decision._replace(
                    minions=list(decision.minions), excluded=dict(decision.excluded)
                )
                self._check(job, decision)
            self.failing = False
            return decision
        except Exception:  # pylint: disable=broad-except
            job.minions = minions
            log.critical(
                "The criteria module failed on job %s, and fail_mode is %s",
                job.jid,
                mode,
                exc_info=True,
            )
            self.failing = True
        if mode == "closed":
            return salt.job_criteria.requeue("the criteria module failed")
        return salt.job_criteria.publish(job.minions)

    @staticmethod
    def _check(job, decision):
        """:raises ValueError: if a decision is not about the minions of the job"""
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
        """Let an action hold that is written down."""
        job = action.job
        if isinstance(action, Discard):
            self.remove(job)
            return
        minions = action.minions
        self.leases.take(job.jid, minions, job.cost, now, fun=job.name)
        self.shares.add(job.flow, job.cost * len(minions), now)
        job.minions, job.count = action.rest, len(action.rest)
        job.sent += len(minions)
        job.waves += 1
        job.moved, job.reason = now, ""
        if not job.count:
            self.remove(job)

    @staticmethod
    def without(action):
        """Return for whom a job waits without a wave, and how many waves it had."""
        job = action.job
        # a further one does not reach who was left out
        waves = job.waves if action.excluded else job.waves - 1
        return sorted([*job.minions, *action.minions]), waves

    def undo(self, action, now):
        """A wave could not be published: its minions wait again."""
        job = action.job
        self.hold(now)
        for minion in action.minions:
            self.leases.end(job.jid, minion, undo=True)
        self.shares.add(job.flow, -job.cost * len(action.minions), now)
        job.minions, job.waves = self.without(action)
        job.count = len(job.minions)
        job.sent -= len(action.minions)
        job.reason = "it could not be published"
        if not action.rest:
            self.put(job)
