"""The tables of docs/security.md name tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "security.md"
PLACES = ("tests", "salt/tests", "salt/extensions/*/tests")
WORD = re.compile(r"([\w./-]+\.py)|::(\w+)")


def rows() -> list[str]:
    """Give the last column of each row."""
    tables = PAGE.read_text(encoding="utf-8").partition("\n## The master\n")[2]
    lines = [line for line in tables.splitlines() if line.startswith("| ")]
    return [line.rstrip(" |").rsplit(" | ", 1)[1] for line in lines if not line.startswith("| entry point")]


def located(name: str) -> list[Path]:
    """Find the test files that a path or a file's name means."""
    if (ROOT / name).is_file():
        return [ROOT / name]
    return [path for place in PLACES for folder in ROOT.glob(place) for path in folder.rglob(Path(name).name)]


@pytest.mark.parametrize("cell", rows())
def test_tests_of_a_row_exist(cell: str) -> None:
    """Each file is there, and has each test that follows it."""
    if cell == "-":
        return
    files: list[Path] = []
    for path, name in WORD.findall(cell):
        if path:
            files = located(path)
            assert files, path
        else:
            found = [one for one in files if re.search(rf"\b(def|class) {name}\b", one.read_text(encoding="utf-8"))]
            assert found, f"{name} in {files}"
    assert files, cell
