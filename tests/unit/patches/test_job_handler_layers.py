"""The layers of the job handler are those that its docstring tells, and its parts are small enough to be read."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGE = "salt.job_handler"
FOLDER = Path(__file__).resolve().parents[3] / "salt" / "salt" / "job_handler"
CRITERIA = FOLDER.parent / "job_criteria"
LONGEST_FUNCTION = 50
LONGEST_CLASS = 250


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _order() -> list[str]:
    """Return the names of the modules in the order in which the docstring of the package names them."""
    told = ast.get_docstring(_tree(FOLDER / "__init__.py")) or ""
    return re.findall(r":mod:`~salt\.job_handler\.(\w+)`", told)


def _imports(path: Path) -> set[str]:
    """Return the full names of all modules that a file imports, wherever it does."""
    found: set[str] = set()
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add(str(node.module))
    return found


def test_the_docstring_names_each_module_once() -> None:
    """The order of the layers is whole."""
    modules = {path.stem for path in FOLDER.glob("*.py")} - {"__init__"}
    assert sorted(_order()) == sorted(modules)


@pytest.mark.slow
def test_a_module_imports_only_those_before_it() -> None:
    """Imports go one way, however deep in a function they stand."""
    order = _order()
    wrong = [
        f"{name} imports {other}"
        for place, name in enumerate(order)
        for other in order[place:]
        if f"{PACKAGE}.{other}" in _imports(FOLDER / f"{name}.py")
    ]
    assert wrong == []


@pytest.mark.parametrize("path", sorted(CRITERIA.glob("*.py")), ids=lambda path: path.stem)
def test_criteria_know_nothing_of_the_handler(path: Path) -> None:
    """A criteria module works without the job handler."""
    assert [name for name in _imports(path) if name.startswith(PACKAGE)] == []


@pytest.mark.parametrize("name", [path.stem for path in sorted(CRITERIA.glob("*.py")) if not path.stem.startswith("_")])
def test_each_criteria_module_is_on_the_page(root: Path, name: str) -> None:
    """A user finds every module that is shipped, with its settings, in the table of the page."""
    page = (root / "docs" / "job-handler-reference.md").read_text()
    assert f"\n| `{name}` | " in page, (
        f"docs/job-handler-reference.md: the table below `Criteria` has no row for {name}"
    )


def test_the_handler_knows_the_public_class_alone() -> None:
    """The job handler works with any criteria module."""
    wrong = [
        (path.stem, name)
        for path in FOLDER.glob("*.py")
        for name in _imports(path)
        if name.startswith("salt.job_criteria.")
    ]
    assert wrong == []


def test_nothing_is_too_long_to_be_read() -> None:
    """No function is longer than 50 lines, no class longer than 250."""
    long = [
        (path.stem, node.name, node.end_lineno - node.lineno + 1)
        for folder in (FOLDER, CRITERIA)
        for path in folder.glob("*.py")
        for node in ast.walk(_tree(path))
        for limit in [LONGEST_CLASS if isinstance(node, ast.ClassDef) else LONGEST_FUNCTION]
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > limit
    ]
    assert long == []
