"""
The queue, the leases and the shipped criteria module against a simple model of minions:
random events, restarts in between, and what must hold after each of them.
"""

import itertools
import os
import random

import pytest

import salt.job_criteria.capacity
import salt.job_handler.leases
import salt.job_handler.policy
import salt.job_handler.queue

#: Set this to 1000000 for a long run.
EVENTS = int(os.environ.get("SALT_JOB_HANDLER_EVENTS", "20000"))
MINIONS = [f"m{number:02}" for number in range(25)]

SECTION = {"max_queue_age": 500, "fail_mode": "closed"}


class World:
    """
    Minions that run jobs, lose returns and go away, and a master that may be restarted.

    :ivar dict fate: what has become of each job for each of its minions: ``waits``,
        ``sent`` or ``left out``
    """

    def __init__(self, seed):
        self.rand = random.Random(seed)
        self.limit, self.own = self.rand.choice(((10, 2), (40, 3), (7, 1), (100, 4)))
        self.settings = {
            "max_master_jobs": self.limit,
            "max_minion_jobs": self.own,
            "minion_full": self.rand.choice(("exclude", "wait")),
            "fair": self.rand.choice((True, False)),
        }
        self.now = 0.0
        self.number = self.asked = 0
        self.fate = {}
        self.jobs = {}
        # (jid, minion) that really run, and those that were let go while they did
        self.running = set()
        self.let_go = set()
        self.away = set()
        self.questions = []
        self.start()

    def start(self):
        """
        Start a job handler that has what is stored of the one before.
        """
        self.leases = salt.job_handler.leases.Leases(60, 15, 1000)
        criteria = salt.job_criteria.capacity.Capacity(self.settings, self.leases)
        self.queue = salt.job_handler.queue.Queue(
            criteria,
            self.leases,
            salt.job_handler.policy.Rules(),
            SECTION,
            lambda job: sorted(self.of(job.jid, "waits")),
        )
        self.questions = []

    def restart(self):
        """
        Begin anew with the jobs that wait and with the leases of those that were sent.
        """
        leases = {jid: list(minions) for jid, minions in self.leases.jobs.items()}
        self.start()
        for jid, minions in leases.items():
            self.leases.take(jid, minions, 1, self.now)
        self.leases.doubt()
        for jid, (seq, queued, user) in self.jobs.items():
            waiting = self.of(jid, "waits")
            if waiting:
                self.queue.put(
                    salt.job_handler.queue.Job(
                        seq, jid, "f", len(waiting), queued=queued, user=user
                    )
                )

    def of(self, jid, fate):
        return [name for name, what in self.fate[jid].items() if what == fate]

    def settle(self, jid, minions, fate):
        """
        Note what becomes of minions that waited.
        """
        for minion in minions:
            assert self.fate[jid][minion] == "waits", (jid, minion)
            self.fate[jid][minion] = fate

    # ------------------------------------------------------------------
    # Events
    # ------------------------------------------------------------------

    def submit(self):
        if len(self.queue) > 60:
            return
        self.number += 1
        jid = f"j{self.number}"
        count = self.rand.choice((1, 1, 2, 5, 25))
        minions = sorted(self.rand.sample(MINIONS, count))
        user = self.rand.choice("abc")
        self.fate[jid] = dict.fromkeys(minions, "waits")
        self.jobs[jid] = (self.number, self.now, user)
        deadline = self.now + self.rand.choice((1, 30, 10**9))
        self.queue.put(
            salt.job_handler.queue.Job(
                self.number,
                jid,
                "f",
                count,
                queued=self.now,
                user=user,
                deadline=deadline,
            )
        )

    def advance(self):
        overdue = self.queue.overdue(self.now)
        ready = iter(lambda: self.queue.advance(self.now), None)
        for action in itertools.chain(overdue, ready):
            jid = action.job.jid
            if self.rand.random() < 0.05:
                # it could not be written down
                self.queue.hold(self.now)
                return
            self.queue.done(action, self.now)
            if isinstance(action, salt.job_handler.queue.Discard):
                self.settle(jid, self.of(jid, "waits"), "left out")
                continue
            self.settle(jid, action.excluded, "left out")
            if action.minions and self.rand.random() < 0.05:
                # it could not be published
                self.queue.undo(action, self.now)
                return
            self.settle(jid, action.minions, "sent")
            for minion in action.minions:
                assert minion not in self.leases.silent
                if minion not in self.away or self.rand.random() < 0.5:
                    # it may get it when it is back
                    self.running.add((jid, minion))
            assert action.rest == sorted(self.of(jid, "waits"))

    def finish(self):
        if self.running:
            jid, minion = self.rand.choice(sorted(self.running))
            if minion in self.away:
                return
            self.running.discard((jid, minion))
            self.let_go.discard((jid, minion))
            if self.rand.random() < 0.95:
                # some returns get lost, and some come twice
                for _ in range(self.rand.choice((1, 1, 2))):
                    had = self.leases.has(jid, minion)
                    assert self.leases.returned(jid, minion, self.now) is had

    def forge(self):
        """
        A minion returns a job that it never had.
        """
        if self.number:
            jid = f"j{self.rand.randint(1, self.number)}"
            minion = self.rand.choice(MINIONS)
            before = dict(self.leases.slots)
            if (jid, minion) not in self.running:
                self.leases.returned(jid, minion, self.now)
                changed = {
                    name
                    for name in MINIONS
                    if before.get(name) != self.leases.slots.get(name)
                }
                assert changed <= {minion}

    def connect(self):
        minion = self.rand.choice(MINIONS)
        self.away.discard(minion)
        held = dict(self.leases.slots)
        self.leases.heard(minion)
        self.leases.doubt(minion)
        # a start is a reason to ask, and frees nothing
        assert self.leases.slots == held

    def leave(self):
        if len(self.away) < 5:
            self.away.add(self.rand.choice(MINIONS))

    def cancel(self):
        jid = f"j{self.rand.randint(1, max(1, self.number))}"
        minions = None
        if self.rand.random() < 0.5:
            minions = set(self.rand.sample(MINIONS, 10))
        for action in self.queue.cancel(jid, minions):
            self.queue.done(action, self.now)
            gone = getattr(action, "excluded", None) or self.of(jid, "waits")
            self.settle(jid, gone, "left out")

    def tick(self):
        held = {
            (jid, name) for jid, leases in self.leases.jobs.items() for name in leases
        }
        for question in self.leases.tick(self.now, self.queue.waiting(self.now)):
            self.asked += 1
            jid = f"q{self.asked}"
            self.leases.asked(jid, question, self.now)
            self.questions.append((jid, question))
        for jid, minions in self.leases.jobs.items():
            held -= {(jid, name) for name in minions}
        self.let_go |= held & self.running

    def answer(self):
        if not self.questions:
            return
        jid, question = self.questions.pop(0)
        if not self.leases.is_question(jid):
            return
        for minion in question.minions:
            if minion in self.away or self.rand.random() < 0.02:
                continue
            runs = sorted(name for name, who in self.running if who == minion)
            if question.fun == "saltutil.running":
                # some wait in the minion's own queue, and are not named
                runs = [name for name in runs if self.rand.random() < 0.8]
                answer = [{"jid": name} for name in runs]
            else:
                answer = {"pid": 1} if question.arg[0] in runs else {}
            if self.rand.random() < 0.02:
                answer = "'saltutil.running' is not available."
            self.leases.answered(jid, minion, answer, self.now)

    # ------------------------------------------------------------------
    # What holds
    # ------------------------------------------------------------------

    def check(self):
        slots = {}
        for leases in self.leases.jobs.values():
            for minion in leases:
                slots[minion] = slots.get(minion, 0) + 1
        assert slots == self.leases.slots
        assert sum(slots.values()) == self.leases.occupied == len(self.leases)
        assert 0 <= self.leases.renewed <= self.leases.occupied
        assert max(slots.values(), default=0) <= self.own
        assert self.leases.occupied <= self.limit
        # a minion runs nothing without a lease, unless that has expired
        for jid, minion in self.running - self.let_go:
            assert self.leases.has(jid, minion), (jid, minion)
        waiting = {
            (job.jid, minion)
            for job in self.queue
            for minion in (job.minions or self.of(job.jid, "waits"))
        }
        assert waiting == {
            (jid, minion)
            for jid, fates in self.fate.items()
            for minion, fate in fates.items()
            if fate == "waits"
        }


@pytest.mark.parametrize("seed", range(8))
def test_random_events(seed):
    """
    No job is lost, none reaches a minion twice, and no limit is passed.
    """
    world = World(seed)
    events = (
        [world.submit] * 22
        + [world.advance] * 25
        + [world.finish] * 35
        + [world.tick] * 12
        + [world.answer] * 12
        + [world.connect] * 2
        + [world.leave, world.cancel, world.forge]
    )
    for number in range(EVENTS // 8):
        world.now += world.rand.choice((0.0, 0.1, 1.0))
        world.rand.choice(events)()
        if world.rand.random() < 0.003:
            world.restart()
        if not number % 5:
            world.check()
            for jid in [jid for jid in world.fate if not world.of(jid, "waits")]:
                if not any(name == jid for name, _ in world.running):
                    if jid not in world.leases.jobs:
                        del world.fate[jid], world.jobs[jid]
    # everything comes to an end
    for _ in range(3000):
        if not (len(world.queue) or world.leases.occupied):
            break
        world.away.clear()
        world.now += 1
        world.advance()
        for _ in range(40):
            world.finish()
        world.tick()
        world.answer()
        for minion in list(world.leases.silent):
            world.leases.heard(minion)
    assert not len(world.queue)
    assert not world.leases.occupied
    assert world.number > EVENTS // 100
