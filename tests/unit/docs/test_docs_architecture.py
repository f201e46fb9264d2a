"""The page of the architecture agrees with the code: its picture, its subpackages and its list of calls."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests import architecture

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    """Return the page."""
    return (root / "docs" / "architecture.md").read_text()


@pytest.mark.slow
def test_picture_is_that_of_the_imports(root: Path) -> None:
    """The committed picture is what `nox -s architecture` draws today."""
    command = [sys.executable, "tests/architecture.py", "--check"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_subpackage_has_its_paragraph(root: Path, page: str) -> None:
    """Each folder of the packages is linked."""
    for package in ("evil_minions", "harness"):
        for subpackage in architecture.subpackages(package, root):
            assert f"(../{package}/{subpackage})" in page, f"{package}/{subpackage}"


def test_subpackages_of_a_publication(root: Path, page: str) -> None:
    """The list of calls names each subpackage once, and each call is defined in its subpackage."""
    rows = re.findall(r"^\| \d \| (\w+) \| ([^|]+) \|", page, re.MULTILINE)
    subpackages = [subpackage for subpackage, _ in rows]
    assert len(subpackages) == len(set(subpackages)) == 6
    for subpackage, calls in rows:
        source = "\n".join(path.read_text() for path in (root / "evil_minions" / subpackage).rglob("*.py"))
        for name in re.findall(r"`([\w.]+)`", calls):
            kind, _, method = name.rpartition(".")
            assert not kind or f"class {kind}" in source, name
            assert re.search(rf"def {method}\(", source), name


def test_layers() -> None:
    """Names are in rows above all that they import; what follows from other arrows is left out."""
    graph = {"a": {"b", "c"}, "b": {"c"}, "c": set[str](), "d": {"c"}}
    assert architecture.layers(graph) == [["a"], ["b", "d"], ["c"]]
    assert architecture.arrows(graph) == [("a", "b"), ("b", "c"), ("d", "c")]
