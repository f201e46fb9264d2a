"""
When a job that waits will start.
"""

import pytest

import salt.job_criteria.capacity
import salt.job_handler.config
import salt.job_handler.leases
import salt.job_handler.policy
import salt.job_handler.queue
import salt.job_handler.report

MINIONS = [f"m{number}" for number in range(10)]


class Setup:
    """
    A queue with a limit of ten slots.
    """

    def __init__(self):
        section = {**salt.job_handler.config.DEFAULTS, "max_master_jobs": 10}
        self.leases = salt.job_handler.leases.Leases()
        criteria = salt.job_criteria.capacity.Capacity(section, self.leases)
        rules = salt.job_handler.policy.Rules()
        self.queue = salt.job_handler.queue.Queue(
            criteria, self.leases, rules, section, lambda job: MINIONS
        )
        self.estimate = salt.job_handler.report.Estimate(self.queue)
        self.seq = 0

    def put(self, now, fun="state.apply", **kwargs):
        self.seq += 1
        job = salt.job_handler.queue.Job(
            self.seq, str(self.seq), fun, len(MINIONS), queued=now, **kwargs
        )
        self.queue.put(job)
        for action in iter(lambda: self.queue.advance(now), None):
            self.queue.done(action, now)

    def returns(self, jid, seconds, now):
        for minion in MINIONS:
            fun = self.leases.jobs[jid][minion].fun
            self.leases.returned(jid, minion, now)
            self.estimate.returned(fun, seconds)

    def starts(self, now):
        starts = self.estimate.starts(10, now)
        return {seq: round(seconds) for seq, seconds in starts.items()}


@pytest.fixture
def setup():
    return Setup()


def test_jobs_start_one_after_the_other(setup):
    """
    A job takes as long as its function took before.
    """
    setup.put(0)
    setup.returns("1", 10, 10)
    for number in range(3):
        setup.put(100 + number)
    assert setup.starts(104) == {3: 6, 4: 16}


def test_functions_have_times_of_their_own(setup):
    setup.put(0)
    setup.returns("1", 10, 10)
    setup.put(10, "cmd.run")
    setup.returns("2", 2, 12)
    for fun in ("state.apply", "cmd.run", "cmd.run", "cmd.run"):
        setup.put(100, fun)
    assert setup.starts(100) == {4: 10, 5: 12, 6: 14}


def test_lease_that_is_older_than_all_before(setup):
    """
    Nobody knows when it ends.
    """
    setup.put(0)
    setup.returns("1", 10, 10)
    setup.put(100)
    setup.put(100)
    assert setup.starts(105) == {3: 5}
    assert setup.starts(120) == {}


def test_nothing_is_known(setup):
    setup.put(0)
    setup.put(0)
    assert setup.starts(5) == {}


def test_job_that_is_held_does_not_start(setup):
    setup.put(0)
    setup.returns("1", 10, 10)
    setup.put(100)
    setup.put(100, held=True)
    setup.put(100)
    assert setup.starts(100) == {4: 10}


def test_jobs_that_take_no_time(setup):
    """
    Their slots are free at once.
    """
    setup.put(0)
    setup.returns("1", 0, 0)
    setup.put(0)
    setup.put(0)
    assert setup.starts(0) == {3: 0}


def test_many_users(setup):
    """
    Each job is weighed once, however many users there are.
    """
    setup.put(0)
    setup.returns("1", 10, 10)
    setup.put(10)
    for number in range(500):
        setup.put(10, user=f"user{number % 100}")
    weighed = []
    setup.queue.criteria.weight = lambda job: weighed.append(job) or 1
    starts = setup.starts(10)
    assert len(weighed) == 500
    assert [starts[seq] for seq in (3, 4, 502)] == [10, 20, 5000]


def test_job_that_has_room_for_a_part(setup):
    """
    It does not wait for more than a few seconds for a larger wave.
    """
    setup.put(0)
    setup.returns("1", 1000, 1000)
    setup.put(1000)
    setup.put(1000)
    setup.leases.returned("2", "m0", 1000)
    assert setup.starts(1000) == {3: 5}


def test_more_slots_are_occupied_than_the_limit_allows(setup):
    """
    As after settings that were read again: a job waits for two ends.
    """
    setup.put(0)
    setup.returns("1", 10, 10)
    setup.put(100)
    setup.leases.take("9", [f"x{number}" for number in range(10)], 1, 100)
    setup.put(100)
    assert setup.estimate.starts(10, 101)[3] > 8
