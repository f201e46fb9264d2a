import pytest

import salt.job_criteria.capacity


@pytest.mark.parametrize(
    "settings,expected",
    [
        ({}, []),
        ({"max_master_jobs": 1, "max_minion_jobs": 1, "waves": False}, []),
        (
            {"max_master_jobs": 0},
            ["max_master_jobs is 0: write a whole number from 1 to 1000000000000."],
        ),
        (
            {
                "max_minion_jobs": "ten",
                "waves": "no",
                "wave_patience": 0,
                "min_wave": True,
            },
            [
                "max_minion_jobs is 'ten': write a whole number from 1 to 1000000000000.",
                "min_wave is True: write a whole number from 1 to 1000000000000.",
                "waves is 'no': write True or False.",
                "wave_patience is 0: write seconds above 0, at most 1000000000000.",
            ],
        ),
    ],
)
def test_validate(settings, expected):
    assert salt.job_criteria.capacity.Capacity.validate(settings) == expected


def test_no_limits(bench):
    """
    Without limits everything goes out at once.
    """
    setup = bench()
    for _ in range(3):
        setup.submit(1000)
    assert [len(minions) for _, minions in setup.sent()] == [1000] * 3


def test_stats(bench):
    setup = bench(max_master_jobs=10, max_minion_jobs=1)
    setup.submit(["a", "b"])
    setup.advance()
    assert setup.criteria.stats(setup.now) == {
        "used": 2,
        "silent": 0,
        "charges": 2,
        "limit": 10,
        "full_minions": 2,
    }


def test_min_wave(bench):
    setup = bench(max_master_jobs=10, min_wave=6)
    setup.submit(20, "wide")
    ((_, first),) = setup.sent()
    setup.give_back("wide", *first[:5])
    assert setup.sent() == []
    setup.give_back("wide", first[5])
    assert [len(minions) for _, minions in setup.sent()] == [6]


def test_waves_do_not_wait_for_what_is_held_for_long(bench):
    """
    Jobs of hours hold two fifths of the capacity: the others' waves go out as soon as
    three quarters of the rest are free, not after the patience.
    """
    setup = bench(max_master_jobs=100, reserve=0)
    setup.submit([f"h{number}" for number in range(40)], "hours")
    assert [len(minions) for _, minions in setup.sent()] == [40]
    setup.now += 6
    setup.submit(300, "wide")
    ((_, wave),) = setup.sent()
    assert len(wave) == 60
    sizes = []
    while wave and len(sizes) < 10:
        setup.now += 1
        setup.give_back("wide", *wave)
        found = setup.sent()
        wave = found[0][1] if found else []
        sizes.append(len(wave))
    assert sizes == [60, 60, 60, 60, 0]


def test_waves_do_not_wait_for_those_that_are_gone(bench):
    """
    Half of a wave does not answer: the next one goes out a second after the last answer,
    whatever others get back meanwhile.
    """
    setup = bench(max_master_jobs=100, reserve=0)
    setup.submit(300, "wide")
    ((_, wave),) = setup.sent()
    setup.submit(["x1", "x2", "x3"], "other")
    setup.now += 0.5
    setup.give_back("wide", *wave[:50])
    assert [jid for jid, _ in setup.sent()] == []
    setup.now += 0.9
    assert setup.sent() == []
    setup.now += 0.2
    assert [(jid, len(minions)) for jid, minions in setup.sent()] == [("wide", 50)]


def test_few_places_wait_for_more(bench):
    """
    Less than a quarter of the capacity is no wave, even where nothing else comes back.
    """
    setup = bench(max_master_jobs=100, reserve=0)
    setup.submit(300, "wide")
    ((_, wave),) = setup.sent()
    setup.now += 0.5
    setup.give_back("wide", *wave[:24])
    for _ in range(4):
        assert setup.sent() == []
        setup.now += 1
    setup.now += 1
    assert [len(minions) for _, minions in setup.sent()] == [24]


def test_min_wave_holds_where_nothing_comes_back(bench):
    setup = bench(max_master_jobs=100, reserve=0, min_wave=60)
    setup.submit(300, "wide")
    ((_, wave),) = setup.sent()
    setup.give_back("wide", *wave[:50])
    assert setup.sent() == []
    setup.now += 2
    assert setup.sent() == []


def test_waves_do_not_wait_for_what_was_just_seen_to_run(bench):
    """
    The maintenance asks once a minute what runs. That a minion says so does not mean that
    it returns soon.
    """
    setup = bench(max_master_jobs=100, reserve=0)
    hours = [f"h{number}" for number in range(40)]
    setup.submit(hours, "hours")
    assert len(setup.sent()) == 1
    setup.now += 60
    for minion in hours:
        setup.criteria.reconcile(minion, "hours", True, setup.now)
    setup.submit(300, "wide")
    ((_, wave),) = setup.sent()
    setup.now += 1
    setup.give_back("wide", *wave)
    assert [len(minions) for _, minions in setup.sent()] == [60]


@pytest.mark.parametrize("fixed", [True, False])
def test_job_in_one_piece_does_not_wait_for_hours(bench, fixed):
    """
    It goes when all is back that comes back soon: behind it everybody waits. A master of
    masters sends each job in one piece.
    """
    setup = bench(max_master_jobs=100, reserve=0, waves=fixed)
    hours = [f"h{number}" for number in range(30)]
    setup.submit(hours, "hours")
    setup.submit(["a"], "short")
    assert len(setup.sent()) == 2
    setup.submit(80, "wide", fixed=fixed)
    setup.now += 60
    for minion in hours:
        setup.criteria.reconcile(minion, "hours", True, setup.now)
    assert setup.sent() == []
    setup.give_back("short", "a")
    assert [len(minions) for _, minions in setup.sent()] == [80]
    # nor is that the end of all limits
    setup.submit(80, "next", fixed=fixed)
    for number in range(80):
        setup.criteria.reconcile(f"m{number}", "wide", True, setup.now + 60)
    assert setup.sent() == []


def test_job_in_one_piece_that_fits_keeps_to_the_limit(bench):
    setup = bench(max_master_jobs=100, reserve=0, waves=False)
    setup.submit(["h"], "hours")
    setup.submit(["a"], "short")
    assert len(setup.sent()) == 2
    setup.now += 60
    setup.criteria.reconcile("h", "hours", True, setup.now)
    setup.submit(99, "wide")
    assert setup.sent() == []
    setup.give_back("short", "a")
    assert [len(minions) for _, minions in setup.sent()] == [99]
    assert setup.criteria.ledger.used == 100


def test_small_waves_wait_where_nearly_all_is_held_for_long(bench):
    """
    Minions that come back one by one from a long job do not make a wave each: the first
    one does, as the job has not moved for long.
    """
    setup = bench(max_master_jobs=100, reserve=0)
    setup.submit(300, "wide")
    ((_, wave),) = setup.sent()
    setup.now += 60
    setup.sent()
    sizes = []
    for minion in wave:
        setup.give_back("wide", minion)
        sizes += [len(minions) for _, minions in setup.sent()]
    assert sizes[0] == 1
    assert min(sizes[1:]) >= 18


def test_full_minions_beyond_the_wave_stay(bench):
    """
    Who is full now need not be when its wave comes.
    """
    setup = bench(max_master_jobs=4, max_minion_jobs=1)
    setup.submit(["m9"], "long")
    setup.submit([f"m{number}" for number in range(10)], "wide")
    _, action = setup.advance()
    assert (action.minions, action.excluded) == (["m0", "m1", "m2"], {})
    setup.give_back("long", "m9")
    while True:
        setup.give_back("wide", *action.minions)
        actions = setup.advance()
        if not actions:
            break
        (action,) = actions
        assert action.excluded == {}
    assert "m9" in action.minions


def test_small_job_goes_beside_a_wide_one(bench):
    """
    And the wide one gets as many minions in each wave as if there was none.
    """
    setup = bench(max_master_jobs=100)
    setup.submit(300, "wide")
    assert [len(minions) for _, minions in setup.sent()] == [95]
    setup.submit(["a", "b"], "small")
    setup.submit(["a", "b", "c", "d"], "too wide beside it")
    setup.submit(["c"], "next")
    assert setup.sent() == [("small", ["a", "b"]), ("next", ["c"])]
    setup.give_back("wide", *[f"m{number}" for number in range(300)])
    assert [(jid, len(minions)) for jid, minions in setup.sent()] == [("wide", 95)]
    assert setup.criteria.ledger.used == 98


def test_nothing_is_kept_for_small_jobs(bench):
    setup = bench(max_master_jobs=100, reserve=0)
    setup.submit(300, "wide")
    assert [len(minions) for _, minions in setup.sent()] == [100]
    setup.submit(["a"], "small")
    assert setup.sent() == []


def test_who_floods_the_queue_waits_behind_himself(bench):
    """
    Of a user who asks for fifty jobs and one who asks for one a moment later.
    """
    setup = bench(max_master_jobs=10)
    for number in range(50):
        setup.submit(10, f"many{number}", user="alice")
    assert [jid for jid, _ in setup.sent()] == ["many0"]
    setup.submit(10, "one", user="bob")
    setup.give_back("many0", *[f"m{number}" for number in range(10)])
    assert [jid for jid, _ in setup.sent()] == ["one"]


def test_without_fairness_the_order_is_that_of_the_requests(bench):
    setup = bench(max_master_jobs=10, fair=False)
    for number in range(3):
        setup.submit(10, f"many{number}", user="alice")
    setup.submit(10, "one", user="bob")
    order = []
    for _ in range(4):
        ((jid, minions),) = setup.sent()
        order.append(jid)
        setup.give_back(jid, *minions)
    assert order == ["many0", "many1", "many2", "one"]


def test_nobody_waits_for_ever(bench):
    """
    A user who has had much, behind others who go on asking.
    """
    setup = bench(max_master_jobs=10, ageing=60)
    setup.submit(10, "first", user="alice")
    setup.give_back(*setup.sent()[0][:1], *[f"m{number}" for number in range(10)])
    setup.submit(10, "second", user="alice")
    for number in range(600):
        setup.submit(10, f"bob{number}", user=f"bob{number}")
        ((jid, minions),) = setup.sent()
        setup.give_back(jid, *minions)
        setup.now += 1
        if jid == "second":
            break
    # what she has had halves each minute, and her job counts more each minute
    assert number < 180


@pytest.mark.parametrize("reserve", [1, -0.1, "x", True])
def test_reserve_is_a_part(reserve):
    validate = salt.job_criteria.capacity.Capacity.validate
    assert validate({"reserve": reserve}) == [
        f"reserve is {reserve!r}: write 0 or a part of the capacity below 1."
    ]
    assert validate({"reserve": 0, "fair": False, "ageing": 1.5}) == []


def test_job_waits_for_minions_that_are_full(bench):
    """
    Others pass it, and each minion gets it when it has room.
    """
    setup = bench(max_minion_jobs=1, minion_full="wait")
    setup.submit(["a"], "runs on a")
    setup.submit(["b"], "runs on b")
    setup.submit(["a", "b", "c"], "waits")
    setup.submit(["d"], "passes")
    assert setup.sent() == [
        ("runs on a", ["a"]),
        ("runs on b", ["b"]),
        ("waits", ["c"]),
        ("passes", ["d"]),
    ]
    (job,) = setup.manager.queue
    assert (job.count, job.reason) == (2, "2 minions are at their limit")
    setup.submit(["e"], "passes, too")
    assert setup.sent() == [("passes, too", ["e"])]
    setup.give_back("runs on b", "b")
    assert setup.sent() == [("waits", ["b"])]
    setup.give_back("runs on a", "a")
    assert setup.sent() == [("waits", ["a"])]
    assert len(setup.manager.queue) == 0


def test_order_of_jobs_that_wait_for_one_minion(bench):
    setup = bench(max_minion_jobs=1, minion_full="wait")
    for jid in "123":
        setup.submit(["a"], jid)
    order = []
    for _ in range(3):
        ((jid, _),) = setup.sent()
        order.append(jid)
        setup.give_back(jid, "a")
    assert order == ["1", "2", "3"]


def test_parked_job_can_be_cancelled_held_and_discarded(bench):
    setup = bench(max_minion_jobs=1, minion_full="wait")
    setup.submit(["a"], "runs")
    setup.submit(["a"], "cancelled")
    setup.submit(["a"], "held")
    setup.submit(["a"], "late", deadline=setup.now + 5)
    assert len(setup.sent()) == 1
    (action,) = setup.manager.cancel("cancelled", setup.now)
    assert action.job.jid == "cancelled"
    setup.manager.orders.give("held", held=True)
    setup.now += 5
    (action,) = setup.advance()
    assert action.job.jid == "late"
    setup.give_back("runs", "a")
    assert setup.sent() == []
    setup.manager.orders.give("held", held=False)
    assert setup.sent() == [("held", ["a"])]


def test_minion_full_is_one_of_two():
    validate = salt.job_criteria.capacity.Capacity.validate
    assert validate({"minion_full": "later"}) == [
        "minion_full is 'later': write exclude or wait."
    ]


def test_points_of_those_that_are_missing(bench):
    """
    One is back and still at work, another is given up and a third is late, all between two
    decisions: as many are missing as before, but others.
    """
    setup = bench(max_master_jobs=100)
    criteria = setup.criteria
    for jid, minions in (("1", "abc"), ("2", "a"), ("3", "a")):
        setup.submit(list(minions), jid)
    setup.sent()
    criteria.on_silent("a", setup.now)
    criteria.missing.late_now(["b"])
    assert criteria.missing.points() == 4
    criteria.reconcile("a", "1", True, setup.now)
    criteria.on_silent("b", setup.now)
    criteria.missing.late_now(["c"])
    assert criteria.missing.points() == 2
