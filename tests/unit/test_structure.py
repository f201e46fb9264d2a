"""The rules of the layout, so that they are not only words: imports go one way, and functions fit a screen."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

# package: what of ours it may import; of `evil_minions` others import its public names only
MAY_IMPORT = {
    "evil_minions": set[str](),
    "patches": {"evil_minions"},
    "harness": {"evil_minions"},
    "benchmarks": {"evil_minions", "harness"},
}
PUBLIC = "evil_minions"

# package: subpackage: the subpackages that it may import; every one may import the modules beside them
SUBPACKAGES: Mapping[str, Mapping[str, set[str]]] = {
    "evil_minions": {
        "protocol": set(),
        "inventory": set(),
        "network": {"protocol"},
        "functions": {"protocol"},
        "recording": {"functions"},
        "states": {"functions", "inventory"},
        "behaviour": {"functions", "inventory"},
        "minion": {
            "behaviour",
            "functions",
            "inventory",
            "network",
            "protocol",
            "recording",
            "states",
        },
        "fleet": {
            "behaviour",
            "functions",
            "inventory",
            "minion",
            "network",
            "protocol",
            "recording",
            "states",
        },
    },
    "harness": {
        "processes": set(),
        "database": {"processes"},
        "bed": {"database", "processes", "samples"},
        "scenarios": set(),
        "samples": {"processes"},
        "load": {"bed", "processes", "samples", "scenarios"},
        "containers": {"bed", "database", "load", "processes", "samples", "scenarios"},
        "results": {"processes", "samples", "scenarios"},
        "report": {"results", "scenarios"},
        "verify": {"results", "samples", "scenarios"},
        "saltprocess": {"bed", "database", "processes"},
        "commands": {"bed", "containers", "load", "report", "results", "samples", "scenarios", "verify"},
    },
}
# what may import any subpackage: the public names, the command lines
DOORS = {"__init__", "__main__", "zoo"}


# lines of a function: what fits a screen
LONGEST = 70
# these are lists of options or figures, no steps
LISTS = {
    "evil_minions/fleet/commands.py: add_run",
    "harness/commands/__init__.py: parser",
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
        if name.split(".")[0] in ours and name.split(".")[0] not in MAY_IMPORT[package]
    ]
    assert wrong == []


@pytest.mark.parametrize("package", [package for package, permitted in MAY_IMPORT.items() if PUBLIC in permitted])
def test_others_use_public_names(root: Path, package: str) -> None:
    """What others import of the simulated minions, or take from it by a dot, is in its `__all__`."""
    public = set(importlib.import_module(PUBLIC).__all__)
    wrong = []
    for path in _modules(root, package):
        names = [name.partition(".")[2] for name in _imports(path) if name.startswith(f"{PUBLIC}.")]
        names += [
            node.attr
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == PUBLIC
        ]
        wrong += [f"{path.relative_to(root)}: {name}" for name in names if name not in public]
    assert wrong == []


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_private_names_stay_at_home(root: Path, package: str) -> None:
    """No module imports a name that begins with an underscore."""
    wrong = [
        f"{path.relative_to(root)}: {name}"
        for path in _modules(root, package)
        for name in _imports(path)
        if name.split(".")[0] in MAY_IMPORT
        and any(part.startswith("_") for part in name.split(".") if part != "__main__")
    ]
    assert wrong == []


def test_every_public_name_is_there(root: Path) -> None:
    """Each public name is named once and can be imported, and another one is an error."""
    module = importlib.import_module(PUBLIC)
    assert len(module.__all__) == len(set(module.__all__))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = module.nothing
    # in a process of its own: Salt changes the one that imports it
    code = f"from {PUBLIC} import *"
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True)


def test_samples_and_control_do_not_wait_for_salt(root: Path) -> None:
    """Who reads samples or talks to a fleet imports nothing of Salt."""
    names = "Control, JobRow, Selection, Status, TRANSPORTS, connect, pipe, read_samples, socket_path"
    code = (
        f"import sys; from evil_minions import {names}; print(sorted(name for name in sys.modules if 'salt' in name))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_fleets_do_without_salts_clients(root: Path) -> None:
    """A worker does not load what only a recording needs: that takes 30 MB in each."""
    code = "import sys, evil_minions.fleet.worker; print({'salt.client', 'salt.pillar'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_no_import_cycle(root: Path, package: str) -> None:
    """The modules of a package can be put in an order in which each imports only earlier ones."""
    names = {".".join(path.relative_to(root).with_suffix("").parts): path for path in _modules(root, package)}
    needs = {
        name: {other for found in _imports(path) for other in (found, found.rpartition(".")[0]) if other in names}
        for name, path in names.items()
    }
    assert _knot(needs) == set()


def _knot(needs: Mapping[str, set[str]]) -> set[str]:
    """Return what can't be put in an order in which each needs only earlier ones."""
    while free := {name for name, wanted in needs.items() if not wanted - {name}}:
        needs = {name: wanted - free for name, wanted in needs.items() if name not in free}
    return set(needs)


@pytest.mark.parametrize("package", SUBPACKAGES)
def test_subpackages_are_layers(root: Path, package: str) -> None:
    """Subpackages import only those that the table names, which has no cycle; modules beside them import none."""
    subpackages = SUBPACKAGES[package]
    folders = {path.name for path in (root / package).iterdir() if (path / "__init__.py").exists()}
    assert folders == set(subpackages)
    assert _knot(subpackages) == set()
    wrong, used = [], {subpackage: set[str]() for subpackage in subpackages}
    for path in _modules(root, package):
        parts = path.relative_to(root / package).with_suffix("").parts
        home = parts[0] if parts[0] in subpackages else None
        if home is None and parts[0] in DOORS:
            continue
        for name in _imports(path):
            of, _, rest = name.partition(".")
            subpackage = rest.split(".")[0]
            if of != package or subpackage not in subpackages or subpackage == home:
                continue
            if home is None or subpackage not in subpackages[home]:
                wrong.append(f"{path.relative_to(root)}: {name}")
            else:
                used[home].add(subpackage)
    assert wrong == []
    assert used == subpackages, "the table permits what no subpackage needs"


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_functions_fit_a_screen(root: Path, package: str) -> None:
    """A limit on modules or classes would split what belongs together; one on functions does not."""
    long = {
        name: size
        for path in _modules(root, package)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (size := (node.end_lineno or 0) - node.lineno + 1) > LONGEST
        and (name := f"{path.relative_to(root)}: {node.name}") not in LISTS
    }
    assert long == {}


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
    tests.remove(root / "tests" / "live" / "bed" / "test_benchmarks.py")
    others = [path for package in set(MAY_IMPORT) - {"benchmarks"} for path in _modules(root, package)]
    found = {str(path): name for path in (*tests, *others) for name in _imports(path) if name.startswith("benchmarks")}
    assert found == {}


def test_the_project_stands_alone(root: Path) -> None:
    """No tracked file points to the folder where the project was planned."""
    # spelled in two halves, or this file would be found
    needle = "../" + "shared"
    found = subprocess.run(["git", "grep", "-lF", needle], cwd=root, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (1, "")
