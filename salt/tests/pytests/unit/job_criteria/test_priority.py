import salt.job_criteria.priority
import salt.job_handler.manager

LANES = [
    {"urgent": {"weight": 10, "functions": ["pkg.*"], "users": ["security"]}},
    {"bulk": {"weight": 1, "functions": ["state.*"]}},
]


def _criteria(**settings):
    return salt.job_criteria.priority.criteria(
        {"max_master_jobs": 1, "lanes": LANES, "default_weight": 3, **settings}
    )


def _run_all(setup, seconds=1.0):
    """
    Return the job ids in the order in which they run, one after the other.
    """
    order = []
    while len(setup.manager.queue):
        ((jid, minions),) = setup.sent()
        order.append(jid)
        setup.now += seconds
        setup.give_back(jid, *minions)
    return order


def test_lanes(bench):
    setup = bench(criteria=_criteria())
    for fun, user, expected in (
        ("pkg.install", "security", ("urgent", "security")),
        ("pkg.install", "bob", ("default", "bob")),
        ("state.apply", "bob", ("bulk", "bob")),
        (["state.apply", "test.version"], "bob", ("default", "bob")),
    ):
        assert setup.criteria.flow(setup.job(1, fun=fun, user=user)) == expected


def test_heavier_lane_goes_first(bench):
    setup = bench(criteria=_criteria())
    setup.submit(1, "bulk", fun="state.apply", user="a")
    setup.submit(1, "normal", fun="test.version", user="a")
    setup.submit(1, "urgent", fun="pkg.install", user="security")
    assert _run_all(setup) == ["urgent", "normal", "bulk"]


def test_one_lane_and_user_is_first_in_first_out(bench):
    setup = bench(criteria=_criteria())
    for number in range(4):
        setup.submit(1, f"j{number}", user="a")
    assert _run_all(setup) == ["j0", "j1", "j2", "j3"]


def test_users_take_turns(bench):
    """
    One who asks for ten jobs at once does not keep another one waiting for all of them.
    """
    setup = bench(criteria=_criteria())
    for number in range(10):
        setup.submit(1, f"greedy{number}", user="greedy")
    setup.submit(1, "modest0", user="modest")
    setup.submit(1, "modest1", user="modest")
    order = _run_all(setup)
    assert order.index("modest0") == 1
    assert order.index("modest1") <= 3


def test_nobody_waits_for_ever(bench):
    """
    A light lane under a stream of heavier jobs gets its turn, for waiting adds weight.
    """
    setup = bench(criteria=_criteria(ageing=10))
    setup.submit(1, "old", fun="state.apply", user="a")
    turns = 0
    while True:
        turns += 1
        setup.submit(1, f"new{turns}", fun="pkg.install", user="security")
        ((jid, minions),) = setup.sent()
        setup.give_back(jid, *minions)
        setup.now += 5.0
        if jid == "old":
            break
        assert turns < 50
    assert turns > 2


def test_had_is_forgotten(bench):
    setup = bench(criteria=_criteria())
    setup.submit(1, user="a")
    setup.advance()
    flow = ("bulk", "a")
    had = setup.criteria.shares.had
    assert had(flow, setup.now) == 1
    assert had(flow, setup.now + 60) == 0.5


def test_validate():
    validate = salt.job_criteria.priority.Priority.validate
    assert validate({"lanes": LANES}) == []
    assert validate({"lanes": {}, "ageing": 0}) == [
        "ageing is 0: write seconds above 0, at most 1000000000000.",
        "lanes is {}: write a list of name: {weight: 1, ...}.",
    ]
    assert validate({"lanes": [{"a": {"weight": 0, "users": "x", "colour": 1}}]}) == [
        "the weight of lane a is 0: write a number above 0, at most 1000000000000.",
        "the users of lane a are 'x': write a list.",
        "lane a has colour: there are weight, functions and users.",
    ]


def test_forced_job_that_can_not_be_published_waits_in_its_flow(bench):
    setup = bench(criteria=salt.job_criteria.priority.Priority({}))
    action = setup.manager.force(setup.job(["a"], "peer", user="x"), setup.now)
    setup.manager.abort(action, setup.now)
    setup.now += salt.job_handler.manager.HOLD_SECONDS
    assert action.job.flow == ("default", "x")
    assert setup.sent() == [("peer", ["a"])]
