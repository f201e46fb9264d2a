"""`check --tests`: each topic's tests on the base with what it requires, with the topic and without it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.unit.patches.conftest import Project

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
# in place of Salt's own configuration of pytest, whose plugins the made-up release has no use for
INI = """\
[pytest]
addopts = -p no:cacheprovider -p no:salt-factories -p no:salt-factories-event-listener
    -p no:salt-factories-factories -p no:salt-factories-loader-mock -p no:salt-factories-log-server
    -p no:salt-factories-markers -p no:salt-factories-sysinfo -p no:system-statistics
python_files = test_*.py
"""


@pytest.fixture
def proving(patched: Project) -> Project:
    """Give the project with its two topics tested by what they change, and `second` on what `first` brings."""
    folder = patched.root / "tests/upstream"
    folder.mkdir(parents=True)
    (folder / "pytest.ini").write_text(INI)
    shutil.copy(ROOT / "tests/upstream/first_failure.py", folder)
    patched.write("salt/new.py", "VALUE = 1\n")
    assert patched.run("save", "--topic", "first", "salt/new.py").code == 0
    patched.write("tests/pytests/unit/test_first.py", "def test_it():\n    import salt.new\n")
    patched.write("tests/pytests/unit/test_second.py", SECOND)
    return patched


SECOND = """\
from pathlib import Path

import pytest


def test_it():
    assert "changed by second" in Path("salt/two.py").read_text()


@pytest.mark.parametrize("number", range(3))
def test_more(number):
    import salt.new
"""


def proved(project: Project) -> tuple[int, dict[str, Any]]:
    """Run the check, and give its code and what it says of each topic."""
    ended = project.run("check", "--tests", "--json")
    return ended.code, {one["topic"]: one for one in ended.data["tests"]}


def require(project: Project) -> None:
    """Let the topic `second` require `first`."""
    path = project.layout.patch("second")
    path.write_text(path.read_text().replace("Remove-When: merged\n", "Requires: first\nRemove-When: merged\n"))
    assert project.run("apply").code == 0


def test_topic_that_does_not_say_what_it_requires(proving: Project) -> None:
    """It passes on the tree with all topics, and fails where it is sent: with what it names, and no more."""
    code, found = proved(proving)
    assert code == 1
    assert found["first"]["patched"]["failed"] == 0
    second = found["second"]["patched"]
    assert (second["passed"], second["failed"]) == (1, 3)
    assert "No module named 'salt.new'" in second["error"]
    require(proving)
    code, found = proved(proving)
    assert code == 0, found
    assert (found["second"]["patched"]["passed"], found["second"]["patched"]["failed"]) == (4, 0)
    assert found["second"]["stock"]["failed"] == 1


def test_pytest_that_crashes(proving: Project) -> None:
    """What pytest says at its end is told; nothing was counted."""
    require(proving)
    (proving.root / "tests/upstream/pytest.ini").write_text("[pytest]\naddopts = -p nosuchplugin\n")
    ended = proving.run("check", "--tests", "--topic", "first")
    assert ended.code == 1
    assert "does not pass with first" in ended.out
    assert "nosuchplugin" in ended.out


def test_test_that_needs_no_topic(proving: Project) -> None:
    """A test that passes without the change does not test it."""
    require(proving)
    proving.write("tests/pytests/unit/test_second.py", "def test_it():\n    import salt.new\n")
    ended = proving.run("check", "--tests", "--topic", "second")
    assert ended.code == 1
    assert "passes without second: it does not test the change" in ended.out


def test_what_one_topic_leaves_is_not_there_for_the_next(proving: Project) -> None:
    """Topics are tried in the same folder one after the other: modules of one are gone for the next."""
    proving.write("salt/package/__init__.py", "")
    assert proving.run("save", "--topic", "first", "salt/package/__init__.py").code == 0
    proving.write("tests/pytests/unit/test_first.py", "def test_it():\n    import salt.package\n")
    proving.write("tests/pytests/unit/test_second.py", SECOND.replace("import salt.new", "import salt.package"))
    _, found = proved(proving)
    assert found["second"]["patched"]["failed"] == 3


def test_what_python_compiled_of_a_topic_is_not_there_without_it(proving: Project) -> None:
    """Salt's loader loads what was compiled of a module whose source is gone, so that a test would pass by it."""
    compiled = "salt/__pycache__/three.cpython-311.pyc"
    # as an import does it, in an environment that lets Python write what it compiles
    beside = "open('salt/three.py').close(); import os; os.makedirs('salt/__pycache__', exist_ok=True)"
    test = f"def test_it():\n    {beside}\n    open('{compiled}', 'w').close()\n"
    without = f"def test_left():\n    import os\n    assert os.path.exists('{compiled}')\n"
    proving.write("salt/three.py", "")
    proving.write("tests/pytests/unit/test_a.py", test)
    proving.write("tests/pytests/unit/test_z.py", without)
    names = ("salt/three.py", "tests/pytests/unit/test_a.py", "tests/pytests/unit/test_z.py")
    assert proving.run("save", "--topic", "first", *names).code == 0
    _, found = proved(proving)
    assert found["first"]["patched"]["failed"] == 0
    ended = proving.run("check", "--tests", "--topic", "first")
    assert "test_z.py passes without first" not in ended.out


def test_one_failure_is_enough_without_the_topic(tmp_path: Path) -> None:
    """The rest of a file is skipped after its first failure, and the next file is run."""
    shutil.copy(ROOT / "tests/upstream/first_failure.py", tmp_path)
    (tmp_path / "test_a.py").write_text("def test_1(): assert 0\n\n\ndef test_2(): assert 0\n")
    (tmp_path / "test_b.py").write_text("def test_1(): pass\n\n\ndef test_2(): assert 0\n\n\ndef test_3(): assert 0\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "first_failure", "-p", "no:cacheprovider", "-c", "/dev/null"]
    done = subprocess.run(
        [*command, "--rootdir=.", "test_a.py", "test_b.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 failed, 1 passed, 2 skipped" in done.stdout
