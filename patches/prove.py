"""Prove that each topic's tests test it: they pass with it and what it requires alone, and fail without it."""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from patches import suite
from patches.apply import settle
from patches.branch import Commits, commit
from patches.check import Finding
from patches.errors import UsageError
from patches.layout import locked
from patches.repository import PROOF, PROOFS
from patches.series import read_series
from patches.tree import Tree

# longest time (s) that the tests of another trial take
PATIENCE_S = 3600.0

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from patches.git import Git
    from patches.layout import Layout
    from patches.repository import Repository


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
            found.append(
                Finding("tests", self.test, f"does not pass with {self.topic} and what it requires: {self.patched}")
            )
        return tuple(found)

    @property
    def line(self) -> str:
        """One line for people."""
        stock, ours = self.stock, self.patched
        return (
            f"{self.topic}: {self.test}: without it {stock.failed} failed, with it {ours.passed} passed "
            f"{ours.failed} failed"
        )


@dataclass(frozen=True)
class Trial:
    """A base, and the commit of each topic to try on it: whole with its new files, after what it requires."""

    base: str
    commits: Mapping[str, str]


def trial(repository: Repository, topics: Iterable[str] = ()) -> Trial:
    """Make the commits of the topics, or of all; the caller holds the lock.

    Each topic stands on the base with what it requires and nothing else, as it would be sent: a topic that needs
    another one and does not say so fails its tests.

    Raises:
        UsageError: when a topic is unknown, or when there is no tree.
    """
    series = read_series(repository.layout)
    state = settle(Tree(repository))
    if state is None:
        raise UsageError("There is no tree yet: run 'nox -s apply' first.")
    closures = [series.closure(topic) for topic in topics or series.topics]
    made = {patches[-1].topic: commit(repository, patches, Commits(state.base_commit))[-1] for patches in closures}
    return Trial(state.base_commit, made)


def prove(repository: Repository, tried: Trial) -> tuple[Proof, ...]:
    """Run the tests of topics, without each topic and with it.

    This takes minutes and leaves the tree alone, so other commands go on meanwhile; only a second trial waits.
    """
    with (
        locked(repository.layout, PROOFS, patience=PATIENCE_S),
        tempfile.TemporaryDirectory(dir=repository.layout.build, prefix=PROOF) as folder,
        contextlib.ExitStack() as stack,
        ThreadPoolExecutor(max_workers=os.cpu_count()) as pool,
    ):
        grounds: queue.SimpleQueue[Ground] = queue.SimpleQueue()
        for number in range(os.cpu_count() or 1):
            git = stack.enter_context(repository.scratch(tried.base, prefix=PROOF))
            grounds.put(Ground(repository.layout, git, Path(folder) / str(number)))

        def run(topic: str) -> list[Proof]:
            ground = grounds.get()
            try:
                return ground.prove(topic, tried.commits[topic])
            finally:
                grounds.put(ground)

        return tuple(proof for proofs in pool.map(run, tried.commits) for proof in proofs)


@dataclass(frozen=True)
class Ground:
    """A work tree on which one topic after another is tried: what Python compiled stays for the next one."""

    layout: Layout
    git: Git
    reports: Path

    def prove(self, topic: str, made: str) -> list[Proof]:
        """Run a topic's tests on its commit, and on the one before it.

        Args:
            made: the topic's commit, whole with its new files, after what it requires.
        """
        brought = self.git.paths(
            "diff-tree", "-r", "-z", "--no-renames", "--name-only", "--diff-filter=d", f"{made}^", made
        )
        used = [name for name in brought if name.startswith("tests/")]
        tests = [name for name in used if suite.is_test(name)]
        if not tests:
            return []
        self._lay(made)
        ours = self._counts(tests)
        self._lay(f"{made}^")
        self.git.run("checkout", "--quiet", made, "--", *(f":(literal){name}" for name in used))
        stock = self._counts(tests, once=True)
        return [Proof(topic, test, stock[test], ours[test]) for test in tests]

    def _lay(self, made: str) -> None:
        """Bring the work tree to a commit; of other commits only what Python compiled stays, beside its source."""
        self.git.run("reset", "--quiet", "--hard", made)
        for name in self.git.paths("ls-files", "-z", "--others", "--directory"):
            path = self.git.work_tree / name
            if path.name == "__pycache__":
                _keep_compiled(path)
                continue
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)

    def _counts(self, tests: Iterable[str], *, once: bool = False) -> dict[str, suite.Counts]:
        """Count for each test file how it ended; with `once` the first failure of a file is enough."""
        # without the topic a conftest.py may not even be imported, which ends the run of all tests beside it
        folders: dict[str, list[str]] = {}
        for name in tests:
            folders.setdefault(str(Path(name).parent), []).append(name)
        found: dict[str, suite.Counts] = {}
        self.reports.mkdir(exist_ok=True)
        for number, listed in enumerate(folders.values()):
            report = self.reports / f"{number}.xml"
            report.unlink(missing_ok=True)
            found |= suite.counts(self.layout, self.git.work_tree, listed, report, once=once)
        return found


def _keep_compiled(folder: Path) -> None:
    """Take away what was compiled of a source that is not there: Salt's loader would load it all the same."""
    for compiled in folder.glob("*.pyc"):
        # pytest adds its version to the name, which importlib does not read
        if not (folder.parent / f"{compiled.name.partition('.')[0]}.py").exists():
            compiled.unlink()
