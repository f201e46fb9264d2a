"""Plugin for Salt's own tests: give callbacks of an event loop five seconds.

Salt's unit tests fail when a callback takes longer than 50 ms of wall time. On a machine that does something else at
the same time that is luck: 0.6 s were seen for a callback that does nothing but a mocked call. What this still finds
is a handler that waits for something that does not come.
"""

from __future__ import annotations

import pytest

THRESHOLD_S = 5.0


def pytest_configure(config: pytest.Config) -> None:
    """Know the marker where Salt's own does not: it comes with the unit tests only."""
    config.addinivalue_line("markers", "no_blocking(threshold): seconds that a callback of an event loop may take")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Raise the threshold of each test that does not set its own."""
    for item in items:
        if item.get_closest_marker("no_blocking") is None:
            item.add_marker(pytest.mark.no_blocking(threshold=THRESHOLD_S))
