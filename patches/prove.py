"""Prove that each topic's tests test it: they fail on the stock tree and pass on ours."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from patches import suite
from patches.apply import settle
from patches.check import Finding
from patches.errors import UsageError
from patches.series import Series, read_series
from patches.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Iterable

    from patches.patch import Patch
    from patches.repository import Repository
    from patches.state import State


@dataclass(frozen=True)
class Proof:
    """One test file of a topic, without the topic's changes and with them."""

    topic: str
    test: str
    stock: suite.Counts
    patched: suite.Counts

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the two runs say against the test."""
        found = []
        if not self.stock.failed and self.stock.code in (suite.PASSED, suite.NOTHING_RUN):
            found.append(Finding("tests", self.test, f"passes without {self.topic}: it does not test the change"))
        if self.patched.failed or not self.patched.passed or self.patched.code:
            found.append(Finding("tests", self.test, f"does not pass with {self.topic}: {self.patched}"))
        return tuple(found)

    @property
    def line(self) -> str:
        """One line for people."""
        stock, ours = self.stock, self.patched
        return (
            f"{self.topic}: {self.test}: stock {stock.failed} failed, patched {ours.passed} passed {ours.failed} failed"
        )


def prove(repository: Repository, topics: Iterable[str] = ()) -> tuple[Proof, ...]:
    """Run the tests of the topics, or of all, on both trees; the caller holds the lock.

    Stock here is the base with what the topic requires, so that the topic's own change makes the difference.

    :raises UsageError: when a topic is unknown, or when there is no tree.
    """
    series = read_series(repository.layout)
    state = settle(Tree(repository))
    if state is None:
        raise UsageError("There is no tree yet: run 'nox -s apply' first.")
    chosen = [series.get(topic) for topic in topics or series.topics]
    brought = {patch.topic: _brought(repository, series, state, patch) for patch in chosen}
    tests = {topic: [name for name in names if suite.is_test(name)] for topic, names in brought.items()}
    every = list(dict.fromkeys(test for names in tests.values() for test in names))
    if not every:
        return ()
    lock = threading.Lock()
    with (
        tempfile.TemporaryDirectory(dir=repository.layout.build, prefix=".scratch.") as folder,
        ThreadPoolExecutor(max_workers=os.cpu_count()) as pool,
    ):
        reports = Path(folder)
        # most of a run is waiting for pytest to start: our tree is the same for all topics, so one run does
        ours = pool.submit(suite.counts, repository.layout, repository.layout.salt, every, reports / "ours.xml")
        stock = {
            patch.topic: pool.submit(
                _stock, repository, state.base_commit, _required(series, patch), brought[patch.topic], lock
            )
            for patch in chosen
            if tests[patch.topic]
        }
        return tuple(
            Proof(topic, test, stock[topic].result()[test], ours.result()[test])
            for topic, names in tests.items()
            for test in names
        )


def _required(series: Series, patch: Patch) -> Series:
    """Give what a topic requires, without itself."""
    return Series(tuple(one for one in series.closure(patch.topic) if one != patch))


def _brought(repository: Repository, series: Series, state: State, patch: Patch) -> list[str]:
    """Give the tests that a topic brings or changes, and what they use."""
    index = series.topics.index(patch.topic)
    before = state.applied[index - 1].commit if index else state.base_commit
    changed = repository.changed(before, state.applied[index].commit)
    return [name for name in (*patch.files, *changed) if name.startswith("tests/")]


def _stock(
    repository: Repository, base_commit: str, required: Series, brought: Iterable[str], lock: threading.Lock
) -> dict[str, suite.Counts]:
    """Run a topic's tests on the base with what the topic requires.

    :param lock: held while the work tree is made and removed: git makes one after the other.
    """
    layout = repository.layout
    found: dict[str, suite.Counts] = {}
    with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory(dir=layout.build, prefix=".scratch.") as reports:
        with lock:
            git = stack.enter_context(repository.scratch(base_commit))
            repository.apply(git, required)
        for name in (*required.files, *brought):
            target = git.work_tree / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(layout.salt / name, target)
        # without the topic a conftest.py may not even be imported, which ends the run of all tests beside it
        folders: dict[str, list[str]] = {}
        for name in filter(suite.is_test, brought):
            folders.setdefault(str(Path(name).parent), []).append(name)
        for number, tests in enumerate(folders.values()):
            found |= suite.counts(layout, git.work_tree, tests, Path(reports) / f"{number}.xml")
        with lock:
            stack.close()
    return found
