"""Upstream's own tests, run against our tree or the stock one.

In a process of their own: upstream has a package called ``tests``, and its conftest.py changes the working folder.
The source distribution has no pytest.ini, so ours in ``tests/upstream/`` says how to collect.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from patches.errors import UsageError
from patches.series import read_series
from patches.state import read_state

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from patches.layout import Layout
    from patches.repository import Repository

TESTS = PurePosixPath("tests/pytests")
CORE = "--core-tests"
SETS = ("touched", "wider")
# our plugin that skips the rest of a file after its first failure
ONCE = "first_failure"
# exit codes of pytest: a conftest.py that can't be imported leaves no test to count, and another code than these
PASSED, FAILED, NOTHING_RUN = 0, 1, 5


@dataclass(frozen=True)
class Counts:
    """How the tests of one file ended, with the exit code that pytest has for that."""

    code: int
    passed: int
    failed: int
    skipped: int
    # the first test that failed, and why; or what kept pytest from running any
    error: str = ""

    def __str__(self) -> str:
        """Say it in words, with the first error."""
        said = f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped, exit code {self.code}"
        return f"{said}; the first error: {self.error}" if self.error else said


def run(
    repository: Repository, names: Sequence[str], *, stock: bool, workers: int, extra: Sequence[str], own: bool = True
) -> int:
    """Run some of upstream's tests and let pytest report; give pytest's exit code.

    Args:
        names: sets (`touched`, `wider`), or files and folders of tests by their paths in the tree of Salt, or in the
            working copy.
        own: run the test files that our topics bring as well; `check --tests` has run them otherwise.

    Raises:
        UsageError: when a set, a file or the tree is not there.
    """
    layout = repository.layout
    tree = layout.stock if stock else layout.salt
    if not tree.exists():
        raise UsageError(f"There is no tree {tree}: run 'nox -s apply' first.")
    paths = tuple(path for name in names for path in named(repository, tree, name))
    # pytest collects a file that it is given by name, whatever it is told to ignore
    ours = set() if own else {path for path in read_series(layout).files if is_test(path)}
    present = [path for path in dict.fromkeys(paths) if path not in ours and (tree / path).exists()]
    if not present:
        raise UsageError(f"None of the tests of {' '.join(names)} is in {tree}: run 'nox -s apply' first.")
    deselected = [f"--deselect={line.partition('#')[0].strip()}" for line in listed(layout, "known.txt")]
    options = ["-n", str(workers), *deselected, *(f"--ignore={path}" for path in sorted(ours))]
    with _room() as room:
        command = [*_pytest(layout, tree, room), *options, *covering(present), *extra]
        return subprocess.run(command, cwd=tree, env=_environment(layout, tree, room), check=False).returncode


def counts(layout: Layout, tree: Path, tests: Sequence[str], report: Path, *, once: bool = False) -> dict[str, Counts]:
    """Run test files quietly, all in one process, and count for each of them.

    Args:
        report: where pytest writes its machine-readable report.
        once: after the first failure of a file its other tests are skipped.
    """
    options = ["-q", f"--junitxml={report}", "--continue-on-collection-errors", *(["-p", ONCE] if once else [])]
    conftest = tree / "tests" / "conftest.py"
    if conftest.exists() and CORE in conftest.read_text(encoding="utf-8"):
        # a topic may change tests that Salt skips unless it is asked for them
        options.append(CORE)
    if any("/integration/" in test for test in tests):
        options.append("--run-slow")
    with _room() as room:
        done = subprocess.run(
            [*_pytest(layout, tree, room), *options, *tests],
            cwd=tree,
            env=_environment(layout, tree, room),
            capture_output=True,
            text=True,
            check=False,
        )
    # pytest wrote this file a moment ago; without one nothing was collected
    cases = list(ET.parse(report).getroot().iter("testcase")) if report.exists() else []  # noqa: S314 - written by our own pytest
    return {test: _counted(test, cases, done, reported=report.exists()) for test in tests}


def _counted(
    test: str, cases: Iterable[ET.Element], done: subprocess.CompletedProcess[str], *, reported: bool
) -> Counts:
    """Count what a report says of one file; what could not be collected, as when pytest crashed, is a failure."""
    module = test.removesuffix(".py").replace("/", ".")
    passed = failed = skipped = 0
    error = ""
    for case in cases:
        # a file that can't be imported is a case without a class
        where = case.get("classname") or case.get("name") or ""
        if where != module and not where.startswith(f"{module}."):
            continue
        wrong = [found for kind in ("failure", "error") if (found := case.find(kind)) is not None]
        if wrong:
            failed += 1
            error = error or f"{case.get('name')}: {_reason(wrong[0])}"
        elif case.find("skipped") is not None:
            skipped += 1
        else:
            passed += 1
    if passed or failed or skipped:
        return Counts(FAILED if failed else PASSED, passed, failed, skipped, error)
    if reported and done.returncode in (PASSED, FAILED):
        return Counts(NOTHING_RUN, 0, 0, 0)
    # a conftest.py that can't be imported, or a wrong option: pytest's last line names it
    said = (done.stderr.strip() or done.stdout.strip() or "pytest said nothing").splitlines()
    return Counts(
        done.returncode, 0, 0, 0, "" if done.returncode == NOTHING_RUN else said[-1].removeprefix("E ").strip()
    )


def _reason(wrong: ET.Element) -> str:
    """Return the line that tells why a test failed.

    The message of a test that could not be set up or collected names no reason; its traceback ends with one.
    """
    lines = [line[2:].strip() for line in (wrong.text or "").splitlines() if line.startswith("E ")]
    return lines[0] if lines else (wrong.get("message") or "no message").splitlines()[0]


def named(repository: Repository, tree: Path, name: str) -> tuple[str, ...]:
    """Return the paths, in a tree of Salt, of the tests that a name of `run` means.

    Raises:
        UsageError: when it means none.
    """
    if name in SETS:
        paths = listed(repository.layout, f"{name}.txt")
        return (*paths, *touched(repository, tree)) if name == "touched" else paths
    path = PurePosixPath(name.removeprefix("salt/") if name.startswith("salt/tests/") else name)
    if ".." in path.parts or not path.is_relative_to(TESTS) or not (tree / path).exists():
        raise UsageError(f"There is no {name}: give {', '.join(SETS)}, or files and folders below salt/{TESTS}.")
    return (str(path),)


def listed(layout: Layout, name: str) -> tuple[str, ...]:
    """Read a list of ``tests/upstream/``, without its comment lines."""
    path = layout.root / "tests" / "upstream" / name
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))


def touched(repository: Repository, tree: Path) -> tuple[str, ...]:
    """Return the tests that our topics bring or change, and those that upstream has for the modules they change."""
    state = read_state(repository.layout)
    changed = repository.changed(state.base_commit, state.head) if state is not None else ()
    files = (*changed, *read_series(repository.layout).files)
    tests = [name for name in files if is_test(name)]
    tests += [found for name in files for found in tests_of(name) if (tree / found).exists()]
    return tuple(dict.fromkeys(tests))


def is_test(name: str) -> bool:
    """Tell whether a path of Salt's tree is a test file."""
    path = PurePosixPath(name)
    return path.is_relative_to(TESTS) and path.name.startswith("test_") and path.suffix == ".py"


def tests_of(name: str) -> tuple[str, ...]:
    """Return the test files and folders that upstream would have for a module.

    ``salt/pillar/sql_base.py`` is tested by ``tests/pytests/{unit,functional}/pillar/test_sql_base.py``, or by the
    files of a folder ``sql_base``.
    """
    path = PurePosixPath(name)
    if path.parts[0] != "salt" or path.suffix != ".py":
        return ()
    inner = PurePosixPath(*path.parts[1:])
    kinds = (TESTS / kind / inner.parent for kind in ("unit", "functional"))
    return tuple(str(folder / leaf) for folder in kinds for leaf in (f"test_{inner.stem}.py", inner.stem))


def covering(paths: Iterable[str]) -> tuple[str, ...]:
    """Leave out what lies below another path: pytest would collect it twice."""
    wanted = [PurePosixPath(path) for path in paths]
    return tuple(str(path) for path in wanted if not any(other in path.parents for other in wanted))


@contextmanager
def _room() -> Iterator[Path]:
    """Yield a temporary folder of this run's own, gone afterwards.

    Salt's tests share the folder `stsuite` in the temporary folder, which belongs to whoever came first. Sockets in it
    must fit into the 107 bytes of a socket's name, whatever TMPDIR says.
    """
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="s", ignore_cleanup_errors=True) as name:
        yield Path(name)


def _pytest(layout: Layout, tree: Path, room: Path) -> list[str]:
    """Return the command that runs pytest on a tree with our configuration."""
    python = str(layout.python) if layout.python.exists() else sys.executable
    config = layout.root / "tests" / "upstream" / "pytest.ini"
    return [python, "-m", "pytest", "-c", str(config), f"--rootdir={tree}", f"--basetemp={room / 't'}"]


def _environment(layout: Layout, tree: Path, room: Path) -> dict[str, str]:
    """Return an environment in which this tree's Salt is imported, and workers collect the same tests."""
    # our plugins for pytest lie beside its configuration
    path = os.pathsep.join((str(tree), str(layout.root / "tests" / "upstream")))
    dropped = ("PYTEST_", "COVERAGE_", "SALT_PYTEST_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    # parametrised from sets: without a fixed seed each xdist worker collects another list
    return {**kept, "PYTHONPATH": path, "PYTHONHASHSEED": "0", "TMPDIR": str(room)}
