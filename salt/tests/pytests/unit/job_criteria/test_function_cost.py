import salt.job_criteria.function_cost


def _criteria(**settings):
    return salt.job_criteria.function_cost.criteria(
        {"costs": {"state.highstate": 10, "state.*": 5}, **settings}
    )


def test_cost(bench):
    criteria = _criteria(default_cost=2)
    setup = bench(criteria=criteria)
    for fun, expected in (
        ("state.highstate", 10),
        ("state.apply", 5),
        ("test.version", 2),
        (["state.apply", "test.version"], 7),
    ):
        assert criteria.cost(setup.job(1, fun=fun)) == expected


def test_costs_count_for_master_and_minion(bench):
    setup = bench(criteria=_criteria(max_master_jobs=13, max_minion_jobs=6))
    setup.submit(["a", "b"], "x", fun="state.apply")
    setup.submit(["a"], "y", fun="test.version")
    setup.submit(["a", "c"], "z", fun="test.version")
    first, second, third = setup.advance()
    assert (first.minions, second.minions) == (["a", "b"], ["a"])
    assert third.minions == ["c"]
    assert third.excluded == {"a": "the minion is at 6 of 6 points"}
    assert setup.criteria.ledger.used == 12


def test_job_that_costs_more_than_there_is(bench):
    """
    It runs alone, one minion at a time.
    """
    setup = bench(criteria=_criteria(max_master_jobs=4, max_minion_jobs=3))
    setup.submit(["a", "b"], "x", fun="state.highstate")
    assert setup.sent() == [("x", ["a"])]
    assert setup.sent() == []
    setup.give_back("x", "a")
    assert setup.sent() == [("x", ["b"])]
    assert setup.criteria.ledger.used == 10


def test_costs_below_one(bench):
    """
    What computes to a little more or less, as fractions do, is what one expects.
    """
    costs = {"a": 0.1, "b": 0.2, "c": 0.7}
    setup = bench(
        criteria=_criteria(costs=costs, max_master_jobs=2, reserve=0, waves=False)
    )
    # 1 // 0.1 is 9
    setup.submit(20, "0", fun="a")
    assert [len(minions) for _, minions in setup.sent()] == [20]
    setup.give_back("0", *[f"m{number}" for number in range(20)])
    # 0.1 + 0.2 + 0.7 is more than 0.7 + 0.2 + 0.1
    for fun in costs:
        setup.submit(["m1"], fun, fun=fun)
    assert len(setup.sent()) == 3
    for fun in ("c", "b", "a"):
        setup.criteria.ledger.renew(fun, "m1", setup.now + 10)
    setup.submit(30, "wide", fun="a")
    assert [len(minions) for _, minions in setup.sent()] == [30]


def test_minion_that_is_just_full(bench):
    """
    0.1 + 2.7 + 0.2 is more than 3.
    """
    costs = {"a": 0.1, "b": 2.7, "c": 0.2}
    setup = bench(criteria=_criteria(costs=costs, max_minion_jobs=3))
    for fun in costs:
        setup.submit(["m1"], fun, fun=fun)
    assert setup.sent() == [(fun, ["m1"]) for fun in costs]
    assert setup.criteria.stats(setup.now)["full_minions"] == 1


def test_small_jobs_that_just_fit(bench):
    """
    100 * 0.07 is more than 7, and 1 - 0.1 - 0.2 less than 0.7.
    """
    costs = {"wide": 1, "a": 0.07, "b": 0.1, "c": 0.2, "d": 0.7}
    setup = bench(criteria=_criteria(costs=costs, max_master_jobs=70, reserve=0.1))
    setup.submit(100, "wide", fun="wide")
    assert [len(minions) for _, minions in setup.sent()] == [63]
    setup.submit(100, "a", fun="a")
    assert [(jid, len(minions)) for jid, minions in setup.sent()] == [("a", 100)]
    setup = bench(criteria=_criteria(costs=costs, max_master_jobs=10, reserve=0.1))
    setup.submit(100, "wide", fun="wide")
    assert [len(minions) for _, minions in setup.sent()] == [9]
    for fun in ("b", "c", "d"):
        setup.submit(["m1"], fun, fun=fun)
    assert [jid for jid, _ in setup.sent()] == ["b", "c", "d"]


def test_costs_of_next_to_nothing(bench):
    setup = bench(criteria=_criteria(costs={"a": 1e-7}, max_master_jobs=1, reserve=0))
    setup.submit(1, "x", fun="b")
    assert len(setup.sent()) == 1
    setup.submit(10, "y", fun="a")
    assert setup.sent() == []


def test_validate():
    validate = salt.job_criteria.function_cost.FunctionCost.validate
    assert validate({"costs": {"state.*": 2.5}}) == []
    assert validate({"costs": ["state.*"]}) == [
        "costs is ['state.*']: write points by function."
    ]
    assert validate({"costs": {"state.*": 0}, "default_cost": "x"}) == [
        "the cost of state.* is 0: write a number above 0, at most 1000000000000.",
        "the cost of default_cost is 'x': write a number above 0, at most 1000000000000.",
    ]
