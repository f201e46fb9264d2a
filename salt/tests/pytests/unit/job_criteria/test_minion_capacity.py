import pytest

import salt.cache
import salt.job_criteria.minion_capacity

RULES = [{"G@role:build": 3}, {"I@tier:gold": 2}, {"router-*": 1}]


@pytest.fixture
def criteria():
    return salt.job_criteria.minion_capacity.criteria(
        {"max_minion_jobs": 5, "minion_jobs": RULES}
    )


@pytest.fixture
def opts(master_opts):
    cache = salt.cache.factory(master_opts)
    for minion, grains, pillar in (
        ("build-1", {"role": "build"}, {"tier": "gold"}),
        ("web-1", {"role": ["web", "db"]}, {"tier": "gold"}),
        ("web-2", {"role": "web"}, {}),
        ("router-1", {"role": "build"}, {}),
    ):
        cache.store("grains", minion, grains)
        cache.store("pillar", minion, pillar)
    return master_opts


def test_limits_before_anything_is_known(criteria):
    assert criteria.minion_limit("router-9") == 1
    assert criteria.minion_limit("build-1") == 5


def test_limits_by_grain_and_pillar(criteria, opts):
    """
    The first rule that matches counts.
    """
    criteria.learn(criteria.collect(opts), 0)
    assert {
        minion: criteria.minion_limit(minion)
        for minion in ("build-1", "web-1", "web-2", "router-1", "router-9", "other")
    } == {
        "build-1": 3,
        "web-1": 2,
        "web-2": 5,
        "router-1": 3,
        "router-9": 1,
        "other": 5,
    }


def test_minion_at_its_own_limit_is_left_out(bench, criteria):
    setup = bench(criteria=criteria)
    setup.submit(["router-1", "web-1"])
    setup.submit(["router-1", "web-1"])
    _, second = setup.advance()
    assert (second.minions, list(second.excluded)) == (["web-1"], ["router-1"])


def test_nothing_to_collect_for_globs(opts):
    criteria = salt.job_criteria.minion_capacity.criteria({"minion_jobs": [{"a*": 1}]})
    assert criteria.collect(opts) is None


def test_validate():
    validate = salt.job_criteria.minion_capacity.MinionCapacity.validate
    assert validate({"minion_jobs": RULES}) == []
    assert validate({"minion_jobs": {"a": 1}}) == [
        "minion_jobs is {'a': 1}: write a list of target: jobs."
    ]
    assert validate({"minion_jobs": [{"G@role": 1}, {"a*": 0}]}) == [
        "minion_jobs has 'G@role': write G@grain:value, I@key:value or a glob.",
        "minion_jobs of a* is 0: write a whole number from 1 to 1000000000000.",
    ]
