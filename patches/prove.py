"""Prove that each topic's tests test it: they fail on the stock tree and pass on ours."""

from __future__ import annotations

import os
import shutil
import tempfile
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
    chosen = tuple(topics) or series.topics
    return tuple(proof for topic in chosen for proof in _prove(repository, series, state, series.get(topic)))


def _prove(repository: Repository, series: Series, state: State, patch: Patch) -> list[Proof]:
    """Run one topic's tests."""
    layout = repository.layout
    index = series.topics.index(patch.topic)
    before = state.applied[index - 1].commit if index else state.base_commit
    changed = repository.changed(before, state.applied[index].commit)
    support = [name for name in (*patch.files, *changed) if name.startswith("tests/")]
    required = Series(tuple(one for one in series.closure(patch.topic) if one != patch))
    with (
        repository.scratch(state.base_commit) as git,
        tempfile.TemporaryDirectory(dir=layout.build, prefix=".scratch.") as reports,
    ):
        repository.apply(git, required)
        for name in (*required.files, *support):
            target = git.work_tree / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(layout.salt / name, target)
        # most of a run is waiting for pytest to start, so what shares a conftest.py shares one
        folders: dict[str, list[str]] = {}
        for name in filter(suite.is_test, support):
            folders.setdefault(str(Path(name).parent), []).append(name)

        def both(number: int, tests: list[str]) -> list[Proof]:
            stock = suite.counts(layout, git.work_tree, tests, Path(reports) / f"{number}-stock.xml")
            ours = suite.counts(layout, layout.salt, tests, Path(reports) / f"{number}-ours.xml")
            return [Proof(patch.topic, test, stock[test], ours[test]) for test in tests]

        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            return [proof for proofs in pool.map(both, range(len(folders)), folders.values()) for proof in proofs]
