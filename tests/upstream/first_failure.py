"""Skip the rest of a test file after its first failure: that it fails is all that is asked, and waiting takes long."""

from __future__ import annotations

import pytest

FAILED: pytest.StashKey[set[str]] = pytest.StashKey()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose file has failed."""
    if str(item.path) in item.config.stash.get(FAILED, set()):
        pytest.skip("a test of this file has failed before")


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Note the file of a test that fails."""
    if call.excinfo is not None and not call.excinfo.errisinstance(pytest.skip.Exception):
        item.config.stash.setdefault(FAILED, set()).add(str(item.path))
