"""The layers of the job handler: a module imports only those before it, and its functions fit a screen."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = "salt.job_handler"
FOLDER = Path(__file__).resolve().parents[3] / "salt" / "salt" / "job_handler"
CRITERIA = FOLDER.parent / "job_criteria"
# states without I/O, then files and sockets, then what publishes, and last the process
ORDER = (
    "policy",
    "leases",
    "queue",
    "store",
    "postgres",
    "config",
    "report",
    "control",
    "client",
    "handover",
    "dispatch",
    "maintenance",
    "process",
)
# decide without I/O, and get the time from their caller
PURE = ("leases", "queue")
IO = {"asyncio", "os", "socket", "sqlite3", "time", "threading", "salt.utils.event", "salt.channel.server"}
MOST_MODULES = 14
LONGEST_FUNCTION = 70


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _imports(path: Path) -> set[str]:
    """Return the full names of all modules that a file imports, wherever it does."""
    found: set[str] = set()
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add(str(node.module))
    return found


def test_the_order_is_whole() -> None:
    """Each module has its place, and a reader can take in all of them."""
    modules = {path.stem for path in FOLDER.glob("*.py")} - {"__init__"}
    assert sorted(ORDER) == sorted(modules)
    assert len(modules) <= MOST_MODULES


def test_a_module_imports_only_those_before_it() -> None:
    """Imports go one way, however deep in a function they stand."""
    wrong = [
        f"{name} imports {other}"
        for place, name in enumerate(ORDER)
        for other in ORDER[place:]
        if f"{PACKAGE}.{other}" in _imports(FOLDER / f"{name}.py")
    ]
    assert wrong == []


def test_what_decides_does_no_io() -> None:
    """The queue and the leases are state machines: a test gives them the time."""
    wrong = {name: sorted(_imports(FOLDER / f"{name}.py") & IO) for name in PURE}
    assert wrong == {name: [] for name in PURE}


def test_criteria_know_nothing_of_the_handler() -> None:
    """A criteria module gets all that it reads, and works without the job handler."""
    wrong = [(path.stem, name) for path in CRITERIA.glob("*.py") for name in _imports(path) if name.startswith(PACKAGE)]
    assert wrong == []


def test_the_handler_knows_the_public_class_alone() -> None:
    """The job handler works with any criteria module."""
    wrong = [
        (path.stem, name)
        for path in FOLDER.glob("*.py")
        for name in _imports(path)
        if name.startswith("salt.job_criteria.")
    ]
    assert wrong == []


def test_a_function_fits_a_screen() -> None:
    """No function is longer than 70 lines."""
    long = [
        (path.stem, node.name, node.end_lineno - node.lineno + 1)
        for folder in (FOLDER, CRITERIA)
        for path in folder.glob("*.py")
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > LONGEST_FUNCTION
    ]
    assert long == []
