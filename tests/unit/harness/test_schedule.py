"""The arrival schedule."""

from __future__ import annotations

from itertools import pairwise

import pytest

from harness.scenarios import clients
from harness.scenarios.clients import Arrival, Clients, Request
from harness.scenarios.scenario import Scenario, requests


def _clients(arrival: Arrival, name: str = "some") -> Clients:
    return Clients(name, "api", "test.ping", "*", arrival)


def test_burst() -> None:
    """A burst is due all at once."""
    arrival = Arrival("burst", burst=3, start_s=2.0)
    expected = [Request("some", 0, 2.0), Request("some", 1, 2.0), Request("some", 2, 2.0)]
    assert clients.requests_of(_clients(arrival), seed=1) == expected


def test_constant() -> None:
    """A constant rate has equal gaps and ends before its duration does."""
    arrival = Arrival("constant", rate=0.5, duration_s=6.0, start_s=1.0)
    assert [request.due_s for request in clients.requests_of(_clients(arrival), seed=1)] == [1.0, 3.0, 5.0]


def test_poisson_is_repeatable() -> None:
    """The same seed gives the same arrivals, another seed others, and so does another name."""
    arrival = Arrival("poisson", rate=5.0, duration_s=20.0)
    first = clients.requests_of(_clients(arrival), seed=1)
    assert clients.requests_of(_clients(arrival), seed=1) == first
    assert clients.requests_of(_clients(arrival), seed=2) != first
    assert [r.due_s for r in clients.requests_of(_clients(arrival, "other"), seed=1)] != [r.due_s for r in first]


def test_poisson_keeps_its_rate() -> None:
    """Many Poisson arrivals are as many as the rate says, within a few standard deviations, and have its spread."""
    arrival = Arrival("poisson", rate=10.0, duration_s=1000.0)
    times = [request.due_s for request in clients.requests_of(_clients(arrival), seed=3)]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert len(times) == pytest.approx(10_000, abs=400)
    assert sum(gap > 0.1 for gap in gaps) / len(gaps) == pytest.approx(0.3679, abs=0.02)
    assert 0 <= times[0] <= times[-1] < 1000


def test_whole_scenario_is_in_order() -> None:
    """All blocks of a scenario together are in the order in which they are due."""
    blocks = (_clients(Arrival("burst", burst=1, start_s=2.0), "late"), _clients(Arrival("burst", burst=1), "early"))
    scenario = Scenario("x", "x", 1, blocks)
    assert requests(scenario) == [Request("early", 0, 0.0), Request("late", 0, 2.0)]
