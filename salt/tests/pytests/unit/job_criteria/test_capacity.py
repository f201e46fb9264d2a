"""
The criteria module that is shipped.
"""

# pylint: disable=protected-access

import pytest

import salt.job_criteria.capacity
import salt.job_handler.leases
import salt.job_handler.policy
import salt.job_handler.queue
from tests.support.mock import patch


class Bench:
    """
    A queue with these settings.
    """

    def __init__(self, rules=(), **settings):
        self.now = 100.0
        self.number = 0
        # the store has them while a job waits
        self.minions = {}
        self.leases = salt.job_handler.leases.Leases()
        self.criteria = salt.job_criteria.capacity.criteria(settings, self.leases)
        section = {"max_queue_age": 10**6, "fail_mode": "open", **settings}
        self.rules = salt.job_handler.policy.Rules(rules)
        self.queue = salt.job_handler.queue.Queue(
            self.criteria, self.leases, self.rules, section, self.minions_of
        )

    def minions_of(self, job):
        return list(self.minions[job.seq])

    def submit(self, minions, fun="state.apply", **values):
        if isinstance(minions, int):
            minions = [f"m{number:05}" for number in range(minions)]
        self.number += 1
        self.minions[self.number] = minions
        job = salt.job_handler.queue.Job(
            self.number,
            f"j{self.number}",
            fun,
            len(minions),
            minions=list(minions),
            queued=self.now,
            **values,
        )
        self.queue.put(job)
        return job

    def actions(self):
        """
        Yield what is to be done now, and do it.
        """
        while True:
            action = self.queue.advance(self.now)
            if action is None:
                return
            self.queue.done(action, self.now)
            yield action

    def sent(self):
        """
        Return ``(job id, how many minions)`` of what goes out now.
        """
        return [(action.job.jid, len(action.minions)) for action in self.actions()]

    def returns(self, jid, count=10**9):
        for minion in list(self.leases.jobs.get(jid, ()))[:count]:
            self.leases.returned(jid, minion, self.now)
            self.criteria.released(jid, minion, self.now)


@pytest.mark.parametrize(
    "settings, wrong",
    [
        ({}, None),
        ({"max_master_jobs": 2000, "max_minion_jobs": 10}, None),
        ({"max_master_jobs": 0}, "max_master_jobs is 0: write a whole number"),
        ({"max_minion_jobs": "many"}, "max_minion_jobs is 'many'"),
        ({"max_minion_jobs": True}, "max_minion_jobs is True"),
        ({"minion_full": "drop"}, "minion_full is 'drop': write exclude or wait."),
        ({"fair": 1}, "fair is 1: write True or False."),
        ({"reserve": 1}, "reserve is 1: write 0 or a share"),
        ({"return_seconds": float("nan")}, "return_seconds is nan"),
        ({"costs": ["state.*"]}, "costs is ['state.*']"),
        ({"costs": {"state.*": 0}}, "costs is {'state.*': 0}"),
        ({"minion_jobs": [{5: 1}]}, "minion_jobs has 5: write"),
        ({"minion_jobs": [{"web*": 0}]}, "minion_jobs of web* is 0"),
        ({"lanes": [{"a": {"users": "x"}}]}, "users of lane a is 'x'"),
        ({"lanes": [{"a": {"color": 1}}]}, "color of lane a is unknown"),
        ({"lanes": [{"a": 5}]}, "lane a is 5"),
        ({"adaptive": True, "min_master_jobs": 3000}, "min_master_jobs is 3000"),
    ],
)
def test_settings(settings, wrong):
    errors = salt.job_criteria.capacity.Capacity.validate(settings)
    if wrong is None:
        assert errors == []
    else:
        assert len(errors) == 1 and errors[0].startswith(wrong)


def test_no_limits():
    bench = Bench()
    bench.submit(10000)
    bench.submit(10000)
    assert bench.sent() == [("j1", 10000), ("j2", 10000)]


def test_waves_have_three_quarters_of_the_limit():
    bench = Bench(max_master_jobs=100, reserve=0)
    bench.submit(300)
    assert bench.sent() == [("j1", 100)]
    bench.returns("j1", 74)
    assert bench.sent() == []
    bench.returns("j1", 1)
    assert bench.sent() == [("j1", 75)]
    # a quarter if nothing comes back for a second
    bench.returns("j1", 25)
    assert bench.sent() == []
    bench.now += 1.1
    assert bench.sent() == [("j1", 25)]
    # whatever there is after five seconds
    bench.returns("j1", 1)
    bench.now += 5
    assert bench.sent() == [("j1", 1)]


def test_small_jobs_pass_wide_ones():
    """
    They have a share of the limit, and the wide job is not delayed by them.
    """
    bench = Bench(max_master_jobs=100)
    bench.submit(200)
    assert bench.sent() == [("j1", 95)]
    for _ in range(7):
        bench.submit(1)
    assert bench.sent() == [(f"j{number}", 1) for number in range(2, 7)]
    assert bench.leases.occupied == 100


def test_one_piece():
    """
    A job that is wider than the limit runs alone, or beside jobs that take long.
    """
    bench = Bench(max_master_jobs=10)
    bench.submit(["a", "b"], fixed=True)
    wide = bench.submit(50, fixed=True)
    assert bench.sent() == [("j1", 2)]
    bench.now += 100
    assert bench.sent() == []
    assert "2 of 10 slots" in wide.reason
    for minion in ("a", "b"):
        bench.leases.renew("j1", minion, bench.now)
    assert bench.sent() == [("j2", 50)]


def test_limit_of_each_minion():
    bench = Bench(max_minion_jobs=1)
    bench.submit(["a", "b"])
    bench.submit(["a", "c"])
    actions = list(bench.actions())
    assert actions[1].minions == ["c"]
    assert actions[1].excluded == {"a": "the minion has 1 of 1 slots occupied"}


def test_job_waits_for_minions_at_their_limit():
    bench = Bench(max_minion_jobs=1, minion_full="wait")
    bench.submit(["a", "b"])
    waits = bench.submit(["a"])
    bench.submit(["c"])
    assert bench.sent() == [("j1", 2), ("j3", 1)]
    assert waits.reason == "1 minions are at their limit"
    bench.returns("j1")
    assert bench.sent() == [("j2", 1)]


def test_many_jobs_wait_for_their_minions():
    """
    They are looked at a few at a time.
    """
    bench = Bench(max_minion_jobs=1, minion_full="wait")
    bench.submit(1000)
    for _ in range(200):
        bench.submit(1000)
    bench.sent()
    while bench.queue.more:
        bench.sent()
    with patch.object(
        bench.criteria, "decide", side_effect=bench.criteria.decide
    ) as decide:
        for _ in range(10):
            bench.now += 0.01
            bench.sent()
    assert decide.call_count < 40


def test_minions_by_target():
    bench = Bench(max_minion_jobs=1, minion_jobs=[{"G@role:build": 3}, {"router-*": 4}])
    found = {"G@role:build": ["a", "router-2"], "router-*": ["router-1", "router-2"]}

    def check_minions(_, target, *args, **kwargs):
        return {"minions": found[target]}

    checker = "salt.utils.minions.CkMinions"
    with patch(f"{checker}.__init__", return_value=None):
        with patch(f"{checker}.check_minions", check_minions):
            bench.criteria.learn(bench.criteria.collect({}), 0)
    names = ("a", "router-1", "router-2", "x")
    assert [bench.criteria.minion_limit(name) for name in names] == [3, 4, 3, 1]


def test_costs():
    bench = Bench(
        max_master_jobs=10,
        reserve=0,
        max_minion_jobs=5,
        costs={"state.highstate": 10, "state.*": 5, "*": 2},
    )
    bench.criteria._least = lambda *_: 1
    job = bench.submit(["a"], ["test.ping", "state.sls"])
    assert bench.criteria.cost(job) == 7
    bench.sent()
    # a minion without a job gets one whatever that costs
    assert bench.leases.slots == {"a": 7}
    bench.returns("j1")
    bench.submit(5, "state.sls")
    assert bench.sent() == [("j2", 2)]


def test_users_take_turns():
    bench = Bench(max_master_jobs=1, reserve=0)
    for user in ("alice", "alice", "alice", "bob"):
        bench.submit(["a"], user=user)
    order = []
    for _ in range(4):
        ((jid, _),) = bench.sent()
        order.append(jid)
        bench.returns(jid)
    assert order == ["j1", "j4", "j2", "j3"]


def test_first_come_first_served():
    bench = Bench(max_master_jobs=1, reserve=0, fair=False)
    for user in ("alice", "alice", "bob"):
        bench.submit(["a"], user=user)
    order = []
    for _ in range(3):
        ((jid, _),) = bench.sent()
        order.append(jid)
        bench.returns(jid)
    assert order == ["j1", "j2", "j3"]


def test_lanes():
    bench = Bench(
        max_master_jobs=10,
        reserve=0,
        lanes=[
            {"urgent": {"weight": 10, "functions": ["pkg.*"]}},
            {"bulk": {"weight": 1, "users": ["cron*"]}},
        ],
    )
    for _ in range(40):
        bench.submit(10, "pkg.install")
        bench.submit(10, user="cron-1")
    urgent = 0
    for _ in range(22):
        ((jid, _),) = bench.sent()
        urgent += int(jid[1:]) % 2
        bench.returns(jid)
    assert 18 <= urgent <= 21


def test_silent_minions_are_left_out():
    bench = Bench()
    bench.leases.set_silent("a", bench.now - 30, bench.now)
    bench.submit(["a", "b"])
    (action,) = bench.actions()
    assert action.excluded == {"a": "the minion has not answered for 30 s"}


def test_a_part_of_the_network_is_gone():
    """
    When most slots are with minions that do not answer, others are asked before they get
    a job, and those that answer go on.
    """
    bench = Bench(max_master_jobs=10, reserve=0)
    bench.criteria._least = lambda *_: 1
    bench.leases.interval = 15
    gone = [f"gone{number}" for number in range(40)]
    here = [f"here{number}" for number in range(40)]
    bench.submit(gone[:10])
    assert bench.sent() == [("j1", 10)]
    for minion in gone[10:] + here:
        bench.submit([minion])
    reached = []
    for _ in range(100):
        bench.now += 1
        for question in bench.leases.tick(bench.now, bench.queue.waiting(bench.now)):
            bench.leases.asked("q", question, bench.now)
            for minion in question.minions:
                if minion in here:
                    bench.leases.answered("q", minion, [], bench.now)
        for action in bench.actions():
            reached += action.minions
            for minion in action.minions:
                if minion in here:
                    bench.leases.returned(action.job.jid, minion, bench.now)
    assert sorted(set(reached) - set(gone)) == sorted(here)
    assert len(set(reached) & set(gone)) <= 10
    assert set(gone) == set(bench.leases.silent)
    assert not len(bench.queue)


def test_limit_that_follows_the_rate_of_returns():
    """
    It doubles, is bounded by what returns in four seconds, and jobs that take long come on
    top.
    """
    bench = Bench(adaptive=True, max_master_jobs=1000)
    for _ in range(100):
        bench.submit(500)
    limits = []
    for _ in range(60):
        bench.now += 1
        bench.sent()
        limits.append(bench.criteria.limit())
        for jid in list(bench.leases.jobs):
            bench.returns(jid, 100)
            break
    assert limits[0] == 50
    assert max(limits) <= 1000
    assert 300 <= limits[-1] <= 500
    jid = next(iter(bench.leases.jobs))
    held = len(bench.leases.jobs[jid])
    before = bench.criteria.limit()
    for minion in list(bench.leases.jobs[jid]):
        bench.leases.renew(jid, minion, bench.now)
    assert bench.criteria.limit() == before + held
    kept = bench.criteria.snapshot()
    other = salt.job_criteria.capacity.criteria(
        {"adaptive": True}, salt.job_handler.leases.Leases()
    )
    other.restore(kept, 0)
    assert other.limit() == before
    other.restore({"limit": "broken"}, 0)


def test_limit_that_nothing_comes_near_to_stays():
    bench = Bench(adaptive=True)
    for _ in range(20):
        bench.now += 1
        bench.submit(["a"])
        bench.sent()
        bench.returns(f"j{bench.number}")
    assert bench.criteria.limit() == 50


# ----------------------------------------------------------------------
# Rules
# ----------------------------------------------------------------------


def test_all_settings_that_are_wrong():
    errors = salt.job_criteria.capacity.Capacity.validate(
        {"fair": 1, "adaptive": True, "min_master_jobs": 3000, "lanes": [{"a": 5}]}
    )
    wrong = ["fair is 1", "min_master_jobs is 3000", "lane a is 5"]
    assert len(errors) == 3
    assert all(error.startswith(start) for error, start in zip(errors, wrong))


@pytest.mark.parametrize(
    "rule, wrong",
    [
        ({"action": "pause"}, None),
        ({"action": "limit", "limit": 5, "cost": 2, "priority": -1}, None),
        ("pause", "rule 1 is 'pause'"),
        ({}, "action of rule 1 is None"),
        ({"action": "limit"}, "rule 1 has no limit"),
        ({"action": "limit", "limit": 0}, "limit of rule 1 is 0"),
        ({"action": "queue", "priority": 1.5}, "priority of rule 1 is 1.5"),
        ({"action": "queue", "user": 5}, "user of rule 1 is 5"),
        ({"action": "queue", "colour": 5}, "colour of rule 1 is unknown"),
    ],
)
def test_wrong_rules(rule, wrong):
    errors = list(salt.job_handler.policy.errors([rule]))
    if wrong is None:
        assert errors == []
    else:
        assert len(errors) == 1 and errors[0].startswith(wrong)


def test_rules():
    bench = Bench(
        [
            {"user": "root", "function": "cmd.*", "action": "accept"},
            {"function": "pkg.*", "action": "limit", "limit": 3, "reason": "mirror"},
            {"function": "state.*", "action": "queue", "cost": 4, "priority": 5},
            {"user": "intern*", "action": "pause", "reason": "not today"},
        ],
        max_master_jobs=10,
        reserve=0,
    )
    bench.criteria._least = lambda *_: 1
    bench.submit(30, "cmd.run", user="root")
    bench.submit(["a"], "test.echo", user="intern-1")
    assert bench.sent() == [("j1", 30)]
    bench.returns("j1")
    limited = bench.submit(10, "pkg.install")
    first = bench.submit(["a"], "state.apply")
    assert bench.sent() == [(first.jid, 1), (limited.jid, 3)]
    assert bench.leases.occupied == 7
    bench.now += 6
    assert bench.sent() == []
    assert limited.reason == "mirror: 3 of 3 slots are occupied"
    paused = bench.queue.get(2)
    assert paused.reason == "not today"


def test_rule_for_all_jobs_matches_one_without_a_function():
    rules = salt.job_handler.policy.Rules([{"action": "reject"}])
    assert rules.find([], "bob", []) is rules.rules[0]
    rules.set([{"action": "reject", "function": "test.*"}])
    assert rules.find([], "bob", []) is None


def test_rule_that_accepts_behind_a_job_that_waits():
    bench = Bench(
        [{"user": "oncall", "action": "accept"}], max_master_jobs=10, reserve=0
    )
    for user in ("root", "root", "oncall"):
        bench.submit(10, user=user)
    assert bench.sent() == [("j1", 10), ("j3", 10)]


def test_job_that_costs_more_than_the_limit_of_its_rule():
    bench = Bench([{"function": "f", "action": "limit", "limit": 2, "cost": 5}])
    bench.submit(2, "f")
    assert bench.sent() == [("j1", 1)]
    bench.returns("j1")
    assert bench.sent() == [("j1", 1)]


def test_cost_of_a_rule():
    """
    It counts in the decision as well.
    """
    bench = Bench(
        [{"function": "f", "action": "queue", "cost": 10}],
        max_master_jobs=100,
        reserve=0,
        max_minion_jobs=15,
    )
    bench.submit(100, "f")
    assert bench.sent() == [("j1", 10)]
    assert bench.leases.occupied == 100
    bench.returns("j1", 9)
    bench.queue.remove(bench.queue.get(1))
    bench.submit(["m00009", "x"], "f")
    (action,) = bench.actions()
    assert action.minions == ["x"]
    assert action.excluded == {"m00009": "the minion has 10 of 15 slots occupied"}


def test_many_rules():
    """
    A large job is compared with each target once.
    """
    rules = [{"target": f"G@n:{number}", "action": "pause"} for number in range(1000)]
    bench = Bench(rules)
    bench.rules.learn({f"G@n:{number}": frozenset({"x"}) for number in range(1000)})
    with patch("salt.job_handler.policy.frozenset", create=True) as made:
        made.side_effect = frozenset
        bench.submit(10000)
        assert made.call_count == 1
    assert bench.sent() == [("j1", 10000)]


def test_rule_with_a_target():
    """
    It matches a job if any of its minions is in the target.
    """
    bench = Bench([{"target": "G@role:db", "action": "pause"}])
    bench.submit(["a", "b"])
    bench.rules.learn({"G@role:db": frozenset({"b"})})
    bench.submit(["a"])
    assert bench.sent() == [("j2", 1)]
    bench.rules.learn({"G@role:db": frozenset({"c"})})
    assert bench.sent() == [("j1", 2)]


def test_module_that_fails():
    """
    The job waits or is published, as fail_mode says.
    """
    for mode, sent in (("open", [("j1", 2)]), ("closed", [])):
        for result in (ZeroDivisionError, None):
            bench = Bench(max_master_jobs=1, fail_mode=mode)
            bench.submit(["a", "b"])
            wrong = salt.job_criteria.publish(["a", "x"])
            with patch.object(
                bench.criteria, "decide", side_effect=result, return_value=wrong
            ):
                assert bench.sent() == sent
                assert bench.queue.failing
