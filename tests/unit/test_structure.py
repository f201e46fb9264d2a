"""The rules of the layout, so that they are not only words: one direction of imports, short modules, small classes."""

from __future__ import annotations

import ast
import re
import subprocess
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

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


class Limits(NamedTuple):
    """What a reader takes in at once."""

    # of a module, in lines
    longest: int = 300
    # of all modules of a package, in lines
    median: int = 130
    # public ones of a class
    methods: int = 15
    # of a value
    fields: int = 12


LIMITS = {
    "benchmarks": Limits(),
    "evil_minions": Limits(longest=400, median=150, methods=40, fields=40),
    "harness": Limits(),
    "patches": Limits(),
}
# each field is a column, a key or a file of what runs leave behind, and is named as there
ROWS_OF_FILES = {
    "harness.results.evidence.Evidence",
    "harness.results.treeresult.TreeResult",
    "harness.samplerows.FleetSample",
    "harness.scenarios.clients.Clients",
    "harness.scenarios.scenario.Scenario",
}


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


@pytest.mark.parametrize("package", LIMITS)
def test_modules_stay_short(root: Path, package: str) -> None:
    """No module is longer than a reader takes in at once, and most are much shorter."""
    sizes = {str(path): len(path.read_text().splitlines()) for path in _modules(root, package)}
    assert {path: size for path, size in sizes.items() if size > LIMITS[package].longest} == {}
    assert median(sizes.values()) < LIMITS[package].median


def _classes(root: Path, package: str) -> Iterator[tuple[str, ast.ClassDef]]:
    for path in _modules(root, package):
        module = ".".join(path.relative_to(root).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                yield f"{module}.{node.name}", node


def _is_property(method: ast.stmt) -> bool:
    decorators = method.decorator_list if isinstance(method, ast.FunctionDef) else []
    return any(ast.unparse(one).endswith("property") for one in decorators)


@pytest.mark.parametrize("package", LIMITS)
def test_classes_stay_small(root: Path, package: str) -> None:
    """No class has more public methods, and no value more fields, than a reader keeps in mind."""
    limits, wide = LIMITS[package], {}
    for name, node in _classes(root, package):
        methods = [one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
        public = [one for one in methods if not one.name.startswith("_") and not _is_property(one)]
        kinds = [*map(ast.unparse, node.decorator_list), *map(ast.unparse, node.bases)]
        is_value = any(kind.startswith("dataclass") or kind == "NamedTuple" for kind in kinds)
        fields = sum(isinstance(one, ast.AnnAssign) for one in node.body) if is_value else 0
        if len(public) > limits.methods or (fields > limits.fields and name not in ROWS_OF_FILES):
            wide[name] = (len(public), fields)
    assert wide == {}


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_private_names_stay_at_home(root: Path, package: str) -> None:
    """No module imports a name of another package of ours that begins with an underscore."""
    private = [
        f"{path.relative_to(root)}: {name}"
        for path in _modules(root, package)
        for name in _imports(path)
        if name.split(".")[0] in MAY_IMPORT
        and any(part.startswith("_") and not part.endswith("__") for part in name.split("."))
    ]
    assert private == []


def test_every_suppression_has_its_reason(root: Path) -> None:
    """Where a rule of a checker is switched off for a line, the line says why."""
    bare = re.compile(r"# noqa(: [A-Z0-9, ]+)?$|# type: ignore(\[[a-z-]+\])?$")
    files = [path for package in ("harness", "benchmarks", "patches", "tests") for path in _modules(root, package)]
    found = [
        f"{path.relative_to(root)}:{number}"
        for path in [*files, root / "noxfile.py"]
        if path.parent != root / "tests" / "unit" / "evil_minions"
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if bare.search(line)
    ]
    assert found == []


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
