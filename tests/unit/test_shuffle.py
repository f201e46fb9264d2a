"""Tests in a random order: the same for the same seed, in all workers, and file by file."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import groupby
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

CONFTEST = """
import shuffle

def pytest_addoption(parser):
    shuffle.add_option(parser)

def pytest_configure(config):
    shuffle.register(config)
"""
FILES, TESTS = "abc", 8


def run(root: Path, folder: Path, *options: str) -> tuple[int, list[str], str]:
    """Run made-up tests; return the exit code, the tests in their order, and what was said."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "pytest.ini").write_text("[pytest]\n")
    for name in FILES:
        text = "".join(f"def test_{number}():\n    pass\n" for number in range(TESTS))
        (folder / f"test_{name}.py").write_text(text)
    argv = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-c", "pytest.ini", *options, "."]
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "", "PYTHONPATH": str(root / "tests")}
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False)
    order = [line.split()[0] for line in done.stdout.splitlines() if "::test_" in line and "PASSED" in line]
    return done.returncode, order, done.stdout + done.stderr


def test_a_seed_decides_the_order(root: Path, tmp_path: Path) -> None:
    """All tests run once, those of a file one after the other, in the same order for the same seed only."""
    code, plain, _ = run(root, tmp_path)
    assert (code, len(plain)) == (0, len(FILES) * TESTS)
    _, first, said = run(root, tmp_path, "--shuffle=1")
    assert "order: --shuffle=1" in said
    assert first != plain
    assert sorted(first) == sorted(plain)
    assert len([name for name, _ in groupby(test.partition("::")[0] for test in first)]) == len(FILES)
    assert run(root, tmp_path, "--shuffle=1")[1] == first
    assert run(root, tmp_path, "--shuffle=2")[1] != first


def test_workers_have_the_same_order(root: Path, tmp_path: Path) -> None:
    """If any will do, one is chosen and told, and every worker gets it: xdist refuses to go on otherwise."""
    code, _, said = run(root, tmp_path, "-p", "xdist", "-n", "2", "--shuffle=any")
    assert code == 0, said
    assert "order: --shuffle=" in said


def test_wrong_seed_is_refused(root: Path, tmp_path: Path) -> None:
    """A seed that is no number is a usage error."""
    code, _, said = run(root, tmp_path, "--shuffle=x")
    assert (code, "--shuffle takes a number or 'any', not 'x'." in said) == (4, True)
