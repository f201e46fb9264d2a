"""Plugin for Salt's own tests: give callbacks of an event loop half a second.

Salt's unit tests fail when a callback takes longer than 50 ms of wall time. On a machine that does something else at
the same time that is luck: on an idle one with two cores it hits other tests in each run. A handler that really blocks
the loop (a database, a subprocess, a lock) takes longer than this.
"""

from __future__ import annotations

import pytest

THRESHOLD_S = 0.5


def pytest_configure(config: pytest.Config) -> None:
    """Know the marker where Salt's own does not: it comes with the unit tests only."""
    config.addinivalue_line("markers", "no_blocking(threshold): seconds that a callback of an event loop may take")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Raise the threshold of each test that does not set its own."""
    for item in items:
        if item.get_closest_marker("no_blocking") is None:
            item.add_marker(pytest.mark.no_blocking(threshold=THRESHOLD_S))
