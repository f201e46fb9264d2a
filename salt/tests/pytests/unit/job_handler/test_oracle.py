"""
The queue manager against a second one that is written as simply as can be: it keeps a
list of charges, and counts everything anew each time.
"""

import os
import random

import pytest

import salt.job_criteria.capacity
import salt.job_handler.job
import salt.job_handler.manager

#: Set this to 1000000 for a long run.
EVENTS = int(os.environ.get("SALT_JOB_HANDLER_EVENTS", "20000"))
MINIONS = [f"m{number:02}" for number in range(30)]
PATIENCE = 5


class Oracle:
    """
    Does the same as the queue manager with the criteria ``capacity``.
    """

    def __init__(self, limit, per_minion):
        self.limit = limit
        self.per_minion = per_minion
        self.kept = int(limit * 0.05)
        # since which second
        self.charges = {}
        self.waiting = []
        # job ids of small jobs
        self.aside = set()
        # when a job came back last
        self.back = {}

    def of_minion(self, minion):
        return len([1 for _, charged in self.charges if charged == minion])

    def advance(self, now):
        actions = []
        late = [job for job in self.waiting if job["deadline"] <= now]
        for job in sorted(late, key=lambda job: (job["deadline"], job["number"])):
            self.waiting.remove(job)
            actions.append(("discard", job["number"]))
        while True:
            taken = self._next(now)
            if taken is None:
                return actions
            actions.append(taken)

    def _next(self, now):
        """
        Do what is to be done with the first job, or with a small one beside it.
        """
        for place, job in enumerate(self.waiting[:101]):
            small = self.small(job)
            if place and not small:
                continue
            used = len(self.charges)
            free = self.limit - used
            if not small:
                # what is kept for small jobs is theirs
                used -= self.used_aside()
                free = self.limit - self.kept - used
            most = self.limit if small else self.limit - self.kept
            old = now - PATIENCE
            held = len([1 for since in self.charges.values() if since <= old])
            soon = most - held if held <= most * 3 / 4 else most
            wanted = min(len(job["minions"]), soon * 3 // 4)
            news = max(self.back.get(job["jid"], 0), job["moved"])
            owed = any(jid == job["jid"] for jid, _ in self.charges)
            if owed and now - news >= PATIENCE / 5:
                wanted = min(wanted, most // 4)
            if now - job["moved"] >= PATIENCE:
                wanted = 1
            if used and free < max(1, wanted):
                continue
            if small:
                self.aside.add(job["jid"])
            return self._publish(job, max(free, 1), now)
        return None

    def _publish(self, job, free, now):
        taken, full = [], []
        for minion in job["minions"]:
            if len(taken) == free:
                break
            load = self.of_minion(minion)
            known = (job["jid"], minion) in self.charges
            if load >= self.per_minion and not known:
                full.append(minion)
            else:
                taken.append(minion)
        for minion in taken:
            self.charges.setdefault((job["jid"], minion), int(now))
        job["minions"] = [
            minion for minion in job["minions"] if minion not in taken + full
        ]
        job["moved"] = now
        if not job["minions"]:
            self.waiting.remove(job)
        return ("dispatch", job["number"], taken, full)

    def used_aside(self):
        owed = {jid for jid, _ in self.charges}
        self.aside &= owed
        used = len([1 for jid, _ in self.charges if jid in self.aside])
        return min(used, self.kept)

    def small(self, job):
        count = len(job["minions"])
        return count <= self.kept - self.used_aside() and count <= self.limit - len(
            self.charges
        )


def _plain(action):
    if isinstance(action, salt.job_handler.manager.Discard):
        return ("discard", action.job.seq)
    return ("dispatch", action.job.seq, list(action.minions), list(action.excluded))


@pytest.mark.parametrize("seed", range(4))
def test_random_events(seed):
    """
    Equal after each event, never below zero, never above a limit.
    """
    rand = random.Random(seed)
    limit, per_minion = rand.choice(((10, 2), (40, 3), (7, 1), (100, 4)))
    criteria = salt.job_criteria.capacity.Capacity(
        {
            "max_master_jobs": limit,
            "max_minion_jobs": per_minion,
        }
    )
    manager = salt.job_handler.manager.QueueManager(
        criteria, 10**9, "closed", lambda: 0
    )
    oracle = Oracle(limit, per_minion)
    ledger = criteria.ledger
    now, number = 0.0, 0
    for event in range(EVENTS // 4):
        now += rand.choice((0.0, 0.1, 1.0))
        kind = rand.random()
        if kind < 0.22 and len(oracle.waiting) < 60:
            number += 1
            minions = sorted(rand.sample(MINIONS, rand.choice((1, 1, 2, 5, 30))))
            # now and then the same job id again, as a batch does
            jid = f"j{rand.choice((number, max(1, number - 1)))}"
            deadline = now + rand.choice((0.0, 3.0, 30.0, 1e9))
            manager.submit(
                salt.job_handler.job.Job(
                    number,
                    jid,
                    "f",
                    len(minions),
                    minions=list(minions),
                    deadline=deadline,
                    queued=now,
                )
            )
            oracle.waiting.append(
                {
                    "number": number,
                    "jid": jid,
                    "minions": minions,
                    "deadline": deadline,
                    "moved": now,
                }
            )
        elif kind < 0.85:
            # a return, now and then one that comes twice or was never asked for
            if oracle.charges and rand.random() < 0.9:
                jid, minion = rand.choice(sorted(oracle.charges))
            else:
                jid, minion = f"j{rand.randint(1, number + 1)}", rand.choice(MINIONS)
            assert manager.returned(jid, minion, now) is (
                (jid, minion) in oracle.charges
            )
            if (jid, minion) in oracle.charges:
                del oracle.charges[jid, minion]
                oracle.back[jid] = now
        elif kind < 0.88:
            minion = rand.choice(MINIONS)
            manager.started(minion, now)
            oracle.charges = {
                charge: since
                for charge, since in oracle.charges.items()
                if charge[1] != minion
            }
        elif kind < 0.9 and oracle.waiting:
            jid = rand.choice(oracle.waiting)["jid"]
            list(manager.cancel(jid, now))
            oracle.waiting = [job for job in oracle.waiting if job["jid"] != jid]
        else:
            assert [_plain(action) for action in manager.advance(now)] == (
                oracle.advance(now)
            )
        assert 0 <= ledger.used <= limit
        if not event % 10:
            expected = {}
            for _, minion in oracle.charges:
                expected[minion] = expected.get(minion, 0) + 1
            assert ledger.used == len(oracle.charges) == len(ledger)
            assert ledger.minions() == expected
            assert max(expected.values(), default=0) <= per_minion
            assert [job.seq for job in manager.queue] == [
                job["number"] for job in oracle.waiting
            ]
    assert number > EVENTS // 40
