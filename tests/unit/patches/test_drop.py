"""`drop`: a topic goes with all that is its own, and nothing else does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from patches.series import read_series
from tests.unit.patches.conftest import LINES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.patches.conftest import Project


def everything(project: Project) -> dict[str, bytes]:
    """Read the patch set and the tree."""
    files = [*project.layout.patches.iterdir(), *(path for path in project.layout.salt.rglob("*") if path.is_file())]
    return {str(path.relative_to(project.root)): path.read_bytes() for path in files}


def test_topic_goes_with_its_files(patched: Project, clone: Callable[[], Project]) -> None:
    """Patch, line of the series, changes and new files are gone; the rest is as a clone makes it, and in order."""
    files = read_series(patched.layout).get("first").files
    ended = patched.run("drop", "first", "--json")
    assert (ended.code, ended.data["files"]) == (0, list(files))
    assert read_series(patched.layout).topics == ("second",)
    assert patched.layout.series.read_text() == "# the topics in order\nsecond\n"
    assert patched.read("salt/one.py") == LINES
    assert [name for name in files if (patched.layout.salt / name).exists()] == []
    assert patched.run("check").code == 0
    patched.git("add", "--all")
    patched.git("commit", "--quiet", "-m", "without first")
    other = clone()
    assert other.ids() == patched.ids()
    assert other.run("save").out == "nothing to save\n"


def test_topic_without_new_files_can_go(patched: Project) -> None:
    """A topic that only changes upstream's files goes as well, and all is as before it came."""
    before = everything(patched)
    patched.edit("salt/one.py", 20, "more")
    assert patched.run("save", "--new", "third").code == 0
    ended = patched.run("drop", "third")
    assert (ended.code, ended.err) == (0, "")
    assert everything(patched) == before


def test_last_topic_can_go(patched: Project) -> None:
    """Without any topic the tree is the release."""
    assert patched.run("drop", "second").code == 0
    assert patched.run("drop", "first").code == 0
    assert patched.layout.series.read_text() == "# the topics in order\n"
    assert (patched.read("salt/one.py"), patched.read("salt/two.py")) == (LINES, LINES)
    assert patched.run("check").code == 0


def test_later_patches_are_written_again(patched: Project) -> None:
    """A later topic of the same file is moved to the file without the dropped one's lines."""
    patched.edit("salt/one.py", 30, "far away")
    assert patched.run("save", "--new", "third").code == 0
    ended = patched.run("drop", "first", "--json")
    assert (ended.code, ended.data["written"]) == (0, ["third"])
    assert patched.read("salt/one.py") == LINES.replace("line 30\n", "far away\n")
    assert ("drift", "third") not in {
        (one["rule"], one["subject"]) for one in patched.run("check", "--json").data["findings"]
    }


def test_topic_that_another_builds_on_stays(patched: Project) -> None:
    """When a later topic changes the same lines nothing is changed, and the message names both."""
    patched.edit("salt/one.py", 6, "beside it")
    assert patched.run("save", "--new", "third", "salt/one.py").code == 0
    path = patched.layout.patch("third")
    path.write_text(path.read_text().replace("Requires: first\n", ""))
    patched.run("apply")
    before = everything(patched)
    ended = patched.run("drop", "first")
    assert ended.code == 4
    assert "'first' can't go alone: 'third' changes the same lines of salt/one.py" in ended.err
    assert everything(patched) == before


def test_topic_that_another_requires_stays(patched: Project) -> None:
    """The topics that need it are named."""
    path = patched.layout.patch("second")
    path.write_text(path.read_text().replace("Remove-When: merged\n", "Requires: first\nRemove-When: merged\n"))
    patched.run("apply")
    before = everything(patched)
    ended = patched.run("drop", "first")
    assert (ended.code, ended.err) == (
        2,
        "patches: second requires 'first': drop that first, or change its 'Requires:'.\n",
    )
    assert everything(patched) == before


@pytest.mark.parametrize(("prepare", "code"), [("edit", 3), ("nosuch", 2)])
def test_nothing_goes_by_mistake(patched: Project, prepare: str, code: int) -> None:
    """With unsaved edits, or of a name that is no topic, nothing is changed."""
    if prepare == "edit":
        patched.edit("salt/two.py", 20, "not saved")
    before = everything(patched)
    assert patched.run("drop", "nosuch" if prepare == "nosuch" else "first").code == code
    assert everything(patched) == before


def test_a_copy_stays(patched: Project) -> None:
    """The patch and its files, as they were, can be had back, committed or not."""
    patch = patched.layout.patch("first").read_bytes()
    name = next(name for name in read_series(patched.layout).get("first").files if name.endswith(".py"))
    patched.write(name, "never committed\n")
    copy = Path(patched.run("drop", "first", "--json").data["copy"])
    assert (copy / "first.patch").read_bytes() == patch
    assert (copy / "salt" / name).read_text() == "never committed\n"


def test_folders_of_its_own_go(made: Project) -> None:
    """A folder that only its files kept is gone, and those of upstream stay."""
    made.write("salt/ours/deep/one.py", "x = 1\n")
    made.write("tests/pytests/unit/ours/test_it.py", "def test_it():\n    assert True\n")
    assert made.run("save", "--new", "first").code == 0
    assert made.run("drop", "first").code == 0
    assert not (made.layout.salt / "salt/ours").exists()
    assert not (made.layout.salt / "tests/pytests/unit/ours").exists()
    assert (made.layout.salt / "tests/pytests/unit/test_one.py").exists()
