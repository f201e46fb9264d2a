"""The rules of the layout, so that they are not only words: one direction of imports, no long modules."""

from __future__ import annotations

import ast
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# package: what of ours it may import
MAY_IMPORT = {
    "evil_minions": set[str](),
    "patches": set[str](),
    "harness": {
        # the public face
        "evil_minions.Table",
        "evil_minions.nearest",
        "evil_minions.read",
        "evil_minions.control",
        "evil_minions.pipe",
        "evil_minions.samples",
        # minions that only return speak as ours do
        "evil_minions.envelope",
        "evil_minions.keys",
    },
    "benchmarks": {
        "harness",
        "evil_minions.control",
        "evil_minions.pipe",
        "evil_minions.samples",
        # the fleet of pyzmq sockets differs from ours in its sockets alone
        "evil_minions.auth",
        "evil_minions.envelope",
        "evil_minions.errors",
        "evil_minions.keys",
        "evil_minions.publication",
        # minions that are connected and nothing else
        "evil_minions.zmtp",
    },
}
LONGEST = 400


def _modules(root: Path, package: str) -> list[Path]:
    found = sorted((root / package).rglob("*.py"))
    assert found, f"no modules in {package}"
    return found


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            # both, as `from harness import bed` names a module only in its second half
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_go_one_way(root: Path, package: str) -> None:
    """A package imports of ours only what the layout permits."""
    ours = set(MAY_IMPORT) - {package}
    wrong = [
        f"{path.relative_to(root)}: {name}"
        for path in _modules(root, package)
        for name in _imports(path)
        if name.split(".")[0] in ours
        and not any(f"{name}.".startswith(f"{permitted}.") for permitted in MAY_IMPORT[package])
    ]
    assert wrong == []


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_no_import_cycle(root: Path, package: str) -> None:
    """The modules of a package can be put in an order in which each imports only earlier ones."""
    names = {".".join(path.relative_to(root).with_suffix("").parts): path for path in _modules(root, package)}
    needs = {
        name: {other for found in _imports(path) for other in (found, found.rpartition(".")[0]) if other in names}
        for name, path in names.items()
    }
    while free := {name for name, wanted in needs.items() if not wanted - {name}}:
        needs = {name: wanted - free for name, wanted in needs.items() if name not in free}
    assert needs == {}


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_modules_stay_short(root: Path, package: str) -> None:
    """No module is longer than a reader takes in at once."""
    sizes = {str(path): len(path.read_text().splitlines()) for path in _modules(root, package)}
    long = {path: size for path, size in sizes.items() if size > LONGEST}
    assert long == {}


def test_nothing_imports_the_benchmarks(root: Path) -> None:
    """What tests need of a benchmark lives in the harness; only the benchmarks' own tests look in."""
    tests = [path for path in _modules(root, "tests") if path.parent != root / "tests" / "unit" / "benchmarks"]
    tests.remove(root / "tests" / "live" / "test_benchmarks.py")
    others = [path for package in set(MAY_IMPORT) - {"benchmarks"} for path in _modules(root, package)]
    found = {str(path): name for path in (*tests, *others) for name in _imports(path) if name.startswith("benchmarks")}
    assert found == {}


def test_the_project_stands_alone(root: Path) -> None:
    """No tracked file points to the folder where the project was planned."""
    # spelled in two halves, or this file would be found
    needle = "../" + "shared"
    found = subprocess.run(["git", "grep", "-lF", needle], cwd=root, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (1, "")
