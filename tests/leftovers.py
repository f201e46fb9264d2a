"""What a test leaves behind fails that very test.

A pipe that nobody closes is closed when Python collects it, with a warning that hits whatever test runs then. So after
each test all that it left is collected, and its open files and child processes are compared with those before it. What
a fixture of a module or of the session opens belongs to the fixture.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

# where Python keeps what failed last, and with it all that the test had
LAST = ("last_exc", "last_type", "last_value", "last_traceback")
# a tree of objects that hold each other is gone after the first, what its finalizers let go after the second
COLLECTIONS = 2


def children() -> set[str]:
    """Return the child processes of this one, also those that ended and were not waited for."""
    found: set[str] = set()
    for task in Path("/proc/self/task").iterdir():
        # a thread may end at any moment
        with contextlib.suppress(OSError):
            found |= {f"process {pid}" for pid in (task / "children").read_text(encoding="ascii").split()}
    return found


def files() -> set[str]:
    """Return the open files, pipes and sockets of this process, but for those that libraries keep of their own."""
    found: set[str] = set()
    for entry in Path("/proc/self/fd").iterdir():
        # the listing itself is gone by now
        with contextlib.suppress(OSError):
            target = os.readlink(entry)  # noqa: PTH115 - "pipe:[7]" is no path
            if not target.startswith(sys.prefix):
                found.add(f"{entry.name} {target}")
    return found


class Collected:
    """Collects garbage, and keeps what its finalizers complain about."""

    def __init__(self) -> None:
        """Begin with nothing noted."""
        self.complaints: list[str] = []

    def collect(self) -> None:
        """Collect all garbage there is."""
        hook, sys.unraisablehook = sys.unraisablehook, self._note
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", ResourceWarning)
                for _ in range(COLLECTIONS):
                    gc.collect()
        finally:
            sys.unraisablehook = hook

    def _note(self, unraisable: Any) -> None:
        self.complaints.append(f"{unraisable.exc_type.__name__}: {unraisable.exc_value}")


class Leftovers:
    """The plugin."""

    def __init__(self) -> None:
        """Begin with nothing noted."""
        self._kept: set[str] = set()

    def pytest_collection_finish(self) -> None:
        """Leave all that was imported out of later collections, which makes them fast."""
        gc.collect()
        gc.freeze()

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
        """Note what a fixture of more than one test opens."""
        if fixturedef.scope == "function":
            return (yield)
        before = files() | children()
        result = yield
        self._kept |= (files() | children()) - before
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, Any, Any]:
        """Note what is open before the test."""
        self._before = files() | children()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self) -> Generator[None, Any, Any]:
        """Fail a test that left something behind."""
        result = yield
        for name in LAST:
            sys.__dict__.pop(name, None)
        collected = Collected()
        collected.collect()
        left = (files() | children()) - self._before - self._kept
        if left or collected.complaints:
            pytest.fail(f"The test left behind: {', '.join([*sorted(left), *collected.complaints])}", pytrace=False)
        return result
