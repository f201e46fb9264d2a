"""
Numbers that make no sense: of administrators, over the socket, and out of the database.
"""

import math

import pytest

import salt.job_criteria
import salt.job_handler.orders
import salt.job_handler.queue
import salt.payload
from salt.exceptions import SaltInvocationError

NO_NUMBERS = (math.nan, -1.5, 2**63, 10**400, 1e300, "1", True, [])


@pytest.fixture
def orders():
    return salt.job_handler.orders.Orders(salt.job_handler.queue.JobQueue())


@pytest.mark.parametrize("check", ("check_pause", "check_priority", "check_limit"))
@pytest.mark.parametrize("value", (*NO_NUMBERS, math.inf, -math.inf, -(2**63)))
def test_numbers_that_make_no_sense(check, value):
    """
    The error is one sentence, and short however large the number is.
    """
    with pytest.raises(SaltInvocationError, match="^Give .* from [-0-9]+ to ") as error:
        getattr(salt.job_handler.orders, check)(value)
    assert len(str(error.value)) < 100


def test_numbers_that_do():
    for seconds in (0, 0.5, 600, salt.job_handler.orders.MAX_PAUSE):
        salt.job_handler.orders.check_pause(seconds)
    for priority in (0, 5, -1, salt.job_handler.orders.MAX_PRIORITY):
        salt.job_handler.orders.check_priority(priority)
        salt.job_handler.orders.check_priority(-priority)
    for limit in (None, 1, 100, salt.job_criteria.MOST):
        salt.job_handler.orders.check_limit(limit)


@pytest.mark.parametrize("until", (math.nan, -math.inf, -1, 1e300, "soon", True, []))
def test_a_pause_of_the_database_that_makes_no_sense(orders, until):
    """
    It would have no end, or no date for people.
    """
    orders.restore({"paused_until": until, "jobs": []})
    assert not orders.pausing(0)


@pytest.mark.parametrize("until", (1000.5, math.inf))
def test_a_pause_of_the_database(orders, until):
    orders.restore(
        salt.payload.loads(salt.payload.dumps({"paused_until": until, "jobs": []}))
    )
    assert orders.pausing(1000)
    assert orders.pausing(1001) == (until == math.inf)


def test_priorities_of_the_database_that_make_no_sense(orders):
    jobs = [[f"{at}", [value, False]] for at, value in enumerate(NO_NUMBERS[2:])]
    jobs += [["held", [0, "x"]], ["good", [-3, True]]]
    orders.restore({"paused_until": None, "jobs": jobs})
    assert orders.snapshot()["jobs"] == [("good", (-3, True))]


@pytest.mark.parametrize("value", (0, math.nan, math.inf, 2**63, 10**400, True, "1"))
def test_settings_that_are_no_numbers(value):
    assert not salt.job_criteria.is_count(value)
    assert not salt.job_criteria.is_number(value)


def test_settings_that_are_numbers():
    assert salt.job_criteria.is_count(10**12)
    assert salt.job_criteria.is_number(10**12)
    assert salt.job_criteria.is_number(0.01)
