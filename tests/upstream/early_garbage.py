"""Plugin for Salt's own tests: what earlier tests left behind is collected before a test that counts warnings.

Salt warns of an event bus that nobody closed when Python collects it. Some of Salt's tests leave such objects, and
others replace the logger of ``salt.utils.event`` and compare the first warning that it gets. Which test meets the
collector is luck when two workers share the tests, on the release as well.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

COUNTING = "unit/utils/event/"


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Collect before a test of the event bus; 0.3 s each, so not before every test."""
    if COUNTING in item.nodeid:
        gc.collect()
