"""`save --patch` and `save --diff`: two hunks of one file go to two topics."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from patches.series import read_series

if TYPE_CHECKING:
    from tests.unit.patches.conftest import Project

ROOT = Path(__file__).parents[3]


@pytest.fixture
def edited(patched: Project) -> Project:
    """Give the project with two edits of one file, far from each other."""
    patched.edit("salt/one.py", 15, "for first")
    patched.edit("salt/one.py", 35, "for second")
    return patched


def added(project: Project, topic: str) -> list[str]:
    """Give the lines that a patch adds."""
    lines = project.layout.patch(topic).read_text().splitlines()
    return [line[1:] for line in lines if line.startswith("+") and not line.startswith("+++")]


def answer(project: Project, answers: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `save --patch` on a terminal and type answers."""
    command = [sys.executable, "-m", "patches", "save", "--root", str(project.root), "--patch", *arguments]
    ours, theirs = pty.openpty()
    try:
        os.write(ours, answers.encode())
        return subprocess.run(command, cwd=ROOT, stdin=theirs, capture_output=True, text=True, check=False, timeout=60)
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.slow
def test_hunks_are_asked_for(edited: Project) -> None:
    """One hunk goes to each topic, as answered; what is left is told and stays an edit."""
    ended = answer(edited, "y\nn\n", "--topic", "first")
    assert ended.returncode == 0, ended.stderr
    assert "left: edits of salt/one.py are not saved yet" in ended.stdout
    assert added(edited, "first") == ["changed by first", "for first"]
    assert edited.tree.edits() == ("salt/one.py",)
    assert answer(edited, "y\n", "--topic", "second").returncode == 0
    assert added(edited, "second") == ["for second", "changed by second"]
    assert edited.run("check").code == 0
    assert [line for line in edited.read("salt/one.py").splitlines() if line.startswith("for ")] == [
        "for first",
        "for second",
    ]


def test_no_hunk_saves_nothing(edited: Project) -> None:
    """Who says no to all has what he had."""
    before = edited.layout.patch("first").read_bytes()
    ended = answer(edited, "q\n", "--topic", "first")
    assert (ended.returncode, "nothing to save" in ended.stdout) == (0, True)
    assert edited.layout.patch("first").read_bytes() == before
    assert edited.tree.edits() == ("salt/one.py",)


def test_a_diff_takes_the_place_of_the_answers(edited: Project, tmp_path: Path) -> None:
    """A script says which hunks it means with a diff of the tree."""
    whole = edited.tree.diff().decode()
    head, _, second = whole.rpartition("@@ -3")
    (tmp_path / "second.diff").write_text(head.partition("@@ -")[0] + "@@ -3" + second)
    ended = edited.run("save", "--topic", "second", "--diff", str(tmp_path / "second.diff"), "--json")
    assert ended.code == 0, ended.out
    assert ended.data["unsaved"] == ["salt/one.py"]
    assert added(edited, "second") == ["for second", "changed by second"]
    assert edited.run("save").out.startswith("first: salt/one.py\n") or edited.run("check").code == 1
    assert edited.run("save", "--topic", "first", "salt/one.py").code == 0
    assert "for first" in added(edited, "first")
    assert edited.run("check").code == 0


def test_a_new_topic_of_one_hunk(edited: Project, tmp_path: Path) -> None:
    """A hunk can begin a topic."""
    whole = edited.tree.diff().decode()
    head, _, second = whole.rpartition("@@ -3")
    (tmp_path / "third.diff").write_text(head.partition("@@ -")[0] + "@@ -3" + second)
    assert edited.run("save", "--new", "third", "--diff", str(tmp_path / "third.diff")).code == 0
    assert added(edited, "third") == ["for second"]
    assert read_series(edited.layout).get("third").requires == ()
    assert edited.tree.edits() == ("salt/one.py",)


@pytest.mark.parametrize("what", ["other", "new", "no diff", "missing"])
def test_a_diff_of_something_else_is_refused(edited: Project, tmp_path: Path, what: str) -> None:
    """What is no part of the edits is not saved, and nothing is changed."""
    before = edited.layout.patch("first").read_bytes()
    diff = tmp_path / "some.diff"
    texts = {
        "other": edited.tree.diff().decode().replace("+for first", "+for nobody"),
        "new": "diff --git a/new.py b/new.py\nnew file mode 100644\n--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+new\n",
        "no diff": "hello\n",
    }
    if what == "new":
        edited.write("new.py", "new\n")
    if what in texts:
        diff.write_text(texts[what])
    ended = edited.run("save", "--topic", "first", "--diff", str(diff))
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert edited.layout.patch("first").read_bytes() == before
    assert edited.tree.edits() == ("salt/one.py",)


def test_hunks_of_no_topic_are_refused(edited: Project) -> None:
    """It has to be said whose they are."""
    ended = edited.run("save", "--patch")
    assert (ended.code, "--patch and --diff need --topic NAME" in ended.err) == (2, True)
