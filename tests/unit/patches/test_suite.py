"""Salt's own tests: each run has its temporary folder, and what fails says why."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from patches import suite
from patches.errors import UsageError
from patches.layout import Layout

pytestmark = pytest.mark.slow

LAYOUT = Layout(Path(__file__).resolve().parents[3])
# what Salt's conftest.py does with the temporary folder
SHARED = """\
import os, pathlib, socket, tempfile
def test_it():
    shared = pathlib.Path(tempfile.gettempdir()) / "stsuite"
    shared.mkdir()
    name = str(shared / ("m" * 70))
    socket.socket(socket.AF_UNIX).bind(name)
    pathlib.Path({told!r}).write_text(str(shared))
"""

TELLING = """\
import pathlib
def test_it():
    with pathlib.Path({told!r}).open("a") as told:
        print({name!r}, file=told)
"""

FAILING = {
    "test_one.py": "def test_one():\n    assert True\ndef test_two():\n    raise OSError('stsuite is not yours')\n",
    "test_set_up.py": """\
import pytest
@pytest.fixture
def it():
    raise OSError("no room")
def test_one(it):
    pass
def test_two(it):
    pass
""",
    "test_import.py": "import nothing_of_that_name\n",
}


def run(folder: Path, files: dict[str, str], conftest: str = "") -> list[suite.Counts]:
    """Run made-up files of Salt's tests."""
    tree = folder / "tree"
    tests = [f"tests/pytests/unit/{name}" for name in files]
    for test, text in zip(tests, files.values(), strict=True):
        (tree / test).parent.mkdir(parents=True, exist_ok=True)
        (tree / test).write_text(text)
    (tree / "conftest.py").write_text(conftest)
    counts = suite.counts(LAYOUT, tree, tests, folder / "report.xml")
    return [counts[test] for test in tests]


def test_each_run_has_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that another user or checkout made in the temporary folder is in nobody's way, and none is left."""
    long = tmp_path / ("long" * 20)
    (long / "stsuite").mkdir(parents=True)
    monkeypatch.setenv("TMPDIR", str(long))
    told = tmp_path / "told"
    folders = []
    for _ in range(2):
        assert run(tmp_path, {"test_it.py": SHARED.format(told=str(told))}) == [suite.Counts(0, 1, 0, 0)]
        folders.append(Path(told.read_text()))
    assert folders[0] != folders[1]
    assert not [folder for folder in folders if folder.exists() or folder.parent.exists()]


def test_first_error_of_each_file_is_told(tmp_path: Path) -> None:
    """What failed first is named with its reason: a test, what sets it up, or an import."""
    missing = "ModuleNotFoundError: No module named 'nothing_of_that_name'"
    one, set_up, imported = run(tmp_path, FAILING)
    assert one == suite.Counts(1, 1, 1, 0, "test_two: OSError: stsuite is not yours")
    assert set_up == suite.Counts(1, 0, 2, 0, "test_one: OSError: no room")
    assert imported == suite.Counts(1, 0, 1, 0, f"tests.pytests.unit.test_import: {missing}")
    assert str(one).endswith("; the first error: test_two: OSError: stsuite is not yours")


def test_a_run_that_cannot_begin_says_why(tmp_path: Path) -> None:
    """A conftest.py that can't be imported leaves no test to count, but a reason."""
    found = run(tmp_path, {"test_one.py": "def test_one():\n    pass\n"}, "raise OSError('no conftest today')\n")
    assert found == [suite.Counts(4, 0, 0, 0, "OSError: no conftest today")]


def test_own_tests_are_left_out_where_they_are_named_and_where_they_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that our topics bring are not run by name nor below a folder that is; without the option they are."""
    tests = "tests/pytests/unit"
    paths = [
        f"{tests}/{name}"
        for name in ("test_theirs.py", "test_ours.py", "folder/test_more_theirs.py", "folder/test_more_ours.py")
    ]
    for path in paths:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(TELLING.format(told=str(tmp_path / "told"), name=path))
    (tmp_path / "conftest.py").write_text("")
    monkeypatch.setattr(
        suite, "listed", lambda _layout, name: () if name == "known.txt" else (*paths[:2], f"{tests}/folder")
    )
    monkeypatch.setattr(suite, "read_series", lambda _layout: SimpleNamespace(files=(paths[1], paths[3])))
    # the environment's Python and pytest's configuration are ours, the tree is not
    layout = SimpleNamespace(python=LAYOUT.python, root=LAYOUT.root, stock=tmp_path, salt=tmp_path)
    repository: Any = SimpleNamespace(layout=layout, changed=lambda *_: ())
    monkeypatch.setattr(suite, "read_state", lambda _layout: None)
    for own, expected in ((False, {paths[0], paths[2]}), (True, set(paths))):
        assert suite.run(repository, ["touched"], stock=True, workers=1, extra=("-q",), own=own) == suite.PASSED
        assert set((tmp_path / "told").read_text().split()) == expected
        (tmp_path / "told").unlink()


@pytest.mark.parametrize("prefix", ["", "salt/"])
@pytest.mark.parametrize("path", ["tests/pytests/unit/test_one.py", "tests/pytests/unit"])
def test_files_and_folders_are_named_by_their_paths(tmp_path: Path, path: str, prefix: str) -> None:
    """A test file is named as in the tree, or as it lies in the working copy."""
    (tmp_path / "tests/pytests/unit").mkdir(parents=True)
    (tmp_path / "tests/pytests/unit/test_one.py").write_text("")
    repository: Any = SimpleNamespace(layout=LAYOUT)
    assert suite.named(repository, tmp_path, prefix + path) == (path,)


@pytest.mark.parametrize("name", ["tuched", "tests/pytests/unit/test_no.py", "tests/pytests/../../a.py", "/etc/passwd"])
def test_a_name_that_means_no_tests(tmp_path: Path, name: str) -> None:
    """A misspelt set or file is told, and what may be given."""
    repository: Any = SimpleNamespace(layout=LAYOUT)
    with pytest.raises(
        UsageError, match=r"^There is no .*: give touched, wider, or files and folders below salt/tests"
    ):
        suite.named(repository, tmp_path, name)
