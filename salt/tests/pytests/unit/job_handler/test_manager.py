import pytest

import salt.job_criteria
import salt.job_handler.job
import salt.job_handler.judge
import salt.job_handler.manager
import salt.job_handler.rounds


class Failing(salt.job_criteria.Criteria):
    """
    Fails as often as it is told to.
    """

    def __init__(self, failures, slow=None):
        super().__init__({})
        self.failures = failures
        self.slow = slow

    def decide(self, job, now):
        self.charge(job, job.minions, now)
        if self.slow is not None:
            self.slow()
        elif self.failures:
            self.failures -= 1
            raise RuntimeError("I failed")
        return salt.job_criteria.publish(job.minions)


class Says(salt.job_criteria.Criteria):
    """
    Says what it is told to.
    """

    def __init__(self, minions, excluded=None, cost=1):
        super().__init__({})
        self.decision = salt.job_criteria.publish(minions, excluded)
        self.points = cost

    def cost(self, job):
        return self.points

    def decide(self, job, now):
        return self.decision


def test_worked_example_of_the_rfc(bench):
    """
    100 for the master and 10 for each of two minions become 98, 9 and 9, and come back.
    """
    setup = bench(max_master_jobs=100, max_minion_jobs=10)
    ledger = setup.criteria.ledger

    def capacities():
        return [
            100 - ledger.used,
            10 - ledger.of_minion("web1"),
            10 - ledger.of_minion("web2"),
        ]

    assert capacities() == [100, 10, 10]
    setup.submit(["web1", "web2"], "j")
    assert setup.sent() == [("j", ["web1", "web2"])]
    assert capacities() == [98, 9, 9]
    setup.give_back("j", "web1")
    assert capacities() == [99, 10, 9]
    setup.give_back("j", "web2")
    assert capacities() == [100, 10, 10]


def test_first_in_first_out(bench):
    setup = bench(max_master_jobs=1)
    for number in range(5):
        setup.submit([f"m{number}"], f"j{number}")
    for number in range(5):
        assert setup.sent() == [(f"j{number}", [f"m{number}"])]
        assert setup.sent() == []
        setup.give_back(f"j{number}", f"m{number}")
    assert setup.sent() == []


def test_a_waiting_job_says_why(bench):
    setup = bench(max_master_jobs=2)
    setup.submit(2)
    second = setup.submit(1)
    setup.advance()
    assert second.reason == "the master is at 2 of 2 points"


def test_wide_job_goes_out_in_waves(bench):
    """
    10,000 minions with room for 500: never more than 500, everyone once, one job id,
    and the next job follows.
    """
    setup = bench(max_master_jobs=500, reserve=0)
    setup.submit(10000, "wide")
    setup.submit(["other"], "next")
    seen, waves = [], 0
    while True:
        sent = setup.sent()
        assert setup.criteria.ledger.used <= 500
        if not sent:
            break
        for jid, minions in sent:
            if jid == "wide":
                seen += minions
                waves += 1
        for jid, minions in sent:
            setup.give_back(jid, *minions)
    assert len(seen) == len(set(seen)) == 10000
    assert sent == [] and setup.manager.counters["dispatched"] == 2
    assert waves == 20


def test_small_waves_wait_for_more_room(bench):
    """
    Every wave costs as much as any other, so a wave is not sent for each return.
    """
    setup = bench(max_master_jobs=100, reserve=0)
    setup.submit(200, "wide")
    ((_, first),) = setup.sent()
    setup.give_back("wide", *first[:74])
    assert setup.sent() == []
    setup.give_back("wide", first[74])
    assert [len(minions) for _, minions in setup.sent()] == [75]
    setup.give_back("wide", first[75])
    assert setup.sent() == []
    setup.now += 5
    assert [len(minions) for _, minions in setup.sent()] == [1]


def test_without_waves_a_wide_job_runs_alone(bench):
    setup = bench(max_master_jobs=10, waves=False)
    setup.submit(1, "small")
    setup.submit(50, "wide")
    setup.submit(1, "after")
    assert [jid for jid, _ in setup.sent()] == ["small"]
    setup.give_back("small", "m0")
    ((jid, minions),) = setup.sent()
    assert (jid, len(minions)) == ("wide", 50)
    setup.give_back("wide", *minions[:40])
    assert setup.sent() == []
    setup.give_back("wide", *minions[40:])
    assert [jid for jid, _ in setup.sent()] == ["after"]


def test_target_of_a_master_of_masters_is_one_piece(bench):
    """
    Behind syndics nobody can be left out, and no part be sent.
    """
    setup = bench(max_master_jobs=2, max_minion_jobs=1)
    setup.submit(1, "before")
    setup.submit(5, "fixed", fixed=True)
    assert [jid for jid, _ in setup.sent()] == ["before"]
    setup.give_back("before", "m0")
    assert [(jid, len(minions)) for jid, minions in setup.sent()] == [("fixed", 5)]


def test_full_minion_is_left_out(bench):
    setup = bench(max_minion_jobs=2)
    setup.submit(["a"])
    setup.submit(["a"])
    setup.submit(["a", "b"], "third")
    action = setup.advance()[-1]
    assert (action.job.jid, action.minions, action.last) == ("third", ["b"], True)
    assert action.excluded == {"a": "the minion is at 2 of 2 points"}


def test_job_of_full_minions_only(bench):
    """
    Nothing is published to nobody.
    """
    setup = bench(max_minion_jobs=1)
    setup.submit(["a"])
    setup.submit(["a"], "none")
    action = setup.advance()[-1]
    assert (action.job.jid, action.minions, list(action.excluded)) == (
        "none",
        [],
        ["a"],
    )
    assert action.last and len(setup.manager.queue) == 0


def test_batch_charges_each_minion_once(bench):
    """
    Many publications under one job id: each minion is charged once for it.
    """
    setup = bench(max_master_jobs=10, max_minion_jobs=1)
    setup.submit(["a", "b"], "batch")
    setup.submit(["b", "c"], "batch")
    assert setup.sent() == [("batch", ["a", "b"]), ("batch", ["b", "c"])]
    assert setup.criteria.ledger.used == 3
    assert setup.give_back("batch", "b", "b") == [True, False]


def test_expired_job_is_discarded_wherever_it_is(bench):
    setup = bench(max_master_jobs=1)
    setup.submit(1, "runs")
    setup.submit(1, "first", sync=True, deadline=500.0)
    setup.submit(1, "second", sync=True, deadline=105.0)
    setup.submit(1, "third")
    setup.advance()
    setup.now = 104.9
    assert setup.advance() == []
    setup.now = 105.0
    (action,) = setup.advance()
    assert isinstance(action, salt.job_handler.manager.Discard)
    assert (action.job.jid, action.reason) == ("second", "timeout")
    assert [job.jid for job in setup.manager.queue] == ["first", "third"]


def test_expired_job_is_not_asked_about(bench):
    """
    Room or not: who has stopped waiting is not asked about.
    """
    setup = bench(max_master_jobs=10)
    setup.submit(1, deadline=99.0)
    setup.criteria.decide = None
    (action,) = setup.advance()
    assert action.reason == "timeout"


def test_twin_of_an_expired_job_runs(bench):
    """
    Of two equal jobs the one that nobody waits for any more is dropped.
    """
    setup = bench(max_master_jobs=1)
    setup.submit(["x"], "runs")
    setup.submit(["a"], "sync", sync=True, deadline=105.0)
    setup.submit(["a"], "async")
    setup.advance()
    setup.now = 200.0
    setup.give_back("runs", "x")
    discarded, sent = setup.advance()
    assert (discarded.job.jid, sent.job.jid) == ("sync", "async")


def test_rest_of_an_expired_wide_job_is_discarded(bench):
    setup = bench(max_master_jobs=10)
    job = setup.submit(25, "wide", sync=True, deadline=105.0)
    setup.advance()
    setup.now = 106.0
    (action,) = setup.advance()
    assert (action.reason, job.sent, job.count, len(action.job.minions)) == (
        "timeout",
        10,
        15,
        15,
    )


def test_queue_is_bounded(bench):
    setup = bench(max_queue_size=2)
    setup.manager.orders.paused = True
    assert setup.manager.reserve("a", setup.now) is None
    assert setup.manager.reserve("b", setup.now) is None
    assert "all it takes" in setup.manager.reserve("c", setup.now)
    setup.manager.submit(setup.job(1), "a")
    assert "all it takes" in setup.manager.reserve("c", setup.now)
    setup.manager.places.unreserve("b")
    assert setup.manager.reserve("c", setup.now) is None
    assert setup.manager.counters["rejected"] == 2


def test_reserved_place_is_given_up_some_day(bench):
    setup = bench(max_queue_size=1)
    assert setup.manager.reserve("a", setup.now) is None
    assert "all it takes" in setup.manager.reserve("b", setup.now + 29)
    assert setup.manager.reserve("b", setup.now + 30) is None


@pytest.mark.parametrize("each,expected", [(0.1, 1), (3.0, 6), (500.0, 60)])
def test_retry_after_is_as_fast_as_the_queue(bench, each, expected):
    setup = bench()
    for _ in range(5):
        setup.submit(1)
        setup.advance()
        setup.now += each
    assert setup.manager.places.retry_after(setup.now) == pytest.approx(expected, abs=1)


def test_cancel(bench):
    setup = bench()
    setup.manager.orders.paused = True
    setup.submit(2, "a")
    setup.submit(1, "b")
    (action,) = setup.manager.cancel("a", setup.now)
    assert (action.job.jid, action.reason) == ("a", "cancelled")
    assert list(setup.manager.cancel("a", setup.now)) == []
    setup.manager.orders.paused = False
    assert [jid for jid, _ in setup.sent()] == ["b"]


def test_pause_keeps_deadlines(bench):
    setup = bench()
    setup.manager.orders.paused = True
    setup.submit(1, "a", deadline=101.0)
    setup.submit(1, "b")
    setup.now = 102.0
    assert [action.job.jid for action in setup.advance()] == ["a"]


def test_forced_job_goes_out_at_once_and_is_charged(bench):
    setup = bench(max_master_jobs=1)
    setup.submit(["a"])
    setup.advance()
    action = setup.manager.force(setup.job(["a", "b"], "peer"), setup.now)
    assert (action.minions, action.last) == (["a", "b"], True)
    assert setup.criteria.ledger.used == 3


@pytest.mark.parametrize("width,left", [(3, 0), (8, 3)])
def test_aborted_wave_is_given_back(bench, width, left):
    """
    The job is the first one again, but not at once: a publisher that is gone does not
    come back in a millisecond.
    """
    setup = bench(max_master_jobs=5)
    job = setup.submit(width, "a")
    setup.submit(1, "b")
    actions = setup.manager.advance(setup.now)
    setup.manager.abort(next(actions), setup.now)
    actions.close()
    assert setup.criteria.ledger.used == 0
    assert (job.count, job.sent) == (width, 0)
    assert [queued.jid for queued in setup.manager.queue] == ["a", "b"]
    assert setup.sent() == []
    setup.now += salt.job_handler.manager.HOLD_SECONDS
    assert setup.sent()[0][0] == "a"
    assert job.count == left


def test_failing_criteria_requeues(bench):
    setup = bench(criteria=Failing(2))
    job = setup.submit(1, "a")
    assert setup.sent() == []
    assert (job.reason, setup.criteria.ledger.used) == ("the criteria module failed", 0)
    assert setup.sent() == []
    assert setup.sent() == [("a", ["m0"])]
    assert setup.manager.judge.failures == 0


@pytest.mark.parametrize(
    "fail_mode,expected", [("open", [("a", ["m0"])]), ("closed", [])]
)
def test_third_failure_in_a_row(bench, fail_mode, expected):
    setup = bench(criteria=Failing(3), fail_mode=fail_mode)
    setup.submit(1, "a")
    assert setup.sent() == []
    assert setup.sent() == []
    assert setup.sent() == expected


def test_failing_criteria_is_asked_again(bench):
    setup = bench(criteria=Failing(4), fail_mode="closed")
    setup.submit(1, "a")
    for _ in range(4):
        assert setup.sent() == []
    setup.now += salt.job_handler.judge.REST_SECONDS
    assert setup.sent() == []
    setup.now += salt.job_handler.judge.REST_SECONDS
    assert setup.sent() == [("a", ["m0"])]


def test_slow_criteria_requeues(bench):
    setup = bench(criteria=Failing(0, slow=lambda: None))

    def slow():
        setup.seconds += 0.2

    setup.criteria.slow = slow
    job = setup.submit(1, "a")
    assert setup.sent() == []
    assert job.reason == "the criteria module is too slow"
    assert setup.criteria.ledger.used == 0
    setup.criteria.slow = lambda: None
    assert setup.sent() == [("a", ["m0"])]


@pytest.mark.parametrize(
    "waited,worked,slow", [(0.9, 0.05, 0), (1.1, 0.05, 1), (0.9, 0.2, 1)]
)
def test_criteria_on_a_machine_with_too_much_to_do(bench, waited, worked, slow):
    """
    To wait for one's turn is no fault, to work or to wait for long is one.
    """
    setup = bench(criteria=Failing(0, slow=lambda: None))
    cpu = [0.0]

    def decide():
        setup.seconds += waited
        cpu[0] += worked

    setup.criteria.slow = decide
    setup.manager.judge.work = lambda: cpu[0]
    setup.submit(1)
    setup.advance()
    assert setup.manager.counters["criteria_failures"] == slow


@pytest.mark.parametrize(
    "criteria",
    [
        # nobody, for no reason
        Says([]),
        Says(["m0", "m0"]),
        Says(["m0"], {"m0": "full"}),
        Says(["m0", "stranger"]),
        Says(["m0"], {"stranger": "full"}),
        Says(["m0"], ["m1"]),
        Says(["m0"], {"m1": ValueError("full")}),
        Says(7),
        Says(["m0"], cost="10"),
        Says(["m0"], cost=float("nan")),
        Says(["m0"], cost=-1),
    ],
)
def test_decision_without_sense_is_a_failure(bench, criteria):
    """
    The job waits with all of its minions: each of these lost some of them for good, or
    sent the job to a minion that it is not for.
    """
    setup = bench(criteria=criteria, fail_mode="closed")
    job = setup.submit(3)
    assert setup.sent() == []
    assert job.reason == "the criteria module failed"
    assert (job.minions, job.count) == (["m0", "m1", "m2"], 3)
    assert setup.criteria.ledger.used == 0


def test_order_of_a_decision(bench):
    """
    Waves are described by what lies between their first and their last minion.
    """
    setup = bench(criteria=Says(("m2", "m0", "m1")))
    setup.submit(3, "a")
    assert setup.sent() == [("a", ["m0", "m1", "m2"])]


def test_criteria_that_fails_to_give_back(bench):
    """
    Neither is the job lost, nor what it was charged.
    """

    def abort(job, minions, now):
        raise RuntimeError("I failed")

    setup = bench(criteria=Failing(1))
    setup.criteria.abort = abort
    setup.submit(1, "a")
    assert setup.sent() == []
    assert setup.criteria.ledger.used == 0
    assert setup.sent() == [("a", ["m0"])]


def test_minions_are_asked_for_when_the_turn_comes():
    """
    A long queue does not hold the ids of its minions.
    """
    asked = []

    def minions_of(job):
        asked.append(job.jid)
        return ["a"]

    criteria = salt.job_criteria.Criteria({})
    criteria.decide = lambda job, now: salt.job_criteria.requeue("no")
    manager = salt.job_handler.manager.QueueManager(
        criteria, 10, "open", lambda: 0, minions_of
    )
    for number in range(3):
        manager.submit(salt.job_handler.job.Job(number, f"j{number}", "f", 1))
    assert list(manager.advance(1.0)) == []
    assert list(manager.advance(2.0)) == []
    assert asked == ["j0"]


def test_minion_that_starts_has_nothing_to_do(bench):
    setup = bench(max_master_jobs=10)
    setup.submit(["a", "b"], "x")
    setup.submit(["a"], "y")
    setup.advance()
    assert sorted(setup.manager.started("a", setup.now)) == ["x", "y"]
    assert setup.criteria.ledger.minions() == {"b": 1}


def test_silent_minion_gets_no_jobs(bench):
    """
    What waits must not reach a fleet all at once when it is back from an outage.
    """
    setup = bench(max_master_jobs=2)
    setup.criteria.on_silent("a", setup.now)
    setup.now += 30
    setup.submit(["a", "b", "c"], "j")
    (action,) = setup.advance()
    assert action.minions == ["b", "c"]
    assert action.excluded == {"a": "the minion has not answered for 30 s"}
    setup.give_back("j", "b", "c")
    # it was sent something else before
    setup.give_back("old", "a")
    assert setup.criteria.silent == {}
    setup.submit(["a"], "k")
    assert setup.sent() == [("k", ["a"])]


def test_fleet_that_is_silent_gets_no_jobs(bench):
    """
    At a limit of 5, of 36 jobs for 20 minions that were silent, 638 returns of 720 came
    within 8 s.
    """
    setup = bench(max_master_jobs=5)
    minions = [f"m{number}" for number in range(20)]
    for number in range(36):
        setup.submit(minions, f"j{number}")
    ((jid, sent),) = setup.sent()
    assert (jid, len(sent)) == ("j0", 5)
    for minion in minions:
        setup.criteria.on_silent(minion, setup.now)
    # what it was sent may run when it is back
    assert setup.criteria.ledger.used == 5
    assert all(not action.minions for action in setup.advance())
    assert not len(setup.manager.queue)


def test_silent_minions_are_charged_for_a_while(bench):
    setup = bench(max_master_jobs=10)
    setup.submit(["a", "b"], "j")
    setup.sent()
    setup.criteria.on_silent("a", setup.now)
    assert setup.criteria.ledger.minions() == {"a": 1, "b": 1}
    setup.now += salt.job_criteria.capacity.HOLD_SECONDS - 1
    setup.criteria.on_silent("a", setup.now)
    assert setup.criteria.ledger.minions() == {"a": 1, "b": 1}
    setup.now += 1
    setup.criteria.on_silent("a", setup.now)
    assert setup.criteria.ledger.minions() == {"b": 1}


def _ask(setup, rounds, *minions):
    """
    Let time pass until it is noted that minions do not answer, and return the questions.
    """
    questions = []
    for _ in range(12):
        setup.now += 1
        for question in rounds.tick(setup.now, setup.manager.orders.waits(setup.now)):
            jid = f"q{len(questions)}"
            questions.append(question)
            rounds.asked(jid, question, setup.now)
            for minion in set(question.minions).difference(minions):
                rounds.answered(jid, minion, [], setup.now)
    return questions


def test_others_go_on_while_a_part_of_the_fleet_is_cut_off(bench):
    """
    At a limit of 12 and 30 of 60 minions cut off, 33 jobs of some 1,000 were executed in
    120 s; with charges given back early, 48 ran at once when all were back.
    """
    setup = bench(max_master_jobs=12, reserve=0)
    far = [f"far{number:02}" for number in range(30)]
    near = [f"near{number:02}" for number in range(30)]
    setup.submit(far[:12], "lost")
    assert setup.sent() == [("lost", far[:12])]
    setup.submit(["near00"], "a")
    assert setup.sent() == []
    rounds = salt.job_handler.rounds.Rounds(setup.criteria, 60, 15)
    assert _ask(setup, rounds, *far) == [
        (salt.job_handler.rounds.RUNNING, [], far[:12])
    ]
    # half of the capacity is lent, to those that are there
    setup.submit([*far[12:], *near], "b")
    assert setup.sent() == []
    assert setup.manager.queue.head().parked
    _ask(setup, rounds, *far)
    assert setup.sent() == [("a", ["near00"]), ("b", near[:5])]
    setup.give_back("a", "near00")
    setup.give_back("b", *near[:5])
    # who has come back is charged for what it was sent, and the rest is not lent any more
    setup.give_back("lost", *far[:6])
    assert setup.criteria.missing.lent(12) == 0
    # those that get it now have not answered in time either, so half is lent again
    assert setup.sent() == [("b", far[12:18]), ("b", near[5:11])]
    assert setup.criteria.ledger.used == 18


def test_late_minions_get_nothing_that_is_lent(bench):
    """
    Nor are they taken for being there as they were heard of before: at a limit of 100, 350
    points were charged, four jobs each to 50 minions that did not answer.
    """
    setup = bench(max_master_jobs=10, reserve=0)
    gone, near = [f"a{number}" for number in range(10)], ["b", "c", "d", "e", "f"]
    setup.submit(gone, "lost")
    setup.sent()
    missing = setup.criteria.missing
    missing.late_now(gone)
    for minion in near:
        setup.criteria.heard(minion)
    assert missing.lent(10) == 5
    setup.submit(near, "1")
    assert setup.sent() == [("1", near)]
    missing.late_now(near)
    setup.submit(["b", "c"], "2")
    setup.submit(["x"], "3")
    # one and a half times the limit are charged
    assert setup.sent() == []
    assert setup.criteria.ledger.used == 15
    setup.criteria.heard("x")
    assert setup.sent() == []
    setup.give_back("lost", "a0")
    assert setup.sent() == [("3", ["x"])]
    assert setup.criteria.ledger.used == 15


def test_what_minions_say_that_they_run_is_forgotten(bench):
    """
    One entry stayed for each job that had run for longer than a minute on each minion.
    """
    setup = bench(max_master_jobs=10_000)
    rounds = salt.job_handler.rounds.Rounds(setup.criteria, 60, 15)
    minions = [f"m{number}" for number in range(20)]
    for number in range(50):
        setup.submit(minions, f"j{number}")
        setup.sent()
        for _ in range(75):
            setup.now += 1
            for question in rounds.tick(setup.now):
                rounds.asked(f"q{setup.now}", question, setup.now)
                for minion in question.minions:
                    running = [{"jid": f"j{number}"}]
                    rounds.answered(f"q{setup.now}", minion, running, setup.now)
        setup.give_back(f"j{number}", *minions)
    # pylint: disable=protected-access
    assert len(rounds._running._said) < 200


def test_wide_jobs_for_a_full_fleet_do_not_hold_up_others(bench):
    """
    Also where a job goes out in one piece or not at all.
    """
    setup = bench(
        max_master_jobs=100, max_minion_jobs=1, minion_full="wait", waves=False
    )
    busy, free = [f"a{n:02}" for n in range(60)], [f"b{n:02}" for n in range(20)]
    setup.submit(busy, "long")
    setup.submit(busy, "wide")
    setup.submit(free, "other")
    assert setup.sent() == [("long", busy), ("other", free)]


def test_deadlines_of_a_job_that_cannot_be_published(bench):
    """
    One more was kept for each time that it failed, and its user lost his turn.
    """
    setup = bench(max_master_jobs=10)
    setup.submit(["a"], "1", deadline=10_000.0)
    for _ in range(400):
        (action,) = setup.advance()
        setup.manager.abort(action, setup.now)
        setup.now += 2
    # pylint: disable=protected-access
    assert len(setup.manager.queue._deadlines) <= 110
    assert setup.criteria.shares.had("", setup.now) == 0


def test_many_jobs_that_wait_give_others_their_turn(bench):
    """
    Deciding on all of them took seconds, in which the job handler answered nobody.
    """
    setup = bench(max_master_jobs=100_000, max_minion_jobs=1, minion_full="wait")
    minions = [f"m{number:04}" for number in range(5000)]
    setup.submit(minions, "long")
    setup.sent()
    for number in range(20):
        setup.submit(minions, f"j{number}")
    turns = 1
    while setup.advance() == [] and setup.manager.more:
        turns += 1
    assert 4 <= turns <= 8
    assert all(job.parked for job in setup.manager.queue)
    # what comes back concerns all of them, and some are looked at
    setup.give_back("long", "m0000")
    assert setup.sent() == [("j0", ["m0000"])]


def test_orders_of_more_jobs_than_are_remembered(bench):
    """
    The first ones were let go by a restart.
    """
    setup = bench()
    setup.manager.places.most = 2000
    setup.manager.orders.paused = True
    jids = [str(number) for number in range(1001)]
    for jid in jids:
        setup.submit(["a"], jid)
        setup.manager.orders.give(jid, held=True)
    # a batch of which nothing waits any more
    setup.manager.orders.give("gone", held=True)
    kept = dict(setup.manager.orders.snapshot()["jobs"])
    assert set(jids) <= set(kept)


def test_early_questions_are_not_asked_again_and_again(bench):
    """
    Jobs that run for long are no sign of anything.
    """
    setup = bench(max_master_jobs=2, reserve=0)
    setup.submit(["a", "b"], "long")
    setup.sent()
    setup.submit(["c"], "j")
    rounds = salt.job_handler.rounds.Rounds(setup.criteria, 60, 15)
    asked = []
    for _ in range(120):
        setup.now += 1
        assert setup.sent() == []
        for question in rounds.tick(setup.now, setup.manager.orders.waits(setup.now)):
            asked.append(setup.now - 100)
            rounds.asked(f"q{len(asked)}", question, setup.now)
            for minion in question.minions:
                running = [{"jid": "long"}]
                rounds.answered(f"q{len(asked)}", minion, running, setup.now)
    assert asked == [6, 66]


def test_silent_minions_of_a_master_without_limit(bench):
    setup = bench(max_minion_jobs=2)
    setup.submit(["a", "b"], "j")
    setup.sent()
    setup.criteria.on_silent("a", setup.now)
    assert setup.criteria.ledger.minions() == {"b": 1}


def test_whoever_is_in_doubt_waits_and_is_not_left_out(bench):
    """
    As after a restart: it is charged for what it may have given back meanwhile.
    """
    setup = bench(max_minion_jobs=1)
    setup.submit(["a"], "old")
    setup.sent()
    setup.criteria.ledger.doubt()
    setup.submit(["a", "b"], "j")
    (action,) = setup.advance()
    assert (action.minions, action.excluded, action.last) == (["b"], {}, False)
    (job,) = setup.manager.queue
    assert setup.advance() == []
    assert (
        job.reason == "1 minions are asked whether they still run what they were sent"
    )
    # it does not run it any more
    setup.criteria.reconcile("a", "old", False, setup.now)
    assert setup.sent() == [("j", ["a"])]


def test_whoever_runs_what_was_in_doubt_is_left_out(bench):
    setup = bench(max_minion_jobs=1)
    setup.submit(["a"], "old")
    setup.sent()
    setup.criteria.ledger.doubt()
    setup.submit(["a"], "j")
    assert setup.advance() == []
    setup.criteria.reconcile("a", "old", True, setup.now)
    (action,) = setup.advance()
    assert action.excluded == {"a": "the minion is at 1 of 1 points"}


@pytest.mark.parametrize("limits", [{}, {"max_master_jobs": 10}])
def test_others_pass_whoever_waits_for_a_minion_in_doubt(bench, limits):
    """
    A dead minion takes its time not to answer, and nobody else has to wait for that.
    """
    setup = bench(max_minion_jobs=1, **limits)
    setup.submit(["a"], "old")
    setup.sent()
    setup.criteria.ledger.doubt()
    setup.submit(["a"], "j")
    setup.submit(["b"], "k")
    assert setup.sent() == [("k", ["b"])]
    setup.submit(["c"], "l")
    assert setup.sent() == [("l", ["c"])]
    setup.criteria.on_silent("a", setup.now)
    (action,) = setup.advance()
    assert list(action.excluded) == ["a"]


def test_what_is_in_doubt_beside_what_is_sure(bench):
    setup = bench(max_minion_jobs=2)
    setup.submit(["a"], "old")
    setup.sent()
    setup.criteria.ledger.doubt()
    setup.submit(["a"], "new")
    assert setup.sent() == [("new", ["a"])]
    setup.submit(["a"], "j")
    assert setup.advance() == []
    setup.submit(["a"], "k")
    setup.give_back("old", "a")
    # there is room for one, and what is charged is sure
    assert setup.sent() == [("j", ["a"]), ("k", [])]


def test_unknown_minions_of_a_syndic(bench):
    """
    Somebody who returns a job shows that it still runs.
    """
    setup = bench(max_master_jobs=1)
    unknown = salt.job_handler.manager.UNKNOWN
    setup.submit([unknown], "j", fixed=True)
    setup.advance()
    setup.now = 500.0
    setup.give_back("j", "behind-a-syndic")
    assert setup.criteria.stale(400.0) == {}
    assert setup.criteria.ledger.used == 1


def test_job_that_is_held_stays_and_others_pass(bench):
    setup = bench(max_master_jobs=10)
    setup.manager.orders.paused = True
    for jid in ("a", "b"):
        setup.submit(10, jid)
    assert setup.manager.orders.give("a", held=True) == 10
    setup.manager.orders.paused = False
    assert [jid for jid, _ in setup.sent()] == ["b"]
    setup.give_back("b", *[f"m{number}" for number in range(10)])
    assert setup.sent() == []
    assert setup.manager.orders.give("a", held=False) == 10
    assert [jid for jid, _ in setup.sent()] == ["a"]
    assert setup.manager.orders.snapshot()["jobs"] == []


def test_job_of_higher_priority_goes_first(bench):
    setup = bench(max_master_jobs=10)
    setup.submit(10, "runs")
    setup.sent()
    for jid in "abc":
        setup.submit(10, jid, user=jid)
    setup.manager.orders.give("c", priority=5)
    setup.manager.orders.give("a", priority=-1)
    order = []
    setup.give_back("runs", *[f"m{number}" for number in range(10)])
    for _ in range(3):
        ((jid, minions),) = setup.sent()
        order.append(jid)
        setup.give_back(jid, *minions)
    assert order == ["c", "b", "a"]


def test_what_is_said_of_a_batch_holds_for_its_later_parts(bench):
    setup = bench(max_master_jobs=10)
    assert setup.manager.orders.give("batch", held=True) == 0
    for minion in ("x", "y"):
        setup.submit([minion], "batch")
    assert setup.sent() == []
    list(setup.manager.cancel("batch", setup.now))
    assert not len(setup.manager.queue)


def test_held_job_is_discarded_in_time(bench):
    setup = bench(max_master_jobs=10)
    setup.manager.orders.give("a", held=True)
    job = setup.submit(1, "a", deadline=setup.now + 5)
    assert setup.advance() == []
    setup.now += 5
    (action,) = setup.advance()
    assert (action.job, action.reason) == (job, "timeout")


def test_pause_ends(bench):
    setup = bench(max_master_jobs=10)
    setup.manager.orders.paused_until = setup.now + 60
    setup.submit(1, "a")
    assert setup.sent() == []
    setup.now += 60
    assert setup.sent() == [("a", ["m0"])]
    assert not setup.manager.orders.paused
