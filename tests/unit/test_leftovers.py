"""A test that leaves something open fails itself, and nothing else does."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

CONFTEST = """
import pytest
from leftovers import Leftovers

def pytest_configure(config):
    config.pluginmanager.register(Leftovers())
"""
BEGIN = """
import os, socket, subprocess
import pytest
"""
CYCLE = """
class Holder:
    pass

def test_it():
    holder = Holder()
    holder.itself, holder.file = holder, open(os.devnull)
"""
FAILING = """
def test_it():
    process = subprocess.Popen(["sleep", "60"], stdout=subprocess.PIPE)
    try:
        assert False
    finally:
        process.kill()
"""
MODULE = """
@pytest.fixture(scope="module")
def wide():
    reader, writer = os.pipe()
    yield reader
    os.close(reader)
    os.close(writer)

def test_it(wide):
    assert wide
"""
NEXT = """
def test_next():
    pass
"""


def run(folder: Path, root: Path, text: str) -> tuple[list[str], str]:
    """Run a test, and another one after it; return what became of each, and what was said."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_made_up.py").write_text(f"{BEGIN}{text}{NEXT}")
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    argv = [sys.executable, "-m", "pytest", "-rA", "-q", "-p", "no:cacheprovider", "-c", str(folder / "pytest.ini")]
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "", "PYTHONPATH": str(root / "tests")}
    done = subprocess.run([*argv, str(folder)], cwd=folder, env=env, capture_output=True, text=True, check=False)
    results = [
        line.split(" - ")[0] for line in done.stdout.splitlines() if line.startswith(("PASSED", "FAILED", "ERR"))
    ]
    return [line.replace("test_made_up.py::", "") for line in results], done.stdout


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def test_it():\n    os.pipe()\n", "pipe:["),
        ("def test_it():\n    socket.socket().detach()\n", "socket:["),
        ("def test_it():\n    os.spawnlp(os.P_NOWAIT, 'true', 'true')\n", "process "),
        (CYCLE, "unclosed file <_io."),
    ],
)
def test_what_is_left_fails_the_test_that_left_it(tmp_path: Path, root: Path, text: str, expected: str) -> None:
    """Pipes, sockets, processes, and a file that only the collector of garbage would close."""
    results, said = run(tmp_path, root, text)
    assert sorted(results) == ["ERROR test_it", "PASSED test_it", "PASSED test_next"]
    assert expected in said


def test_failure_that_keeps_something_open_hits_no_other_test(tmp_path: Path, root: Path) -> None:
    """A failed test's frames are kept by Python, and what is open in them."""
    results, _ = run(tmp_path, root, FAILING)
    assert sorted(results) == ["ERROR test_it", "FAILED test_it", "PASSED test_next"]


def test_fixture_of_a_module_may_keep_something_open(tmp_path: Path, root: Path) -> None:
    """What a fixture opens for several tests is none of theirs."""
    results, _ = run(tmp_path, root, MODULE)
    assert sorted(results) == ["PASSED test_it", "PASSED test_next"]
