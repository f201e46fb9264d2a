import pytest

import salt.job_handler.config


@pytest.mark.parametrize(
    "name", ["adaptive", "function_cost", "minion_capacity", "priority"]
)
def test_shipped_modules_load(master_opts, name):
    master_opts["rate_limiting"] = {"criteria": name}
    assert salt.job_handler.config.errors(master_opts) == []
    criteria = salt.job_handler.config.load_criteria(master_opts)
    assert type(criteria).__module__.endswith(f".job_criteria.{name}")
