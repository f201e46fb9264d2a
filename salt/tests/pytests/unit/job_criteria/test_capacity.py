import pytest

import salt.job_criteria.capacity


@pytest.mark.parametrize(
    "settings,expected",
    [
        ({}, []),
        ({"max_master_jobs": 1, "max_minion_jobs": 1, "waves": False}, []),
        (
            {"max_master_jobs": 0},
            ["max_master_jobs is 0: write a whole number from 1 on."],
        ),
        (
            {
                "max_minion_jobs": "ten",
                "waves": "no",
                "wave_patience": 0,
                "min_wave": True,
            },
            [
                "max_minion_jobs is 'ten': write a whole number from 1 on.",
                "min_wave is True: write a whole number from 1 on.",
                "waves is 'no': write True or False.",
                "wave_patience is 0: write seconds above 0.",
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
