"""
What all modules of the virtual name service keep
"""

import pytest

NOSUCH = "no-such-service"


@pytest.fixture(scope="module")
def call(calls):
    return calls("service")


@pytest.fixture
def service(request, call):
    """
    Return a service that does not run
    """
    name = request.config.getoption("--service")
    if not name:
        pytest.skip("name a service with --service")
    call("stop", name)
    yield name
    call("stop", name)


def test_start_and_stop(call, service):
    assert call("start", service) is True
    assert call("status", service) is True
    assert call("restart", service) is True
    assert call("status", service) is True
    assert call("stop", service) is True
    assert call("status", service) is False


def test_lists(call, service):
    assert call("available", service) is True
    assert call("missing", service) is False
    assert service in call("get_all")


def test_start_at_boot(call, service):
    assert call("enable", service) is True
    assert call("enabled", service) is True
    assert call("disabled", service) is False
    assert service in call("get_enabled")
    assert call("disable", service) is True
    assert call("enabled", service) is False
    assert call("disabled", service) is True
    assert service in call("get_disabled")


def test_a_name_that_nobody_knows(call):
    assert call("available", NOSUCH) is False
    assert call("missing", NOSUCH) is True
    assert call("status", NOSUCH) is False
    assert NOSUCH not in call("get_all")
    assert call("enabled", NOSUCH) is False
