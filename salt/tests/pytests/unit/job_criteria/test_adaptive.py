import collections

import salt.job_criteria.adaptive


def _criteria(**settings):
    return salt.job_criteria.adaptive.criteria(
        {"min_master_jobs": 10, "max_master_jobs": 1000, **settings}
    )


def _simulate(setup, rate, seconds, minions=30000):
    """
    Let a master that serves ``rate`` returns a second work; return the limit of each
    second.
    """
    if not len(setup.manager.queue):
        setup.submit(minions, "wide")
    in_flight, limits, ready = collections.deque(), [], 0.0
    for _ in range(seconds * 10):
        for jid, sent in setup.sent():
            in_flight.extend((jid, minion) for minion in sent)
        ready += rate / 10
        while ready >= 1 and in_flight:
            setup.give_back(*in_flight.popleft())
            ready -= 1
        ready = min(ready, 1.0) if not in_flight else ready
        setup.now += 0.1
        limits.append(setup.criteria.limit)
    return limits[9::10]


def test_grows_to_what_the_master_serves(bench):
    """
    200 a second for 4 seconds are 800, which is found from 10 on and then held.
    """
    setup = bench(criteria=_criteria())
    limits = _simulate(setup, rate=200, seconds=90)
    assert limits[0] < 20
    assert all(750 <= limit <= 850 for limit in limits[-20:])


def test_doubles_until_the_rate_is_known(bench):
    """
    800 is six doublings from 10 on, and takes few waves.
    """
    setup = bench(criteria=_criteria())
    limits = _simulate(setup, rate=200, seconds=20)
    assert limits[1] >= 2 * limits[0]
    assert 700 <= limits[9] <= 850
    assert setup.manager.counters["waves"] < 50


def test_a_restart_does_not_double_again(bench):
    setup = bench(criteria=_criteria())
    setup.criteria.restore({"limit": 300}, 0)
    limits = _simulate(setup, rate=200, seconds=5)
    assert max(limits) <= 300 * 1.1**5 + 5


def test_is_cut_when_returns_stop_coming(bench):
    setup = bench(criteria=_criteria())
    before = _simulate(setup, rate=200, seconds=60)[-1]
    after = _simulate(setup, rate=10, seconds=15)[-1]
    assert after <= before / 4


def test_stays_between_its_bounds(bench):
    setup = bench(criteria=_criteria(max_master_jobs=50))
    assert max(_simulate(setup, rate=500, seconds=40)) == 50
    setup = bench(criteria=_criteria())
    assert min(_simulate(setup, rate=0.1, seconds=40)) == 10


def test_restore():
    criteria = _criteria()
    criteria.restore({"limit": 300}, 0)
    assert criteria.snapshot() == {"limit": 300}
    criteria.restore({"limit": 5}, 0)
    assert criteria.master_limit(0) == 10


def test_validate():
    validate = salt.job_criteria.adaptive.Adaptive.validate
    assert validate({}) == []
    assert validate({"min_master_jobs": 5, "max_master_jobs": 4}) == [
        "min_master_jobs is 5: write at most max_master_jobs, 4."
    ]
    assert validate({"min_master_jobs": 0, "return_seconds": "x"}) == [
        "min_master_jobs is 0: write a whole number from 1 to 1000000000000.",
        "return_seconds is 'x': write seconds above 0, at most 1000000000000.",
    ]


def test_waves_do_not_wait_for_what_is_held_for_long(bench):
    """
    A wave that is to find out the limit waits for what comes back soon, and not for jobs
    of hours.
    """
    settings = {"min_master_jobs": 100, "max_master_jobs": 100, "reserve": 0}
    setup = bench(salt.job_criteria.adaptive.criteria(settings))
    setup.submit([f"h{number}" for number in range(40)], "hours")
    assert [len(minions) for _, minions in setup.sent()] == [40]
    setup.now += 6
    setup.submit(300, "wide")
    ((_, wave),) = setup.sent()
    assert len(wave) == 60
    setup.now += 1
    setup.give_back("wide", *wave)
    ((_, wave),) = setup.sent()
    assert len(wave) == 60


def _confirm(setup, jid, minions):
    """
    Let the maintenance learn that minions still run a job.
    """
    for minion in minions:
        setup.criteria.reconcile(minion, jid, True, setup.now)


def test_jobs_that_take_long_do_not_use_the_limit_up(bench):
    """
    A state of minutes on as many minions as the limit begins with: everybody else would
    wait until it is over, as nothing comes back that the limit could grow by.
    """
    setup = bench(salt.job_criteria.adaptive.criteria({"reserve": 0}))
    minutes = [f"s{number}" for number in range(50)]
    setup.submit(minutes, "minutes")
    assert [len(sent) for _, sent in setup.sent()] == [50]
    setup.submit(200, "short")
    for _ in range(6):
        setup.now += 1
        assert setup.sent() == []
    _confirm(setup, "minutes", minutes)
    limits = _simulate(setup, rate=100, seconds=30)
    assert len(setup.manager.queue) == 0
    assert setup.criteria.ledger.used == 50
    assert min(limits) >= 50


def test_what_takes_long_counts_to_the_upper_bound(bench):
    setup = bench(_criteria(max_master_jobs=60, min_master_jobs=50, reserve=0))
    minutes = [f"s{number}" for number in range(50)]
    setup.submit(minutes, "minutes")
    assert len(setup.sent()) == 1
    setup.now += 6
    _confirm(setup, "minutes", minutes)
    setup.submit(200, "short")
    setup.now += 6
    assert [len(sent) for _, sent in setup.sent()] == [10]
    assert setup.criteria.master_limit(setup.now) == 60


def test_limit_grows_beside_jobs_that_take_long(bench):
    """
    Six times as many points as the limit are held for minutes: 1,000 minions at 100 returns
    a second take ten seconds and a few, not five seconds for each 50 of them.
    """
    setup = bench(_criteria(min_master_jobs=50, reserve=0))
    minutes = [f"s{number}" for number in range(300)]
    job = setup.job(minutes, "minutes")
    setup.criteria.charge(job, minutes, setup.now)
    setup.now += 6
    _confirm(setup, "minutes", minutes)
    setup.submit(1000, "wide")
    _simulate(setup, rate=100, seconds=20)
    assert setup.criteria.ledger.used == 300
    assert len(setup.manager.queue) == 0
