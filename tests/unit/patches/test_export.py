"""`export`: full patches and their series, as distributions take them."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from patches.git import Git
from patches.series import read_series

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.patches.conftest import Project


def pristine(project: Project, folder: Path) -> Git:
    """Unpack the release into a git repository of its own."""
    shutil.copytree(project.layout.stock, folder)
    shutil.rmtree(folder / "salt.egg-info", ignore_errors=True)
    git = Git(folder / ".git", folder)
    git.run("init", "--quiet", "--template=")
    git.run("add", "--force", ".")
    git.run("commit", "--quiet", "-m", "pristine")
    return git


def test_git_quiltimport_makes_the_same_tree(patched: Project, tmp_path: Path) -> None:
    """Patches, their order and their new files are all there."""
    made = patched.run("export", "--output", str(tmp_path / "patches"), "--json").data
    assert made["tree"] == patched.ids()[1]
    git = pristine(patched, tmp_path / "salt")
    git.run("quiltimport", "--patches", str(tmp_path / "patches"))
    assert git.text("rev-parse", "HEAD^{tree}") == made["tree"]
    assert git.text("log", "--format=%s|%an", "HEAD~2..") == (
        "Change second|Saltbed contributors\nChange first|Saltbed contributors"
    )


@pytest.mark.skipif(shutil.which("patch") is None, reason="patch is not there: apt-get install patch")
def test_patch_makes_the_same_tree(patched: Project, tmp_path: Path) -> None:
    """So it is with `patch -p1` in the order of the series, which is what quilt does."""
    made = patched.run("export", "--output", str(tmp_path / "patches"), "--json").data
    git = pristine(patched, tmp_path / "salt")
    for name in (tmp_path / "patches/series").read_text().split():
        with (tmp_path / "patches" / name).open("rb") as stream:
            command = ["patch", "-p1", "--fuzz=0", "--silent"]
            subprocess.run(command, stdin=stream, cwd=git.work_tree, check=True)
    git.run("add", "--force", ".")
    assert git.text("write-tree") == made["tree"]


def test_a_topic_comes_with_what_it_requires(patched: Project, tmp_path: Path) -> None:
    """And with nothing else."""
    assert patched.run("export", "second", "--json", "--output", str(tmp_path / "one")).data["topics"] == ["second"]
    path = patched.layout.patch("second")
    path.write_text(path.read_text().replace("Remove-When: merged\n", "Requires: first\nRemove-When: merged\n"))
    patched.run("apply")
    made = patched.run("export", "second", "--json", "--output", str(tmp_path / "two")).data
    assert made["topics"] == ["first", "second"]
    assert (tmp_path / "two/series").read_text() == "first.patch\nsecond.patch\n"


def test_code_alone(patched: Project, tmp_path: Path) -> None:
    """For an installed Salt, which has no tests."""
    assert patched.run("export", "--code", "--output", str(tmp_path / "code")).code == 0
    text = (tmp_path / "code/first.patch").read_text()
    assert "+++ b/salt/one.py" in text
    assert "+++ b/tests" not in text
    assert "+++ b/changelog" not in text


def test_same_bytes_each_time(patched: Project, tmp_path: Path) -> None:
    """A distribution sees what changed, and nothing else."""
    for name in ("one", "two"):
        assert patched.run("export", "--output", str(tmp_path / name)).code == 0
    found = [{path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("one", "two")]
    assert found[0] == found[1]
    assert set(found[0]) == {"series", *(f"{topic}.patch" for topic in read_series(patched.layout).topics)}


@pytest.mark.parametrize("what", ["topic", "folder", "edits"])
def test_wrong_use(patched: Project, tmp_path: Path, what: str) -> None:
    """No such topic, a folder of somebody, and edits that would be missing."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/letter").touch()
    if what == "edits":
        patched.edit("salt/one.py", 20, "more")
    arguments = {"topic": ["nosuch"], "folder": ["--output", str(tmp_path / "mine")], "edits": []}[what]
    assert patched.run("export", *arguments).code == (3 if what == "edits" else 2)
    assert (tmp_path / "mine/letter").exists()
